/* SPDX-License-Identifier: Apache-2.0
 *
 * Record boundaries, found 64 bytes at a time without parsing: newlines for lines and JSONL,
 * newlines outside quotes for CSV (quote parity; "" toggles twice), commas at depth 1 outside
 * strings for a JSON array. Each block becomes bit masks. A prefix xor over the quotes gives the
 * bytes inside quotes, and one addition carries the presence of content to the next end, which
 * tells records from blank lines.
 *
 * The state at the start of a record is always the same, so reading may begin at any record.
 */
#pragma once

#include "data/boundaries/rows.h"
#include "data/source.h"

enum {
    SCAN_BLOCK_BYTES = 64
};

enum scan_flaw {
    SCAN_NUL = 1 << 0,           /* CSV: a NUL byte */
    SCAN_EMPTY_ELEMENT = 1 << 1, /* JSON: two commas, or a comma before the end */
    SCAN_AFTER_END = 1 << 2,     /* JSON: something behind the closing bracket */
};

struct boundary_scan {
    enum record_format format;
    uint64_t inside;      /* all ones within quotes or a JSON string, else 0 */
    uint64_t has_content; /* 1 when the open record has something other than blanks so far */
    uint64_t is_escaped;  /* JSON: 1 when the next byte follows a backslash */
    int64_t depth;        /* JSON: 1 between elements, 0 behind the array */
    bool is_first;        /* JSON: no element yet, so "]" may follow at once */
    unsigned flaws;       /* bits of enum scan_flaw; the scan stops at a block with a flaw */
};

/* What a scan found. Zero it, set ends_max, and pass it to as many scans as needed. */
struct boundary_tally {
    uint64_t ends_max; /* the scan stops right behind this many ends; UINT64_MAX: never */
    uint64_t n_ends;
    uint64_t n_newlines; /* newlines up to and with the last end */
    uint64_t n_seen;     /* newlines in all bytes so far */
    size_t after_end;    /* position behind the last end, 0 if none */
    size_t n_bytes;      /* scanned so far */
    bool has_cr;
};

/* The state at the start of a record. */
struct boundary_scan boundary_scan_begin(enum record_format format);

/* One kernel per instruction set; all give the same results (a test compares them). */
struct scan_kernel {
    const char *name;
    bool (*is_usable)(void);
    void (*run)(struct boundary_scan *scan, const unsigned char *at, size_t n_blocks,
                struct boundary_tally *tally);
    void (*rows)(struct rows *rows, const unsigned char *at, size_t n_blocks);
};

/* Scans the whole blocks of [at, at+len). */
void boundary_scan_blocks(struct boundary_scan *scan, const char *at, size_t len,
                          struct boundary_tally *tally);
/*
 * Scans fewer than 64 bytes. Afterwards only has_content, inside and depth of the state may be
 * used.
 */
void boundary_scan_tail(struct boundary_scan *scan, const char *at, size_t len,
                        struct boundary_tally *tally);

/* boundary_scan_blocks() and then boundary_scan_tail(), up to the end of a text; afterwards the
 * state is as boundary_scan_tail() leaves it. */
void boundary_scan_all(struct boundary_scan *scan, const char *at, size_t len,
                       struct boundary_tally *tally);

static inline bool boundary_scan_is_stopped(const struct boundary_scan *scan,
                                            const struct boundary_tally *tally)
{
    return tally->n_ends == tally->ends_max || scan->flaws;
}
