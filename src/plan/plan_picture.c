/* SPDX-License-Identifier: Apache-2.0
 *
 * What each device holds, as text: a bar for each device, whose length is in proportion to its memory.
 */
#include "base/parse.h"
#include "plan/plan.h"

enum {
    BAR_COLUMNS = 60,
    LABEL_COLUMNS = 26
};

/* Adds a piece of a bar. The end of each piece is rounded to a column, so that the pieces fill the bar. */
static void piece_add(struct buf *out, char sign, uint64_t from, uint64_t to, double per_column)
{
    size_t begin = (size_t)((double)from / per_column + 0.5);
    size_t end = (size_t)((double)to / per_column + 0.5);
    for (size_t i = begin; i < end && i < 4ul * BAR_COLUMNS; i++)
        buf_add_char(out, sign);
}

static uint64_t length_of(const struct model_plan *plan, uint32_t i)
{
    const struct partition_device *device = &plan->wish.devices[i].of;
    uint64_t need = plan_need_bytes(plan, i);
    return device->kind == PARTITION_GPU ? MAX(device->mem_bytes, need) : need;
}

void plan_picture_add(const struct model_plan *plan, struct buf *out)
{
    uint64_t longest = 1;
    for (uint32_t i = 0; i < plan->wish.n_devices; i++)
        longest = MAX(longest, length_of(plan, i));
    double per_column = (double)longest / BAR_COLUMNS;
    for (uint32_t i = 0; i < plan->wish.n_devices; i++) {
        const struct partition_load *load = &plan->map->loads[i];
        uint64_t cache_at = load->weight_bytes, rest_at = cache_at + load->kv_bytes;
        uint64_t need = plan_need_bytes(plan, i);
        buf_addf(out, "%-*.*s|", LABEL_COLUMNS, LABEL_COLUMNS - 1, plan->wish.devices[i].label);
        piece_add(out, '#', 0, cache_at, per_column);
        piece_add(out, '+', cache_at, rest_at, per_column);
        piece_add(out, '~', rest_at, need, per_column);
        piece_add(out, '.', need, length_of(plan, i), per_column);
        buf_addf(out, "|%s\n", plan_lack_bytes(plan, i) > 0 ? " too small" : "");
    }
    buf_add_text(out, "# weights  + KV cache  ~ activations  . free\n");
}
