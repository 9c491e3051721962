/* SPDX-License-Identifier: Apache-2.0
 *
 * answers.json: the answers to the last orders (orders.h) to the muster that works on a run. Replaced atomically and
 * never synced.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct order_answer {
    const char *order;   /* its name */
    const char *refused; /* why; NULL: it was carried out */
    const char *told;    /* the answer's text; NULL: none */
    bool is_wrong;       /* refused because it names something that does not exist */
};

MUST_CHECK int order_answers_write(const char *dir, const struct order_answer *answers,
                                   size_t n_answers, struct err *err);
/* NULL members: as in struct order_answer. */
struct found_answer {
    char *refused, *told;
    bool is_wrong;
};
/* False: the order was not answered yet, and *out is empty. */
bool order_answer_find(const char *dir, const char *order, struct found_answer *out);
void found_answer_release(struct found_answer *answer);
