/* SPDX-License-Identifier: Apache-2.0 */
#include "map/rows.h"

int merge_rows_open(struct merge_rows *rows, struct store *store, bool in_order, struct err *err)
{
    *rows = (struct merge_rows){.store = store};
    int rc = range_reader_open(&rows->ranges, store,
                               in_order ? RANGES_BY_ITEM : RANGES_AS_COMMITTED, err);
    if (rc == 0)
        rc = failed_item_reader_open(&rows->failed_items, store, err);
    return rc;
}

void merge_rows_close(struct merge_rows *rows)
{
    row_reader_close(rows->ranges);
    row_reader_close(rows->failed_items);
}

int merge_rows_range(void *context, struct result_range *range, struct err *err)
{
    struct merge_rows *rows = context;
    struct range_row row;
    int rc = range_reader_next(rows->ranges, &row, err);
    if (rc <= 0)
        return rc;
    snprintf(rows->part_path, sizeof(rows->part_path), "%s/parts/%u.part", store_dir(rows->store),
             row.part);
    *range = (struct result_range){row.first, row.count, rows->part_path, row.offset, row.bytes};
    return 1;
}

int merge_rows_failed_item(void *context, uint64_t *item, struct err *err)
{
    struct merge_rows *rows = context;
    struct failed_item_row row;
    int rc = failed_item_reader_next(rows->failed_items, &row, err);
    if (rc > 0)
        *item = row.item;
    return rc;
}
