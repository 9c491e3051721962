/* SPDX-License-Identifier: Apache-2.0 */
#include "base/console_text.h"
#include "base/json.h"
#include "base/parse.h"
#include "model/estimate.h"

static const char *const optimizer_names[] = {[OPTIMIZER_ADAM] = "adam",
                                              [OPTIMIZER_ADAM8BIT] = "adam8bit",
                                              [OPTIMIZER_SGD] = "sgd",
                                              [OPTIMIZER_NONE] = "none"};
static const char *const recompute_names[] = {
    [RECOMPUTE_NONE] = "no", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full"};

/* ---- the table ---- */

static void row_add(struct buf *out, const char *what, uint64_t bytes, const char *how)
{
    buf_addf(out, "  %-22s %12.3f GiB  %s\n", what, (double)bytes / (double)(1ul << 30), how);
}

static void weights_add(const struct model *model, struct buf *out)
{
    for (size_t i = 0; i < model->n_parts; i++) {
        const struct model_part *part = &model->parts[i];
        char how[64], n[32];
        cleanup_buf struct buf what = BUF_INIT;
        buf_add_text(&what, "weights, ");
        console_visible_add(&what, str_of(part->dtype)); /* the name of the type in the file */
        count_format(n, part->n_parameters);
        snprintf(how, sizeof(how), "%s parameter%s", n, plural(part->n_parameters));
        row_add(out, buf_text(&what), part->bytes, how);
    }
}

static void inference_add(const struct estimate_report *r, struct buf *out)
{
    const struct model_config *c = &r->model->config;
    char how[160], token[16], kept[80] = "";
    size_format(token, r->estimate->token_bytes);
    if (c->n_window_layers > 0 && c->window < r->wish->context)
        snprintf(kept, sizeof(kept), "; %lu of %lu layers keep the last %lu tokens",
                 c->n_window_layers, c->n_layers, c->window);
    snprintf(how, sizeof(how), "%s a token * %lu tokens * %lu sequence%s%s", token,
             r->wish->context, r->wish->batch, plural(r->wish->batch), kept);
    if (r->estimate->token_bytes > 0)
        row_add(out, "KV cache", r->estimate->cache_bytes, how);
}

static void training_add(const struct estimate_report *r, struct buf *out)
{
    char how[160];
    row_add(out, "gradients", r->estimate->gradient_bytes, "one for each parameter");
    row_add(out, "optimizer", r->estimate->optimizer_bytes, optimizer_names[r->wish->optimizer]);
    snprintf(how, sizeof(how), "%lu tokens * %lu sequence%s, %s recomputation", r->wish->context,
             r->wish->batch, plural(r->wish->batch), recompute_names[r->wish->recompute]);
    if (r->estimate->activation_bytes > 0)
        row_add(out, "activations", r->estimate->activation_bytes, how);
}

static void device_add(const struct estimate *estimate, const struct estimate_device *device,
                       struct buf *out)
{
    char total[16], margin[16];
    double share = 100.0 * (double)estimate->total_bytes / (double)MAX(device->total_bytes, 1ul);
    size_format(total, device->total_bytes);
    size_format(margin, device->margin_bytes);
    buf_addf(out, "%s: %s %s (%.1f %%; %s are left free)\n", device->name,
             estimate_fits(estimate, device) ? "fits" : "does not fit", total, share, margin);
}

void estimate_table_add(const struct estimate_report *r, struct buf *out)
{
    const struct model *model = r->model;
    char n[32];
    count_format(n, r->estimate->n_parameters);
    console_visible_add(out, str_of(r->path));
    buf_addf(out, ": %s parameter%s in %zu tensor%s of %zu file%s\n", n,
             plural(r->estimate->n_parameters), model->n_tensors, plural(model->n_tensors),
             model->n_files, plural(model->n_files));
    weights_add(model, out);
    (r->wish->is_training ? training_add : inference_add)(r, out);
    row_add(out, "total", r->estimate->total_bytes,
            r->wish->is_training ? "for training" : "for inference");
    if (r->estimate->is_partial)
        buf_addf(out, "%s not counted: config.json %s\n",
                 r->wish->is_training ? "activations are" : "the KV cache is",
                 model->has_config ? "does not say how the layers are made"
                                   : "is not beside the weights");
    for (size_t i = 0; i < r->n_devices; i++)
        device_add(r->estimate, &r->devices[i], out);
}

/* ---- JSON ---- */

static void part_json(struct buf *out, const char *part, uint64_t bytes)
{
    buf_addf(out, "{\"part\":\"%s\",\"bytes\":%lu}\n", part, bytes);
}

static void weights_json(const struct model *model, struct buf *out)
{
    for (size_t i = 0; i < model->n_parts; i++) {
        const struct model_part *part = &model->parts[i];
        buf_add_text(out, "{\"part\":\"weights\",\"dtype\":");
        buf_add_json(out, str_of(part->dtype));
        buf_addf(out, ",\"parameters\":%lu,\"bytes\":%lu}\n", part->n_parameters, part->bytes);
    }
}

static void total_json(const struct estimate_report *r, struct buf *out)
{
    buf_addf(out, "{\"part\":\"total\",\"for\":\"%s\",\"context\":%lu,\"batch\":%lu",
             r->wish->is_training ? "training" : "inference", r->wish->context, r->wish->batch);
    if (r->wish->is_training)
        buf_addf(
            out, ",\"optimizer\":\"%s\",\"recompute\":\"%s\"", optimizer_names[r->wish->optimizer],
            r->wish->recompute == RECOMPUTE_NONE ? "none" : recompute_names[r->wish->recompute]);
    buf_addf(out, ",\"parameters\":%lu,\"bytes\":%lu,\"is_partial\":%s}\n",
             r->estimate->n_parameters, r->estimate->total_bytes,
             r->estimate->is_partial ? "true" : "false");
}

void estimate_json_add(const struct estimate_report *r, struct buf *out)
{
    const struct estimate *e = r->estimate;
    weights_json(r->model, out);
    if (r->wish->is_training) {
        part_json(out, "gradients", e->gradient_bytes);
        part_json(out, "optimizer", e->optimizer_bytes);
        part_json(out, "activations", e->activation_bytes);
    } else {
        const struct model_config *c = &r->model->config;
        buf_addf(out,
                 "{\"part\":\"cache\",\"bytes\":%lu,\"bytes_per_token\":%lu,"
                 "\"window\":%lu,\"window_layers\":%lu}\n",
                 e->cache_bytes, e->token_bytes, c->n_window_layers > 0 ? c->window : 0,
                 c->n_window_layers);
    }
    total_json(r, out);
    for (size_t i = 0; i < r->n_devices; i++) {
        const struct estimate_device *device = &r->devices[i];
        buf_add_text(out, "{\"device\":");
        buf_add_json(out, str_of(device->name));
        buf_addf(out, ",\"total_bytes\":%lu,\"margin_bytes\":%lu,\"fits\":%s}\n",
                 device->total_bytes, device->margin_bytes,
                 estimate_fits(e, device) ? "true" : "false");
    }
}
