/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/plan.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

const char *plan_method_name(enum partition_method method)
{
    static const char *const names[] = {[PARTITION_BALANCED] = "balanced",
                                        [PARTITION_BALANCED_LOW_0] = "balanced_low_0",
                                        [PARTITION_SEQUENTIAL] = "sequential",
                                        [PARTITION_OPTIMAL] = "optimal"};
    return names[method];
}

/* 0 if config.json does not say how wide the layers are. */
static uint64_t activation_bytes(const struct model *model, const struct plan_wish *wish)
{
    const struct model_config *c = &model->config;
    double e = wish->type_bytes > 0 ? wish->type_bytes : c->element_bytes;
    double s = (double)wish->context, b = (double)wish->batch, h = (double)c->hidden;
    double inner = c->intermediate > 0 ? (double)c->intermediate : 4 * h;
    double bytes = s * b * (4 * h + 2 * inner) * e + 4 * b * (double)c->vocab;
    return h > 0 ? (uint64_t)MIN(bytes, (double)PARTITION_BYTES_MAX) : 0;
}

static void defaults_fill(const struct model *model, struct plan_wish *wish)
{
    uint64_t context_max = model->config.context_max;
    if (wish->context == 0)
        wish->context = context_max > 0 ? MIN(context_max, (uint64_t)PLAN_CONTEXT_DEFAULT)
                                        : PLAN_CONTEXT_DEFAULT;
    wish->batch = MAX(wish->batch, (uint64_t)1);
}

static int partition_make(struct model_plan *plan, struct err *err)
{
    const struct plan_wish *w = &plan->wish;
    cleanup_free struct partition_device *devices = xcalloc(w->n_devices, sizeof(*devices));
    struct partition_wish wish = {.method = w->method,
                                  .devices = devices,
                                  .n_devices = w->n_devices,
                                  .goal = w->goal,
                                  .sets_no_limits = w->sets_no_limits};
    for (uint32_t i = 0; i < w->n_devices; i++) {
        devices[i] = w->devices[i].of;
        if (devices[i].kind == PARTITION_GPU)
            devices[i].reserve_bytes = plan->activation_bytes + w->reserve_bytes;
    }
    plan->map = xalloc_checked(partition_new(&plan->tree.of, &wish), sizeof(*plan->map));
    plan->entries = plan->map->entries;
    plan->n_entries = plan->map->n_entries;
    return plan->map->is_too_large
               ? fail(err, ERR_DATA,
                      "with its KV cache the model has more bytes than any machine; "
                      "are --context and --batch right?")
               : 0;
}

int model_plan_make(const struct model *model, const struct plan_wish *wish, struct model_plan *out,
                    struct err *err)
{
    *out = (struct model_plan){.wish = *wish, .model = model};
    defaults_fill(model, &out->wish);
    out->activation_bytes = activation_bytes(model, &out->wish);
    const struct model_tree_wish tree = {.layout = wish->layout,
                                         .type_bytes = wish->type_bytes,
                                         .context = out->wish.context,
                                         .batch = out->wish.batch};
    int rc = model_tree_make(model, &tree, &out->tree, err);
    return rc ? rc : partition_make(out, err);
}

void model_plan_release(struct model_plan *plan)
{
    partition_free(plan->map);
    plan->map = NULL;
    free(steal_ptr(&plan->taken));
    model_tree_release(&plan->tree);
}

uint64_t plan_need_bytes(const struct model_plan *plan, uint32_t i)
{
    const struct partition_load *load = &plan->map->loads[i];
    uint64_t held = load->weight_bytes + load->kv_bytes;
    bool has_reserve = held > 0 && plan->wish.devices[i].of.kind == PARTITION_GPU;
    return held + (has_reserve ? plan->activation_bytes + plan->wish.reserve_bytes : 0);
}

uint64_t plan_lack_bytes(const struct model_plan *plan, uint32_t i)
{
    const struct partition_device *device = &plan->wish.devices[i].of;
    uint64_t need = plan_need_bytes(plan, i);
    return device->kind == PARTITION_DISK || need <= device->mem_bytes ? 0
                                                                       : need - device->mem_bytes;
}

uint64_t plan_missing_bytes(const struct model_plan *plan)
{
    const struct partition_load *nowhere = &plan->map->loads[plan->wish.n_devices];
    uint64_t missing = nowhere->weight_bytes + nowhere->kv_bytes;
    for (uint32_t i = 0; i < plan->wish.n_devices; i++)
        missing += plan_lack_bytes(plan, i);
    return MAX(missing, plan->map->missing_bytes);
}

bool plan_is_partial(const struct model_plan *plan)
{
    const struct model_config *c = &plan->model->config;
    return plan->tree.lacks_cache || c->hidden == 0 ||
           (plan->tree.is_guessed && !model_config_has_cache(c));
}

bool plan_has_map(const struct model_plan *plan)
{
    return plan->wish.method == PARTITION_OPTIMAL
               ? plan_missing_bytes(plan) == 0
               : plan->map->loads[plan->wish.n_devices].weight_bytes == 0;
}
