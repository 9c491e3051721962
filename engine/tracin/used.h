/* SPDX-License-Identifier: Apache-2.0
 *
 * Which training triples a block of tests wants, and in what order they are gone through.
 */
#pragma once

#include "tracin/tracin.h"

/*
 * Those that any of the tests wants, by head, relation and index: neighbours of one head and
 * relation share half of the work. free() it; *n_used of them.
 */
uint32_t *used_new(const struct conve_shape *shape, const struct triple *train, size_t n_train,
                   const struct tracin_test *tests, size_t n_tests, size_t *n_used);
