/* SPDX-License-Identifier: Apache-2.0 */
#include "device/visible.h"

#include <strings.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"

/* Finds the device that the entry names. Returns NULL, or why the entry is invalid. */
static const char *entry_find(const struct visible_rule *rule, struct str entry,
                              const struct device_list *devices, size_t *position)
{
    uint64_t number = 0;
    size_t n_found = 0;
    bool is_number = u64_parse(entry, 0, DEVICES_MAX, &number, NULL) == 0;
    bool is_name = entry.len > 4 &&
                   (strncasecmp(entry.at, "GPU-", 4) == 0 || strncasecmp(entry.at, "MIG-", 4) == 0);
    if (!is_number && !is_name)
        return "is neither an index nor a UUID";
    for (size_t i = 0; i < devices->len; i++) {
        const struct device *device = &devices->at[i];
        int found = rule->counts_what_is_left ? device->index : device->physical;
        if (is_number ? found != (int)number : strncasecmp(device->uuid, entry.at, entry.len) != 0)
            continue;
        if (is_number && device->parent_uuid[0])
            return "has MIG enabled (name an instance by its UUID)";
        *position = i;
        n_found++;
    }
    return n_found == 0 ? "is not on this machine" : n_found > 1 ? "fits several GPUs" : NULL;
}

static void note_order(const struct device_list *devices, struct buf *notes)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");
    bool is_mixed = false;
    const struct device *first = NULL;
    for (size_t i = 0; i < devices->len; i++) {
        if (devices->at[i].parent_uuid[0])
            continue; /* an instance is named after its profile, and has no index */
        first = first ? first : &devices->at[i];
        is_mixed |= strcmp(devices->at[i].name, first->name) != 0;
    }
    if (is_mixed && !(order && strcmp(order, "PCI_BUS_ID") == 0))
        buf_add_text(notes,
                     "the GPUs differ: indices in CUDA_VISIBLE_DEVICES are taken in PCI order, "
                     "not fastest first (set CUDA_DEVICE_ORDER=PCI_BUS_ID)\n");
}

/* Reduces the list to the kept positions, in their order. */
static void keep(struct device_list *devices, const size_t *kept, size_t n_kept)
{
    struct device_list out = device_list_pick(devices, kept, n_kept);
    device_list_renumber(&out);
    device_list_release(devices);
    *devices = out;
}

static bool is_kept(const size_t *kept, size_t n_kept, size_t position)
{
    for (size_t i = 0; i < n_kept; i++)
        if (kept[i] == position)
            return true;
    return false;
}

void visible_apply(const struct visible_rule *rule, const char *variable, const char *list,
                   struct device_list *devices, struct buf *notes)
{
    struct str rest = str_of(list), entry;
    cleanup_free size_t *kept = xcalloc(devices->len + 1, sizeof(size_t));
    size_t n_kept = 0, n_before = devices->len;
    bool has_index = false;
    const char *why = NULL;
    while (str_trim(str_of(list)).len > 0 && !why && str_next(&rest, ',', &entry)) {
        size_t position = 0;
        entry = str_trim(entry);
        why = entry_find(rule, entry, devices, &position);
        has_index |= entry.len > 0 && entry.at[0] >= '0' && entry.at[0] <= '9';
        if (!why && is_kept(kept, n_kept, position)) {
            why = rule->skips_repeats ? NULL : "is listed twice";
            continue;
        }
        if (!why)
            kept[n_kept++] = position;
    }
    if (why && !str_equal(entry, STR("-1")))
        buf_addf(notes, "%s: '%.*s' %s, which hides it and all after it\n", variable,
                 (int)entry.len, entry.at, why);
    if (has_index && rule->may_sort_by_speed)
        note_order(devices, notes);
    keep(devices, kept, n_kept);
    if (n_kept == 0 && n_before > 0)
        buf_addf(notes, "%s='%s' hides every GPU\n", variable, list);
}

void visible_apply_rules(const struct visible_rule *rules, size_t n_rules,
                         struct device_list *devices, struct buf *notes)
{
    for (size_t r = 0; r < n_rules; r++) {
        for (size_t v = 0; v < VISIBLE_VARIABLES_MAX && rules[r].variables[v]; v++) {
            const char *list = getenv(rules[r].variables[v]);
            if (!list || (rules[r].is_unset_if_empty && !*list))
                continue;
            visible_apply(&rules[r], rules[r].variables[v], list, devices, notes);
            break;
        }
    }
}
