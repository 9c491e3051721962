/* SPDX-License-Identifier: Apache-2.0
 *
 * The shortest correct way to split a text into records, one byte at a time: the oracle.
 */
#pragma once

#include "data/source.h"

struct naive {
    struct buf lines; /* the items, each ended by LF, as source_lines gives them (raw for CSV) */
    size_t *begins;   /* item i is lines[begins[i] .. begins[i+1]-1) */
    uint64_t n_items, cap;
    bool has_lines;    /* some raw CSV record has several lines */
    bool is_malformed; /* ends inside quotes or an array, holds NUL in CSV, … : to be refused */
};

/* Not for CSV conversion: CSV items are the raw records. */
void naive_split(struct naive *naive, struct str text, enum record_format format);
void naive_release(struct naive *naive);
