/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks rows of CSV without cutting them into fields: where each row ends, whether it has as many
 * separators as it should, and whether its quotes are where they belong. Takes 64 bytes at a time,
 * like boundary_scan.h. A row that is not plain stops the run; the caller parses that row and
 * starts the next run behind it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero it, then set the first four members. Positions count from the first byte of the first
 * run. */
struct rows {
    char separator;
    size_t n_separators; /* that each row should have */
    size_t *ends;        /* filled with the position behind each row's LF; NULL: not filled */
    size_t ends_max;     /* the run stops when it has found so many; 0: no limit */

    size_t n_rows;  /* whole and plain; blank lines are not rows */
    size_t n_crlf;  /* rows and blank lines that end with CR LF */
    size_t n_lf;    /* rows and blank lines that end with LF alone */
    size_t row_at;  /* where the open row begins: behind the last one that ended */
    size_t odd_end; /* end of the row at row_at if that row is not plain; 0: no such row so far */
    bool is_full;   /* ends_max rows were found */

    /* The open row: */
    size_t n_bytes;     /* how far the runs have come */
    size_t n_open;      /* separators so far */
    bool is_bad;        /* a quote, CR or NUL where none belongs */
    uint64_t inside;    /* all ones within quotes, else 0 */
    uint64_t in_field;  /* 1 if the byte before is part of a field that is still open */
    uint64_t was_close; /* 1 if the byte before was a closing quote */
    uint64_t was_cr;    /* 1 if the byte before was a CR outside quotes */
};

/* Checks the whole blocks of [at, at+len), up to the first row that stops the run. */
void rows_blocks(struct rows *rows, const char *at, size_t len);

static inline bool rows_is_stopped(const struct rows *rows)
{
    return rows->odd_end > 0 || rows->is_full;
}
