/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of CSV looked at without being taken apart: where each ends, and whether it has as many
 * separators as it should and its quotes where they belong. 64 bytes at a time, like
 * boundary_scan.h. A row that is not plain stops the run; the caller takes it apart and goes on
 * behind it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero it, say the first four; positions count from the first byte of the first run. */
struct rows {
    char separator;
    size_t n_separators; /* that a row has */
    size_t *ends;        /* behind each row's LF; NULL: nobody wants to know */
    size_t ends_max;     /* the run stops with so many; 0: no matter */

    size_t n_rows;  /* whole and plain; lines with nothing in them are no rows */
    size_t n_crlf;  /* rows, and lines with nothing in them, that end with CR LF */
    size_t n_lf;    /* or with LF alone */
    size_t row_at;  /* where the row that is open begins: behind the last one */
    size_t odd_end; /* behind the row at row_at, which is not plain; 0: none so far */
    bool is_full;   /* there are ends_max */

    /* Of the row that is open. */
    size_t n_bytes;     /* how far the runs have come */
    size_t n_open;      /* separators so far */
    bool is_bad;        /* a quote, CR or NUL where none belongs */
    uint64_t inside;    /* all ones within quotes, else 0 */
    uint64_t in_field;  /* of the byte before: 1 if a field goes on behind it */
    uint64_t was_close; /* 1 if it was a closing quote */
    uint64_t was_cr;    /* 1 if it was a CR outside quotes */
};

/* Whole blocks of [at, at+len), up to the first row that stops the run. */
void rows_blocks(struct rows *rows, const char *at, size_t len);

static inline bool rows_is_stopped(const struct rows *rows)
{
    return rows->odd_end > 0 || rows->is_full;
}
