/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/training_subset.h"

#include <stdlib.h>

#include "base/xalloc.h"

/* Returns a flag for each training triple, or NULL if a test asks for all of them. free() it. */
static bool *wanted_new(size_t n_train, const struct tracin_test *tests, size_t n_tests)
{
    bool *is_wanted = xcalloc(n_train, sizeof(*is_wanted));
    for (size_t test = 0; test < n_tests; test++) {
        if (!tests[test].train_indices) {
            free(is_wanted);
            return NULL;
        }
        for (size_t i = 0; i < tests[test].n_train_indices; i++)
            is_wanted[tests[test].train_indices[i]] = true;
    }
    return is_wanted;
}

/*
 * Sorts the triples `from` into `to` by a member of the triples, which is below n_values; `member`
 * points to that of the first training triple. Equal ones keep their order. This is a counting
 * sort, because sorting a million triples by comparison takes a fifth of a second, which is much
 * beside the time that a GPU needs for their influences.
 */
static void sort_by(const uint32_t *member, size_t n_values, const uint32_t *from, size_t n,
                    uint32_t *to)
{
    size_t *begins = xcalloc(n_values + 1, sizeof(*begins));
    for (size_t i = 0; i < n; i++)
        begins[member[(size_t)from[i] * TRIPLE_IDS] + 1]++;
    for (size_t value = 0; value < n_values; value++)
        begins[value + 1] += begins[value];
    for (size_t i = 0; i < n; i++)
        to[begins[member[(size_t)from[i] * TRIPLE_IDS]]++] = from[i];
    free(begins);
}

uint32_t *training_subset_new(const struct conve_shape *shape, const struct triple *train,
                              size_t n_train, const struct tracin_test *tests, size_t n_tests,
                              size_t *n_subset)
{
    bool *is_wanted = wanted_new(n_train, tests, n_tests);
    uint32_t *subset = xmalloc(n_train * sizeof(*subset)),
             *other = xmalloc(n_train * sizeof(*other));
    size_t n = 0;
    for (size_t i = 0; i < n_train; i++)
        if (!is_wanted || is_wanted[i])
            subset[n++] = (uint32_t)i;
    sort_by(&train->relation, shape->n_relations, subset, n, other);
    sort_by(&train->head, shape->n_entities, other, n, subset);
    free(is_wanted);
    free(other);
    *n_subset = n;
    return subset;
}
