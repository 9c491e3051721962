/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker's answer to an item: one line of JSON. Influences are written as the hexadecimal digits
 * of their bytes, so that no bit is lost.
 *
 *   {"item":3,"worker":0,"life":1,"load_ms":812,"work_ms":95,"selves":"<float64...>",
 *    "tops":"<uint32 n, n times uint32 training triple and float64 influence; for each test triple>"}
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "tracin/tracin.h"

struct spread_answer {
    uint64_t item;
    uint64_t worker, life; /* the seat, and the number of the process in the run */
    uint64_t load_ms, work_ms;
    struct buf selves, tops; /* raw bytes, not text */
};

void spread_answer_release(struct spread_answer *answer);
void spread_tops_add(struct buf *tops, const struct tracin_influence *at, size_t n);
void spread_answer_format(const struct spread_answer *answer, struct buf *out);
/* Replaces what *answer holds. ERR_DATA if the line is no answer. */
MUST_CHECK int spread_answer_parse(struct spread_answer *answer, struct str line, struct err *err);
/* The self-influence of test `test` of the block. Precondition: the answer has that many. */
double spread_answer_self(const struct spread_answer *answer, size_t test);

/*
 * Walks the tops: for each test first the count of its influences, then each of them. Both return
 * false if the bytes end too early.
 */
struct spread_tops {
    struct str rest;
};
bool spread_tops_count(struct spread_tops *tops, size_t *n);
bool spread_tops_next(struct spread_tops *tops, struct tracin_influence *next);
