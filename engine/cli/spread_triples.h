/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of triples that workers read: indices, filters applied, numbers as they are in memory.
 */
#pragma once

#include "base/buf.h"
#include "tracin/tracin.h"

#define SPREAD_TRAIN "train"
#define SPREAD_TESTS "tests"

struct spread_tests {
    struct tracin_test *at;
    size_t *places; /* their positions in the file of test triples */
    size_t n;
    struct buf bytes; /* the file, which at[].train_indices point into */
};

struct spread_train {
    const struct triple *at;
    size_t n;
    struct buf bytes;
};

/*
 * The structures own the bytes of the file that was read. ERR_DATA: the file is damaged, or has an
 * index that is not below n_train.
 */
void spread_tests_add(struct buf *out, size_t place, const struct tracin_test *test);
MUST_CHECK int spread_tests_read(struct spread_tests *tests, const char *dir, size_t n_train,
                                 struct err *err);
void spread_tests_release(struct spread_tests *tests);
MUST_CHECK int spread_train_read(struct spread_train *train, const char *dir, struct err *err);
void spread_train_release(struct spread_train *train);
