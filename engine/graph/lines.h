/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a text file line by line, in pieces: memory grows with the longest line only, whose length
 * is bounded. Lines are UTF-8. The ends of lines (LF or CRLF) and a byte-order mark at the
 * beginning of the file are no part of them.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "graph/flaws.h"

enum {
    LINE_BYTES_MAX = 1 << 20,
    FIELDS_MAX = 8
};

struct lines {
    const char *path; /* borrowed, for messages */
    int fd;
    struct buf pending;
    size_t at;       /* where the next line begins in pending */
    uint64_t number; /* the number of the line that was given last, from 1 */
    uint64_t n_crlf, first_crlf;
    bool has_mark, is_at_end;
};

#define LINES_INIT \
    {              \
        .fd = -1   \
    }

/* ERR_USAGE if the file cannot be opened. */
MUST_CHECK int lines_open(struct lines *lines, const char *path, struct err *err);
void lines_close(struct lines *lines);
#define cleanup_lines __attribute__((cleanup(lines_close)))
/*
 * Returns 1 and the next line, which is borrowed until the next call; 0 at the end. ERR_DATA: a
 * line has more than LINE_BYTES_MAX bytes, or is not UTF-8.
 */
MUST_CHECK int lines_next(struct lines *lines, struct str *line, struct err *err);
/* Adds the notes about line ends (CRLF) and the byte-order mark to `flaws`. */
void lines_notes(const struct lines *lines, struct flaws *flaws);

/* Cuts a line at tabs; returns how many fields it has. At most FIELDS_MAX are stored. */
size_t line_fields(struct str line, struct str fields[FIELDS_MAX]);
