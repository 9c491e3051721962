/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to value and back, for what people type: whole numbers, sizes ("16GiB"), durations ("90s"),
 * percentages. Each takes a view and refuses trailing text. The errors carry ERR_USAGE.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

MUST_CHECK int u64_parse(struct str text, uint64_t min, uint64_t max, uint64_t *out,
                         struct err *err);
/* As Python's int() reads it: blanks around it, + before it, and a single _ between digits. */
MUST_CHECK int python_u64_parse(struct str text, uint64_t min, uint64_t max, uint64_t *out,
                                struct err *err);
MUST_CHECK int double_parse(struct str text, double *out, struct err *err);

/* "512", "16GiB", "1.5M", "20 GB". K M G T (and KiB …) are powers of 1024; KB MB GB TB of 1000. */
MUST_CHECK int size_parse(struct str text, uint64_t *out_bytes, struct err *err);
/* "1.5 GiB": at most 4 significant characters, powers of 1024. */
void size_format(char out[16], uint64_t bytes);

/* "250ms", "90", "90s", "1.5m", "2h", "1d", "1h30m"; a bare number is seconds. */
MUST_CHECK int duration_parse(struct str text, uint64_t *out_ms, struct err *err);
/* "850 ms", "12.3 s", "4 m 05 s", "2 h 03 m", "3 d 04 h". */
void duration_format(char out[24], uint64_t ms);

/* The plural ending of a counted noun: "s", but "" for 1. */
static inline const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}
static inline const char *counted_noun(uint64_t count, const char *one, const char *many)
{
    return count == 1 ? one : many;
}

/* 1234567 as "1,234,567". */
void count_format(char out[32], uint64_t count);
/* To three figures, or in whole numbers: "1234", "19.6", "0.0833". */
void figures_format(char out[24], double value);
/* Rounded down to a tenth, so that it is 100 only if nothing is left. `whole` is not 0. */
double percent_of(uint64_t part, uint64_t whole);
