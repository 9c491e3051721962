/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the file that a program left on this machine, and whether it is new. May run on any thread.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* The state of a file at one moment. It changes if the file is written to or replaced. */
struct file_trace {
    char *path;
    uint64_t device, inode, bytes;
    int64_t mtime_ns;
};
struct file_traces {
    struct file_trace *at;
    size_t len;
};
void file_traces_release(struct file_traces *traces);

struct left_ask {
    const char *option;  /* "--collect", for messages */
    const char *pattern; /* of glob(); NULL: the file is `path` */
    const char *path;
    /* a file written before this time is old (clock_file_ns); 0: only `before` decides */
    int64_t since_ns;
};

struct left_file {
    bool is_absent;          /* no new file has such a name; there may be one under another name */
    char *name;              /* as matched by the pattern */
    struct file_trace trace; /* its path is absolute */
};
void left_file_release(struct left_file *file);

/* Notes the files that exist before the program starts; they do not count unless they are written again. */
MUST_CHECK int left_files_before(const struct left_ask *ask, struct file_traces *before,
                                 struct err *err);
/* ERR_DATA, with the cure, if there is none, only an old one, or more than one. ERR_STOPPED: its disk is full, and a
 * program need not have noticed. */
MUST_CHECK int left_file_find(const struct left_ask *ask, const struct file_traces *before,
                              struct left_file *out, struct err *err);
/* Opens a file for its transfer to another machine, and notes its state; free() its path. ERR_DATA if it is a link, or
 * no regular file. */
MUST_CHECK int file_trace_open(const char *path, struct file_trace *now, int *fd, struct err *err);
/* The same of a file that was found before. ERR_UNAVAILABLE if it is gone or has changed; left_file_is_other() then. */
MUST_CHECK int left_file_open(const struct file_trace *trace, int *fd, struct err *err);
/* The same of a file that is open. */
MUST_CHECK int left_file_unchanged(const struct file_trace *trace, int fd, struct err *err);
/* Does the error, perhaps of another machine, mean that such a file is gone or has changed? */
bool left_file_is_other(const struct err *err);
