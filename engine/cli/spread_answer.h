/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker answers to an item: a line of JSON, with numbers as the hexadecimal digits of their bytes, so that
 * they are the same on both sides.
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
    uint64_t worker, life; /* on which seat, and which process */
    uint64_t load_ms, work_ms;
    struct buf selves, tops; /* bytes */
};

void spread_answer_release(struct spread_answer *answer);
void spread_tops_add(struct buf *tops, const struct tracin_influence *at, size_t n);
void spread_answer_format(const struct spread_answer *answer, struct buf *out);
/* ERR_DATA if it is no answer. What the answer holds is replaced. */
MUST_CHECK int spread_answer_parse(struct spread_answer *answer, struct str line, struct err *err);
/* Number `test` of the selves. Precondition: there are as many. */
double spread_answer_self(const struct spread_answer *answer, size_t test);

/* Walks the tops: how many the next test has, then those. False where they end too early. */
struct spread_tops {
    struct str rest;
};
bool spread_tops_count(struct spread_tops *tops, size_t *n);
bool spread_tops_next(struct spread_tops *tops, struct tracin_influence *next);
