/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device holds, in short: "model.embed_tokens, model.layers.0-10".
 */
#include "base/console_text.h"
#include "base/parse.h"
#include "plan/plan.h"

/* True if the last word of a name is a number. *stem gets the part before the number, *number the number. */
static bool numbered(struct str name, struct str *stem, uint64_t *number)
{
    const char *dot = memrchr(name.at, '.', name.len);
    if (!dot)
        return false;
    *stem = (struct str){name.at, (size_t)(dot - name.at)};
    return u64_parse((struct str){dot + 1, name.len - stem->len - 1}, 0, UINT64_MAX - 1, number,
                     NULL) == 0;
}

/*
 * The last entry of the range that begins at `first`: its entries are on one device, and their numbers count up by
 * one.
 */
static size_t range_end(const struct model_plan *plan, size_t first)
{
    struct str stem, other;
    uint64_t number, next;
    size_t last = first;
    if (!numbered(plan->entries[first].name, &stem, &number))
        return first;
    while (last + 1 < plan->n_entries &&
           plan->entries[last + 1].device == plan->entries[first].device &&
           numbered(plan->entries[last + 1].name, &other, &next) && str_equal(stem, other) &&
           next == number + 1) {
        last++;
        number = next;
    }
    return last;
}

static void range_add(const struct model_plan *plan, size_t first, size_t last, struct buf *out)
{
    struct str stem, name = plan->entries[first].name;
    uint64_t number;
    console_visible_add(out, name.len > 0 ? name : STR("all"));
    if (last > first && numbered(plan->entries[last].name, &stem, &number))
        buf_addf(out, "-%lu", number);
}

void plan_ranges_add(const struct model_plan *plan, uint32_t device, size_t ranges_max,
                     struct buf *out)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->n_entries; i++) {
        if (plan->entries[i].device != device)
            continue;
        size_t last = range_end(plan, i);
        if (n < ranges_max) {
            buf_add_text(out, n > 0 ? ", " : "");
            range_add(plan, i, last, out);
        }
        i = last;
        n++;
    }
    if (n > ranges_max)
        buf_addf(out, " and %zu more", n - ranges_max);
}
