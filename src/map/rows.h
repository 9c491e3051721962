/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger's rows in the form that the merge needs.
 */
#pragma once

#include "data/result_merge.h"
#include "store/store.h"

struct merge_rows {
    struct store *store;
    struct row_reader *ranges;
    struct row_reader *failed_items;
    char part_path[4200];
};

MUST_CHECK int merge_rows_open(struct merge_rows *rows, struct store *store, bool in_order,
                               struct err *err);
void merge_rows_close(struct merge_rows *rows);
/* Callbacks for struct result_merge_opts; the context is a struct merge_rows. */
int merge_rows_range(void *context, struct result_range *range, struct err *err);
int merge_rows_failed_item(void *context, uint64_t *item, struct err *err);
