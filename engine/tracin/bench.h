/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread of a run works in, and a tile on it: the training triples' factors, their products
 * with the tests, and what of these is read back. From a device that is the strongest of each test
 * where they are all that is asked for: a tile has tests x tile influences, and the way back is
 * long.
 */
#pragma once

#include "tracin/setting.h"

struct bench {
    struct factors factors;
    struct factor_scratch scratch;
    struct product_scratch product;
    void *out;                   /* tests x tile */
    void *ids, *best, *best_ids; /* of each test the n_best strongest; NULL: not asked for */
    /* On the host. */
    struct triple *triples;
    uint32_t *index; /* of training triples */
    void *values;    /* tests x tile, or tests x n_best */
    uint32_t *value_ids;
    double *row; /* of one test */
    size_t n, n_best;
    int rc;
    struct err err;
};

struct bench_size {
    size_t tests, tile;
    size_t n_best; /* 0: whole rows are read */
};

/* The errors of allocate; to be released also then. */
MUST_CHECK int bench_init(struct bench *bench, const struct setting *with,
                          const struct bench_size *size, struct err *err);
void bench_release(struct bench *bench, const struct setting *with);

/*
 * bench's n triples, by their index, against the tests' factors (by checkpoint). With n_best, so
 * many of each test are read, else the whole row. Whether it worked stands in rc and err.
 */
void bench_compute(struct bench *bench, const struct setting *with,
                   const struct factors *test_factors, size_t n_tests, size_t n_best,
                   enum tracin_order order);
/* Value i of a test. */
double bench_value(const struct bench *bench, const struct setting *with, size_t test, size_t i);
