/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a log file, line by line, as it grows and is rotated. For `muster logs`.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct tail {
    char *path;
    char *prefix;    /* "[gpu 0] ", or NULL: the bytes as they are */
    int fd;          /* -1: the file does not exist yet */
    bool is_shown;   /* on a terminal: lines get through as text and colours only */
    bool is_refused; /* it is not a regular file, and that was reported */
    /*
     * Lines for which this function returns true are left out; NULL: none are. It needs a prefix.
     */
    bool (*is_hidden)(const void *context, struct str line);
    const void *context;
    struct buf partial;
};

/* Copies both strings; prefix may be NULL. */
void tail_init(struct tail *tail, const char *path, const char *prefix);
void tail_release(struct tail *tail);
/* Appends the rotated files (path.9 … path.1), the oldest first. */
void tail_add_rotated(struct tail *tail, struct buf *out);
/*
 * Appends at most about 1 MiB of new text to out, each complete line with the prefix, and a `\r`
 * bar folded to its last state. True if there may be more. A rotated file is read to its end before
 * the new one is opened.
 */
bool tail_read(struct tail *tail, struct buf *out);
/* Appends the last line, which may lack its newline. */
void tail_finish(struct tail *tail, struct buf *out);
