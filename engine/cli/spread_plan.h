/* SPDX-License-Identifier: Apache-2.0
 *
 * How influences are cut into items for `muster map`: an item is a block of test triples times a
 * range of training triples. Pure. The cut depends on the sizes and on the filters of the tests,
 * never on the number of devices, so that results do not depend on that number.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracin/tracin.h"

enum spread_form {
    SPREAD_TOPS, /* an item's answer holds the best of its range for each test triple */
    SPREAD_ROWS  /* an item writes all its influences into a file that the items share */
};

struct spread_sizes {
    size_t n_train;
    size_t top_k;     /* 0: all influences */
    size_t tests_max; /* the most test triples that fit into memory at once */
    bool is_matrix;   /* a row has a place for every training triple, in their order */
};

struct spread_block {
    size_t first_test, n_tests;
    size_t n_subset; /* the training triples that count for any test of the block */
    size_t first_item;
    uint64_t first_value; /* where its rows begin in the file, in numbers */
};

struct spread_plan {
    enum spread_form form;
    bool is_in_order; /* training triples by index, not grouped by head and relation */
    size_t train_per_item;
    struct spread_block *blocks;
    size_t n_blocks, n_items;
    uint64_t n_values; /* how many numbers the file of rows has */
};

struct spread_item {
    const struct spread_block *block;
    size_t begin, n; /* the range: positions in the order of the block's training triples */
};

/* n_tests 0: the plan is for the influences of the training triples on themselves, in one row. */
void spread_plan_init(struct spread_plan *plan, const struct spread_sizes *sizes,
                      const struct tracin_test *tests, size_t n_tests);
void spread_plan_release(struct spread_plan *plan);
/* Precondition: index < n_items. */
struct spread_item spread_plan_item(const struct spread_plan *plan, size_t index);
/*
 * Where the item's piece of a test's row begins in the file of rows, in numbers. `test` counts from
 * the first test of the block.
 */
uint64_t spread_item_value(const struct spread_item *item, size_t test);

/*
 * The indices of a block's training triples in the order of its ranges; a new array. Unless the
 * plan is_in_order, triples of one head and relation are neighbours, as in tracin_run(): they share
 * half of the work.
 */
uint32_t *spread_order_new(const struct spread_plan *plan, const struct spread_block *block,
                           const struct tracin_test *tests, const struct triple *train,
                           size_t n_train);
/* True if the training triple counts for the test. */
bool spread_is_wanted(const struct tracin_test *test, uint32_t train_index);
