/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "plan/plan.h"

static void device_add(const struct model_plan *plan, uint32_t i, struct buf *out)
{
    const struct plan_device *device = &plan->wish.devices[i];
    const struct partition_load *load = &plan->map->loads[i];
    uint64_t need = plan_need_bytes(plan, i);
    size_t n_keys = 0;
    for (size_t k = 0; k < plan->n_entries; k++)
        n_keys += plan->entries[k].device == i;
    buf_add_text(out, "{\"device\":");
    buf_add_json(out, str_of(device->key));
    buf_add_text(out, ",\"label\":");
    buf_add_json(out, str_of(device->label));
    if (device->of.kind != PARTITION_DISK)
        buf_addf(out, ",\"memory_bytes\":%lu", device->of.mem_bytes);
    buf_addf(out,
             ",\"weight_bytes\":%lu,\"cache_bytes\":%lu,\"reserve_bytes\":%lu,\"lacks_bytes\":%lu,"
             "\"keys\":%zu}\n",
             load->weight_bytes, load->kv_bytes, need - load->weight_bytes - load->kv_bytes,
             plan_lack_bytes(plan, i), n_keys);
}

void plan_json_add(const struct model_plan *plan, struct buf *out)
{
    const struct partition_load *nowhere = &plan->map->loads[plan->wish.n_devices];
    cleanup_buf struct buf map = BUF_INIT;
    for (uint32_t i = 0; i < plan->wish.n_devices; i++)
        device_add(plan, i, out);
    plan_map_add(plan, &map);
    buf_addf(out,
             "{\"method\":\"%s\",\"context\":%lu,\"batch\":%lu,\"weight_type_bytes\":%u,"
             "\"blocks\":%zu,\"cache_bytes\":%lu,\"is_guessed\":%s,"
             "\"is_partial\":%s,\"missing_bytes\":%lu,\"nowhere_bytes\":%lu,\"device_map\":",
             plan_method_name(plan->wish.method), plan->wish.context, plan->wish.batch,
             plan->tree.type_bytes, plan->tree.n_blocks, plan->tree.cache_bytes,
             plan->tree.is_guessed ? "true" : "false", plan_is_partial(plan) ? "true" : "false",
             plan_missing_bytes(plan), nowhere->weight_bytes + nowhere->kv_bytes);
    buf_add_json_compact(out, buf_str(&map));
    buf_add_text(out, "}\n");
}
