/* SPDX-License-Identifier: Apache-2.0
 *
 * The work space of one thread of a run, and the computation of a tile in it: the factors of the
 * training triples, their products with the tests, and the copies of results on the host. A tile
 * has tests x tile influences, and copying from a device takes long. So if only the strongest of
 * each test are asked for, only these are copied from a device.
 */
#pragma once

#include "tracin/setting.h"

struct bench {
    struct factors factors;
    struct factor_scratch scratch;
    struct product_scratch product;
    void *out;                   /* tests x tile */
    void *ids, *best, *best_ids; /* the n_best strongest of each test; NULL: not asked for */
    /* Memory of the host. */
    struct triple *triples;
    uint32_t *index; /* indices of the training triples */
    void *values;    /* tests x tile, or tests x n_best */
    uint32_t *value_ids;
    double *row; /* the influences on one test */
    size_t n, n_best;
    int rc;
    struct err err;
};

struct bench_size {
    size_t tests, tile;
    size_t n_best; /* 0: whole rows are read */
};

/* Returns the errors of allocate; the caller releases the bench after an error, too. */
MUST_CHECK int bench_init(struct bench *bench, const struct setting *with,
                          const struct bench_size *size, struct err *err);
void bench_release(struct bench *bench, const struct setting *with);

/*
 * Computes the influences of bench's n triples on the tests, whose factors are given by checkpoint.
 * With n_best only the n_best strongest of each test are read, else whole rows. bench->rc and
 * bench->err say whether it worked.
 */
void bench_compute(struct bench *bench, const struct setting *with,
                   const struct factors *test_factors, size_t n_tests, size_t n_best,
                   enum tracin_order order);
/* Returns value i that was read of a test. */
double bench_value(const struct bench *bench, const struct setting *with, size_t test, size_t i);
