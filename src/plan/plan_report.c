/* SPDX-License-Identifier: Apache-2.0 */
#include "base/console_text.h"
#include "base/parse.h"
#include "plan/plan.h"

enum {
    RANGES_MAX = 6,
    LABEL_COLUMNS = 26
};

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(1ul << 30);
}

static const char *type_name(const struct model_plan *plan)
{
    switch (plan->tree.type_bytes) {
    case 0:
        return "as stored";
    case 2:
        return "16-bit floats";
    case 4:
        return "float32";
    default:
        return "float64";
    }
}

/* ---- the head ---- */

static void head_add(const struct model_plan *plan, const char *path, struct buf *out)
{
    const struct model *model = plan->model;
    uint64_t n_parameters = 0;
    char n[32];
    for (size_t i = 0; i < model->n_parts; i++)
        n_parameters += model->parts[i].n_parameters;
    count_format(n, n_parameters);
    console_visible_add(out, str_of(path));
    buf_addf(out, ": %s parameter%s in %zu tensor%s of %zu file%s", n, plural(n_parameters),
             model->n_tensors, plural(model->n_tensors), model->n_files, plural(model->n_files));
    if (model->config.class_name[0]) {
        buf_add_text(out, ", ");
        console_visible_add(out, str_of(model->config.class_name));
    }
    buf_addf(out, "; weights %s\n%lu token%s * %lu sequence%s; %zu block%s\n", type_name(plan),
             plan->wish.context, plural(plan->wish.context), plan->wish.batch,
             plural(plan->wish.batch), plan->tree.n_blocks, plural(plan->tree.n_blocks));
}

/* ---- the table ---- */

static void row_add(const struct model_plan *plan, uint32_t i, struct buf *out)
{
    const struct plan_device *device = &plan->wish.devices[i];
    const struct partition_load *load = &plan->map->loads[i];
    uint64_t need = plan_need_bytes(plan, i), lack = plan_lack_bytes(plan, i);
    uint64_t reserve = need - load->weight_bytes - load->kv_bytes;
    buf_addf(out, "%-*.*s", LABEL_COLUMNS, LABEL_COLUMNS - 1, device->label);
    if (device->of.kind == PARTITION_DISK)
        buf_add_text(out, "         -");
    else
        buf_addf(out, "%10.2f", gib(device->of.mem_bytes));
    buf_addf(out, "%10.2f%10.2f%13.2f", gib(load->weight_bytes), gib(load->kv_bytes), gib(reserve));
    if (lack > 0)
        buf_addf(out, "  lacks %.2f\n", gib(lack));
    else if (device->of.kind == PARTITION_DISK)
        buf_add_text(out, "         -\n");
    else
        buf_addf(out, "%10.2f\n", gib(device->of.mem_bytes - need));
}

static void nowhere_add(const struct model_plan *plan, struct buf *out)
{
    const struct partition_load *load = &plan->map->loads[plan->wish.n_devices];
    if (load->weight_bytes + load->kv_bytes > 0)
        buf_addf(out, "%-*s%10s%10.2f%10.2f\n", LABEL_COLUMNS, "fits nowhere", "",
                 gib(load->weight_bytes), gib(load->kv_bytes));
}

void plan_table_add(const struct model_plan *plan, const char *path, struct buf *out)
{
    head_add(plan, path, out);
    buf_addf(out, "\n%-*s%10s%10s%10s%13s%10s\n", LABEL_COLUMNS, "GiB", "memory", "weights",
             "KV cache", "activations", "free");
    for (uint32_t i = 0; i < plan->wish.n_devices; i++)
        row_add(plan, i, out);
    nowhere_add(plan, out);
    for (uint32_t i = 0; i <= plan->wish.n_devices; i++) {
        cleanup_buf struct buf ranges = BUF_INIT;
        plan_ranges_add(plan, i, RANGES_MAX, &ranges);
        if (ranges.len > 0)
            buf_addf(out, "%s%s: %s\n", i == 0 ? "\n" : "",
                     i < plan->wish.n_devices ? plan->wish.devices[i].label : "nowhere",
                     buf_text(&ranges));
    }
}

/* ---- how it comes about ---- */

/* How full the fullest GPU is, as a share of its memory. */
static double fullest(const struct model_plan *plan)
{
    double most = 0;
    for (uint32_t i = 0; i < plan->wish.n_devices; i++) {
        const struct partition_device *device = &plan->wish.devices[i].of;
        if (device->kind == PARTITION_GPU && device->mem_bytes > 0)
            most = MAX(most, (double)plan_need_bytes(plan, i) / (double)device->mem_bytes);
    }
    return 100 * most;
}

static void layout_explain(const struct model_plan *plan, struct buf *out)
{
    const struct model_tree *tree = &plan->tree;
    size_t n_tied = 0;
    for (size_t i = 0; i < tree->of.n_tensors; i++)
        n_tied += tree->of.tensors[i].tied > 0;
    if (plan->wish.layout.len > 0)
        buf_add_text(out, "order and blocks: as --layout has them\n");
    else if (tree->is_guessed)
        buf_add_text(out, "order and blocks: guessed from the names; --layout says them\n");
    else
        buf_addf(out, "order and blocks: %s\n",
                 plan->model->format == MODEL_GGUF ? "as llama.cpp names them"
                                                   : "those of the class in transformers");
    buf_addf(out, "tensors: %zu, %zu of them tied; modules: %zu, %zu of them blocks\n",
             tree->of.n_tensors, n_tied, tree->of.n_modules, tree->n_blocks);
}

static void memory_explain(const struct model_plan *plan, struct buf *out)
{
    const struct model_config *c = &plan->model->config;
    char cache[16], activations[16], reserve[16];
    size_format(cache, plan->tree.cache_bytes);
    size_format(activations, plan->activation_bytes);
    size_format(reserve, plan->wish.reserve_bytes);
    if (model_config_has_cache(c))
        buf_addf(
            out,
            "KV cache: %.0f elements a token in each of %zu layers that keep one (%lu KV heads, "
            "of %lu): %s\n",
            model_config_cache_elements(c), plan->tree.n_cached, c->n_kv_heads, c->head_dim, cache);
    else
        buf_add_text(out, "KV cache: not known, since config.json does not say the heads\n");
    buf_addf(out,
             "activations: s b (4 h + 2 i) e + 4 b v with h = %lu, i = %lu, v = %lu: %s on each "
             "GPU that holds a part, and %s kept free\n",
             c->hidden, c->intermediate > 0 ? c->intermediate : 4 * c->hidden, c->vocab,
             activations, reserve);
}

void plan_explanation_add(const struct model_plan *plan, const struct model_plan *other,
                          struct buf *out)
{
    layout_explain(plan, out);
    memory_explain(plan, out);
    buf_addf(out, "method: %s; the fullest GPU would be %.1f %% full\n",
             plan_method_name(plan->wish.method), fullest(plan));
    if (other)
        buf_addf(out, "with %s: %.1f %%%s\n", plan_method_name(other->wish.method), fullest(other),
                 plan_missing_bytes(other) > 0 ? ", which is too much, or some of it fits nowhere"
                                               : "");
}
