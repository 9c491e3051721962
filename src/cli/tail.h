/* SPDX-License-Identifier: Apache-2.0
 *
 * A log file as it grows and is rotated away, handed on line by line. For `muster logs`.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct tail {
    char *path;
    char *prefix;    /* "[gpu 0] ", or NULL: the bytes as they are */
    int fd;          /* -1: not there yet */
    bool is_shown;   /* on a terminal: lines get through as text and colours only */
    bool is_refused; /* it is no file, and that was said */
    struct buf partial;
};

/* Copies both; prefix may be NULL. */
void tail_init(struct tail *tail, const char *path, const char *prefix);
void tail_release(struct tail *tail);
/* What rotation has put aside (path.9 … path.1), oldest first, then nothing more. */
void tail_add_rotated(struct tail *tail, struct buf *out);
/*
 * Append at most about 1 MiB of what is new to out, each complete line with the prefix, a `\r` bar
 * folded to its last state. True if there may be more. A rotated file is read to its end before the
 * new one is opened.
 */
bool tail_read(struct tail *tail, struct buf *out);
/* The last line, though it has no end. */
void tail_finish(struct tail *tail, struct buf *out);
