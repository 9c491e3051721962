/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's stdout or stderr on its way into a file and onto the console. The file gets the bytes
 * as they are, up to a size cap with rotation (name.log, name.log.1 …); a worker that floods it at
 * 1 GB/s costs bounded disk. The console gets whole lines with a prefix, `\r` bars folded to their
 * last state.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct logfile;

struct logfile_opts {
    const char *path;
    uint64_t cap_bytes;   /* per file; 0 = 64 MiB */
    unsigned keep;        /* rotated files kept beside the current one; 0 = 1 */
    const char *headline; /* a dated line written first (a new attempt appends under it) */
};

MUST_CHECK int logfile_open(struct logfile **out, const struct logfile_opts *opts, struct err *err);
/* Errors are remembered, not returned: a log must not end a run. See logfile_error(). */
void logfile_add(struct logfile *file, struct str bytes);
/* The last `max` bytes that passed through, cut to whole lines, for messages and verdicts. */
void logfile_tail(const struct logfile *file, size_t max, struct buf *out);
/* 0 or the errno of the first write that failed. */
int logfile_error(const struct logfile *file);
uint64_t logfile_bytes(const struct logfile *file);
void logfile_close(struct logfile *file);

/*
 * Console lines of many workers: prefix "[gpu 0] " (the caller writes brackets and space), lines
 * that several workers print alike within a moment folded to "[gpu 0-7] … (x8)", `\r` folded, at
 * most `lines_per_s` a worker (the rest is counted: "1,204 lines more in gpu_0_stderr.log"), lines
 * over 4 KiB cut. Only text and colours pass: a worker cannot wreck the terminal. Output is handed
 * to `emit`, whole lines, at most one call a flush. Memory is bounded whatever arrives.
 */
struct console;
struct console_opts {
    void (*emit)(void *context, struct str lines);
    void *context;
    unsigned lines_per_s; /* 0 = 20 */
    uint64_t fold_ms;     /* how long a line waits for its like from other workers; 0 = 200 */
    bool plain;           /* drop colours too (NO_COLOR, not a terminal) */
};
struct console *console_new(const struct console_opts *opts);
void console_free(struct console *console);
/* id: any number that tells apart the workers' streams. */
void console_add(struct console *console, uint32_t id, const char *prefix, struct str bytes,
                 uint64_t now_ms);
/* The file that "N lines more in …" points to; without one it says "N lines more". */
void console_name_file(struct console *console, uint32_t id, const char *file);
/* The stream has ended: its unfinished line counts as a line, then the stream is forgotten. */
void console_end(struct console *console, uint32_t id, uint64_t now_ms);
/*
 * Emit what is due; with `all`, everything, also unfinished lines. Returns ms until the next is
 * due, UINT64_MAX if nothing waits.
 */
uint64_t console_flush(struct console *console, uint64_t now_ms, bool all);
/* The last complete line of a stream, or state of its `\r` bar, without colours, for the progress
 * display; "" if none. Borrowed until the next console_add. */
const char *console_last(const struct console *console, uint32_t id);
