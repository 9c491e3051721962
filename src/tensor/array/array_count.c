/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts the records of a file of arrays: the rows of the arrays that a merge concatenates.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/array/array_merge.h"

/* Does a merge concatenate this array? An array that is kept once or left out has no records. */
static bool is_of_records(enum tensor_kind kind, const struct array *array,
                          const struct merge_rules *rules)
{
    cleanup_free char *path = xstrndup(array->name.at, array->name.len);
    const struct merge_rule *rule = merge_rule_find(rules, path);
    enum merge_verb verb = rule ? rule->verb : array_verb_by_kind(kind, array, true);
    return verb == MERGE_CAT0 && array->n_dims > 0;
}

static uint64_t rows_count(const struct array_set *set, const struct merge_rules *rules)
{
    uint64_t n_rows = UINT64_MAX;
    for (size_t i = 0; i < set->n_files; i++) {
        for (size_t k = 0; k < set->files[i].n_arrays; k++) {
            const struct array *array = &set->files[i].arrays[k];
            if (!is_of_records(set->kind, array, rules))
                continue;
            if (n_rows != UINT64_MAX && n_rows != array_n_rows(array))
                return UINT64_MAX;
            n_rows = array_n_rows(array);
        }
    }
    return n_rows;
}

int array_count(enum tensor_kind kind, const char *path, const struct merge_rules *rules,
                uint64_t *n_records, struct err *err)
{
    struct array_set set;
    int rc = array_set_open(&set, kind, &path, 1, err);
    if (rc == 0)
        *n_records = rows_count(&set, rules);
    array_set_release(&set);
    return rc;
}
