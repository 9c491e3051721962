/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's stdout or stderr on its way into a file and onto the console. The file gets the bytes
 * as they are. At a size cap it is rotated (name.log, name.log.1 …), so that even a worker that
 * writes 1 GB/s takes bounded disk space. The console gets whole lines with a prefix; of a progress
 * bar drawn with `\r` it gets the last state.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct logfile;

struct logfile_opts {
    const char *path;
    uint64_t cap_bytes;   /* per file; 0 = 64 MiB */
    unsigned keep;        /* rotated files kept beside the current one; 0 = 1 */
    const char *headline; /* written first, as a line with the time; each attempt has its own */
};

MUST_CHECK int logfile_open(struct logfile **out, const struct logfile_opts *opts, struct err *err);
/* Errors are kept for logfile_error(), not returned: a log must not end a run. */
void logfile_add(struct logfile *file, struct str bytes);
/* The last `max` bytes that passed through, cut to whole lines, for messages and verdicts. */
void logfile_tail(const struct logfile *file, size_t max, struct buf *out);
/* 0 or the errno of the first write that failed. */
int logfile_error(const struct logfile *file);
uint64_t logfile_bytes(const struct logfile *file);
void logfile_close(struct logfile *file);

/*
 * Console lines of many workers. Each line has a prefix, "[gpu 0] " (the caller passes it with
 * brackets and space). Equal lines that several workers print within fold_ms become one,
 * "[gpu 0-7] … (x8)". Of a `\r` bar the last state is shown. Lines over 4 KiB are cut. At most
 * lines_per_s lines of each stream are shown; the rest are counted ("1,204 lines more in
 * gpu_0_stderr.log"). Only text and colours pass: a worker cannot send the terminal other escape
 * sequences. `emit` gets whole lines, at most once per flush. Memory is bounded whatever arrives.
 */
struct console;
struct console_opts {
    void (*emit)(void *context, struct str lines);
    void *context;
    unsigned lines_per_s; /* 0 = 20 */
    uint64_t fold_ms;     /* how long a line waits for equal lines of other workers; 0 = 200 */
    bool plain;           /* drop colours too (NO_COLOR, not a terminal) */
};
struct console *console_new(const struct console_opts *opts);
void console_free(struct console *console);
/* id: any number that tells apart the workers' streams. */
void console_add(struct console *console, uint32_t id, const char *prefix, struct str bytes,
                 uint64_t now_ms);
/* Names the file that "N lines more in …" points to. Without a name the text is "N lines more". */
void console_name_file(struct console *console, uint32_t id, const char *file);
/* The stream has ended: its unfinished line counts as a line, then the stream is forgotten. */
void console_end(struct console *console, uint32_t id, uint64_t now_ms);
/*
 * Emits the lines that are due; with `all` every line, also unfinished ones. Returns the
 * milliseconds until the next line is due, UINT64_MAX if none waits.
 */
uint64_t console_flush(struct console *console, uint64_t now_ms, bool all);
/* For the progress display: the last complete line of a stream, or the last state of its `\r` bar,
 * without colours; "" if none. Borrowed until the next console_add. */
const char *console_last(const struct console *console, uint32_t id);
