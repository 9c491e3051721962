/* SPDX-License-Identifier: Apache-2.0
 *
 * What each device holds, as an SVG: a bar for each device, in which the weights are drawn key by key.
 */
#include "base/cleanup.h"
#include "base/markup.h"
#include "base/name_index.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "plan/plan.h"

enum {
    LABEL_WIDTH = 190,
    BAR_WIDTH = 640,
    BAR_HEIGHT = 26,
    ROW_HEIGHT = 42,
    TOP = 56,
    RANGES_MAX = 4
};

static const char style[] =
    "<style>text{font:12px sans-serif;fill:#222}.t{font-size:15px}.s{fill:#666;font-size:11px}"
    ".b{fill:#eee;stroke:#999}.w0{fill:#3b6ea5}.w1{fill:#5b8ec5}.k{fill:#d98e04}.a{fill:#9a9a9a}"
    ".x{fill:none;stroke:#c00;stroke-width:2}</style>\n";

struct bar {
    struct buf *out;
    double x, per_byte;
    unsigned y;
};

static void box_add(struct bar *bar, const char *class_name, uint64_t bytes, struct str title)
{
    double width = (double)bytes * bar->per_byte;
    if (bytes == 0)
        return;
    buf_addf(bar->out, "<rect class=\"%s\" x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\">",
             class_name, bar->x, bar->y, width, BAR_HEIGHT);
    buf_add_text(bar->out, "<title>");
    markup_text_add(bar->out, title);
    char size[16];
    size_format(size, bytes);
    buf_addf(bar->out, ": %s</title></rect>\n", size);
    bar->x += width;
}

/* The nearest key that stands for a tensor; NAME_NONE if there is none. */
static size_t key_of(const struct name_index *keys, struct str name)
{
    for (size_t len = name.len; len > 0; len--)
        if (len == name.len || name.at[len] == '.') {
            size_t key = name_index_find(keys, (struct str){name.at, len});
            if (key != NAME_NONE)
                return key;
        }
    return name_index_find(keys, STR(""));
}

/* The bytes of each key of the map. Memory that tensors share counts only for the first of them. */
static uint64_t *entries_weigh(const struct model_plan *plan)
{
    const struct partition_model *of = &plan->tree.of;
    uint64_t *bytes = xcalloc(plan->n_entries + 1, sizeof(*bytes));
    cleanup_free bool *is_counted = xcalloc(of->n_tensors + 1, sizeof(*is_counted));
    cleanup_name_index struct name_index keys = NAME_INDEX_INIT;
    for (size_t i = 0; i < plan->n_entries; i++)
        name_index_add(&keys, plan->entries[i].name);
    for (size_t i = 0; i < of->n_tensors; i++) {
        const struct partition_tensor *tensor = &of->tensors[i];
        size_t key = key_of(&keys, tensor->name);
        if (key != NAME_NONE && (tensor->tied == 0 || !is_counted[tensor->tied]))
            bytes[key] += tensor->bytes;
        is_counted[tensor->tied] = true;
    }
    return bytes;
}

static void device_add(const struct model_plan *plan, uint32_t i, const uint64_t *weights,
                       double per_byte, struct buf *out)
{
    const struct plan_device *device = &plan->wish.devices[i];
    const struct partition_load *load = &plan->map->loads[i];
    struct bar bar = {out, LABEL_WIDTH, per_byte, (unsigned)(TOP + (int)i * ROW_HEIGHT)};
    cleanup_buf struct buf ranges = BUF_INIT;
    unsigned shade = 0;
    plan_ranges_add(plan, i, RANGES_MAX, &ranges);
    buf_addf(out, "<text x=\"8\" y=\"%u\">", bar.y + 17);
    markup_text_add(out, str_of(device->label));
    buf_addf(out, "</text><rect class=\"b\" x=\"%d\" y=\"%u\" width=\"%.2f\" height=\"%d\"/>\n",
             LABEL_WIDTH, bar.y,
             device->of.kind == PARTITION_GPU ? (double)device->of.mem_bytes * per_byte : 0.0,
             BAR_HEIGHT);
    for (size_t k = 0; k < plan->n_entries; k++)
        if (plan->entries[k].device == i)
            box_add(&bar, shade++ % 2 ? "w1" : "w0", weights[k], plan->entries[k].name);
    box_add(&bar, "k", load->kv_bytes, STR("KV cache"));
    box_add(&bar, "a", plan_need_bytes(plan, i) - load->weight_bytes - load->kv_bytes,
            STR("activations"));
    if (plan_lack_bytes(plan, i) > 0)
        buf_addf(out, "<rect class=\"x\" x=\"%d\" y=\"%u\" width=\"%.2f\" height=\"%d\"/>\n",
                 LABEL_WIDTH, bar.y, bar.x - LABEL_WIDTH, BAR_HEIGHT);
    buf_addf(out, "<text class=\"s\" x=\"%d\" y=\"%u\">", LABEL_WIDTH, bar.y + BAR_HEIGHT + 11);
    markup_text_add(out, buf_str(&ranges));
    buf_add_text(out, "</text>\n");
}

void plan_svg_add(const struct model_plan *plan, const char *path, struct buf *out)
{
    uint32_t n = plan->wish.n_devices;
    uint64_t longest = 1;
    cleanup_free uint64_t *weights = entries_weigh(plan);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t mem =
            plan->wish.devices[i].of.kind == PARTITION_GPU ? plan->wish.devices[i].of.mem_bytes : 0;
        longest = MAX(longest, MAX(plan_need_bytes(plan, i), mem));
    }
    buf_addf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\">\n%s",
             LABEL_WIDTH + BAR_WIDTH + 20, TOP + n * ROW_HEIGHT + 20, style);
    buf_add_text(out, "<text class=\"t\" x=\"8\" y=\"22\">");
    markup_text_add(out, str_of(path));
    buf_addf(out,
             "</text><text class=\"s\" x=\"8\" y=\"40\">%s; %lu tokens, %lu sequences; blue: "
             "weights, a box for each key of the map; orange: KV cache; grey: activations</text>\n",
             plan_method_name(plan->wish.method), plan->wish.context, plan->wish.batch);
    for (uint32_t i = 0; i < n; i++)
        device_add(plan, i, weights, (double)BAR_WIDTH / (double)longest, out);
    buf_add_text(out, "</svg>\n");
}
