/* SPDX-License-Identifier: Apache-2.0
 *
 * Training subset: the training triples whose influence any test of a block asks for, in the
 * order in which they are processed.
 */
#pragma once

#include "tracin/tracin.h"

/*
 * Returns the indices, ordered by head, relation and index: neighbours of the same head and
 * relation share half of the work. *n_subset is their number. free() it.
 */
uint32_t *training_subset_new(const struct conve_shape *shape, const struct triple *train,
                              size_t n_train, const struct tracin_test *tests, size_t n_tests,
                              size_t *n_subset);
