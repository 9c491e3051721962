/* SPDX-License-Identifier: Apache-2.0
 *
 * How influences are cut into items for `muster map`: a block of test triples times a range of training triples.
 * Pure, and a function of sizes alone: the number of devices does not enter, so that results do not depend on it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracin/tracin.h"

enum spread_form {
    SPREAD_TOPS, /* an item's answer holds the best of its range, for each test triple */
    SPREAD_ROWS  /* it writes all of them into a file that the items share */
};

struct spread_sizes {
    size_t n_train;
    size_t top_k;     /* 0: all */
    size_t tests_max; /* as many test triples as memory takes at once */
    bool is_matrix;   /* a row has a place for every training triple, in their order */
};

struct spread_block {
    size_t first_test, n_tests;
    size_t n_subset; /* the training triples that count for any of them */
    size_t first_item;
    uint64_t first_value; /* of its rows in the file */
};

struct spread_plan {
    enum spread_form form;
    bool
        is_in_order; /* training triples as they come, not those of one head and relation together */
    size_t train_per_item;
    struct spread_block *blocks;
    size_t n_blocks, n_items;
    uint64_t n_values; /* in the file of rows */
};

struct spread_item {
    const struct spread_block *block;
    size_t begin, n; /* of the block's training triples */
};

/* The filters of the tests are looked at. Without a test: the training triples on themselves, one row. */
void spread_plan_init(struct spread_plan *plan, const struct spread_sizes *sizes,
                      const struct tracin_test *tests, size_t n_tests);
void spread_plan_release(struct spread_plan *plan);
/* Precondition: index < n_items. */
struct spread_item spread_plan_item(const struct spread_plan *plan, size_t index);
/* Where the piece of the item's test `test` begins in the file of rows, in numbers. */
uint64_t spread_item_value(const struct spread_item *item, size_t test);

/*
 * The training triples of a block in the order of its ranges; free() it. Those of one head and relation are
 * neighbours, as tracin_run has them: they share half of the work.
 */
uint32_t *spread_order_new(const struct spread_plan *plan, const struct spread_block *block,
                           const struct tracin_test *tests, const struct triple *train,
                           size_t n_train);
/* Does a training triple count for a test? */
bool spread_is_wanted(const struct tracin_test *test, uint32_t train_index);
