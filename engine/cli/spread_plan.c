/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spread_plan.h"

#include <stdlib.h>

#include "base/xalloc.h"

enum {
    TILE = 256, /* as in tracin/plan.c: a range of whole tiles is computed as in one single run */
    RANGE_USUAL = 4 * TILE,
    ITEMS_A_BLOCK = 256, /* enough for any machine; a worker that dies loses at most one item */
    ITEMS_WANTED = 32,   /* a few for each of eight devices, if the work can be cut so far */
    /*
     * Each worker computes the features of a block's test triples once, and a worker that replaces
     * it computes them again. A pair costs 1/600 of the features of a triple (d = 200). With this
     * factor the features of the test triples cost 3 % of an item, whatever the number of test
     * triples.
     */
    RANGE_PER_TEST = 32,
    PAIRS_PER_FEATURES = 600,
    /*
     * Each block computes the features of all training triples again. All blocks together may spend
     * 1 / BLOCKS_COST of the work on this.
     */
    BLOCKS_COST = 8,
    TOPS_MAX = 1 << 20, /* most influences in an answer: 24 MB of hexadecimal digits */
    TOP_K_MAX = 2048
};

static size_t up_to_tiles(size_t n)
{
    return (n + TILE - 1) / TILE * TILE;
}

/*
 * The shortest range of which the top_k are at most a third; 1 if that range is too long, or for a
 * matrix.
 */
static size_t range_for_tops(const struct spread_sizes *sizes)
{
    bool is_short = !sizes->is_matrix && 3 * sizes->top_k <= RANGE_USUAL;
    return is_short ? MAX(3 * sizes->top_k, (size_t)1) : 1;
}

/*
 * The length of a range: it grows with the number of test triples (RANGE_PER_TEST), but if there
 * are few training triples it is so short that there are items for several devices.
 */
static size_t range_choose(const struct spread_sizes *sizes, size_t n_tests)
{
    size_t n_train = sizes->n_train;
    size_t for_tests =
        n_tests * RANGE_PER_TEST * PAIRS_PER_FEATURES / (PAIRS_PER_FEATURES + n_tests);
    size_t usual = MIN(MAX((size_t)RANGE_USUAL, for_tests), n_train / ITEMS_WANTED);
    return up_to_tiles(MAX(MAX(usual, n_train / ITEMS_A_BLOCK), range_for_tops(sizes)));
}

/*
 * The most test triples of a block. There are several blocks if a single one would have too few
 * ranges for several devices.
 */
static size_t tests_at_most(const struct spread_sizes *sizes, size_t n_tests)
{
    size_t n_train = sizes->n_train, range = range_choose(sizes, n_tests);
    size_t n_ranges = (n_train + range - 1) / range;
    size_t work = n_tests + n_train + n_tests * n_train / PAIRS_PER_FEATURES;
    size_t n_blocks =
        MIN(ITEMS_WANTED / MAX(n_ranges, (size_t)1), work / BLOCKS_COST / MAX(n_train, (size_t)1));
    return n_blocks > 1 ? (n_tests + n_blocks - 1) / n_blocks : MAX(n_tests, (size_t)1);
}

/* True if the best of a range are smaller than its rows, and small enough for an answer. */
static bool tops_fit(const struct spread_sizes *sizes, size_t range)
{
    return !sizes->is_matrix && sizes->top_k > 0 && sizes->top_k <= TOP_K_MAX &&
           3 * sizes->top_k <= range;
}

static void blocks_cut(struct spread_plan *plan, size_t n_tests, size_t tests_max)
{
    plan->n_blocks = MAX((n_tests + tests_max - 1) / tests_max, (size_t)1);
    plan->blocks = xcalloc(plan->n_blocks, sizeof(*plan->blocks));
    for (size_t b = 0; b < plan->n_blocks; b++) {
        size_t begin = n_tests * b / plan->n_blocks, end = n_tests * (b + 1) / plan->n_blocks;
        plan->blocks[b] = (struct spread_block){.first_test = begin, .n_tests = end - begin};
    }
}

/* Marks the training triples that a test of the block wants; NULL if one of the tests wants all. */
static bool *wanted_marks(const struct spread_block *block, const struct tracin_test *tests,
                          size_t n_train)
{
    for (size_t t = 0; t < block->n_tests; t++)
        if (!tests[block->first_test + t].train_indices)
            return NULL;
    bool *marks = xcalloc(n_train, sizeof(*marks));
    for (size_t t = 0; t < block->n_tests; t++) {
        const struct tracin_test *test = &tests[block->first_test + t];
        for (size_t i = 0; i < test->n_train_indices; i++)
            marks[test->train_indices[i]] = true;
    }
    return marks;
}

static size_t subset_count(const struct spread_plan *plan, const struct spread_block *block,
                           const struct tracin_test *tests, size_t n_train)
{
    bool *marks = plan->is_in_order ? NULL : wanted_marks(block, tests, n_train);
    size_t n = marks ? 0 : n_train;
    for (size_t i = 0; marks && i < n_train; i++)
        n += marks[i];
    free(marks);
    return n;
}

void spread_plan_init(struct spread_plan *plan, const struct spread_sizes *sizes,
                      const struct tracin_test *tests, size_t n_tests)
{
    size_t tests_max = MIN(MAX(sizes->tests_max, (size_t)1), tests_at_most(sizes, n_tests));
    size_t range = range_choose(sizes, n_tests);
    bool has_tops = n_tests > 0 && tops_fit(sizes, range);
    if (has_tops)
        tests_max = MIN(tests_max, TOPS_MAX / sizes->top_k);
    *plan = (struct spread_plan){.form = has_tops ? SPREAD_TOPS : SPREAD_ROWS,
                                 .is_in_order = sizes->is_matrix || n_tests == 0};
    blocks_cut(plan, n_tests, tests_max);
    plan->train_per_item = range_choose(sizes, MIN(n_tests, tests_max));
    for (size_t b = 0; b < plan->n_blocks; b++) {
        struct spread_block *block = &plan->blocks[b];
        block->n_subset = subset_count(plan, block, tests, sizes->n_train);
        block->first_item = plan->n_items;
        block->first_value = plan->n_values;
        plan->n_items += (block->n_subset + plan->train_per_item - 1) / plan->train_per_item;
        plan->n_values += (uint64_t)MAX(block->n_tests, (size_t)1) * block->n_subset;
    }
}

void spread_plan_release(struct spread_plan *plan)
{
    free(plan->blocks);
    *plan = (struct spread_plan){0};
}

struct spread_item spread_plan_item(const struct spread_plan *plan, size_t index)
{
    ASSERT(index < plan->n_items);
    size_t b = plan->n_blocks - 1;
    while (plan->blocks[b].first_item > index)
        b--;
    const struct spread_block *block = &plan->blocks[b];
    size_t begin = (index - block->first_item) * plan->train_per_item;
    return (struct spread_item){block, begin, MIN(plan->train_per_item, block->n_subset - begin)};
}

uint64_t spread_item_value(const struct spread_item *item, size_t test)
{
    return item->block->first_value + (uint64_t)test * item->block->n_subset + item->begin;
}

/* ---- the order of a block's training triples ---- */

struct placed {
    uint64_t head_and_relation;
    uint32_t index;
};

static int by_place(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->head_and_relation != y->head_and_relation)
        return x->head_and_relation < y->head_and_relation ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

uint32_t *spread_order_new(const struct spread_plan *plan, const struct spread_block *block,
                           const struct tracin_test *tests, const struct triple *train,
                           size_t n_train)
{
    bool *marks = plan->is_in_order ? NULL : wanted_marks(block, tests, n_train);
    struct placed *placed = xcalloc(n_train, sizeof(*placed));
    uint32_t *order = xcalloc(n_train, sizeof(*order));
    size_t n = 0;
    for (size_t i = 0; i < n_train; i++)
        if (!marks || marks[i])
            placed[n++] =
                (struct placed){(uint64_t)train[i].head << 32 | train[i].relation, (uint32_t)i};
    if (!plan->is_in_order)
        qsort(placed, n, sizeof(*placed), by_place);
    for (size_t i = 0; i < n; i++)
        order[i] = placed[i].index;
    free(placed);
    free(marks);
    return order;
}

static int by_index(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

bool spread_is_wanted(const struct tracin_test *test, uint32_t train_index)
{
    return !test->train_indices || bsearch(&train_index, test->train_indices, test->n_train_indices,
                                           sizeof(train_index), by_index);
}
