/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses one record of RFC 4180 at a time, and writes fields. TSV is the same with tabs.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* The fields of a record, unquoted, one behind the other in `text`. Reused from row to row. */
struct csv_row {
    struct buf text;
    size_t *ends; /* field i ends at ends[i], and begins where i-1 ended */
    size_t n_fields, cap;
};

#define CSV_ROW_INIT     \
    {                    \
        .text = BUF_INIT \
    }

void csv_row_release(struct csv_row *row);
#define cleanup_csv_row __attribute__((cleanup(csv_row_release)))
void csv_row_add(struct csv_row *row, struct str field);
struct str csv_field(const struct csv_row *row, size_t i);
/*
 * Take a record (without its line end) apart. ERR_DATA: text behind a closing quote; a quote that
 * is not closed; a carriage return outside quotes, where Python and others end the row; and, in a
 * record of several lines, a quote within an unquoted field, because then it is not certain that
 * the record was cut in the right places. In a record of one line such a
 * quote is taken as it stands, as Python and spreadsheets do.
 */
MUST_CHECK int csv_parse(struct csv_row *row, struct str record, char separator, struct err *err);

/* Finds the first place that breaks the rules, its line (from 1) and what is wrong with it. The
 * text begins at a record and is fed in pieces, in order. csv_check_feed() is false while no such
 * place was found. */
struct csv_check {
    char separator;
    int state;                 /* enum in csv.c */
    uint64_t line, quote_line; /* the current line, and that of the open quote */
    uint64_t flaw_line;
    const char *flaw;
};
bool csv_check_feed(struct csv_check *check, struct str text);

/* Adds a field, in quotes if it needs them. */
void csv_add_field(struct buf *out, struct str field, char separator);
