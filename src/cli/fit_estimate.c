/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fit_estimate.h"

#include "base/cleanup.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "cli/chosen_devices.h"
#include "opt/say.h"

enum {
    CONTEXT_DEFAULT = 4096
};

/* ---- devices ---- */

struct device_rows {
    struct estimate_device at[DEVICES_MAX + 1];
    size_t len;
};

static void row_add(struct device_rows *rows, const char *label, const char *name, uint64_t bytes,
                    const struct fit_margin *margin)
{
    struct estimate_device *row = &rows->at[rows->len++];
    *row = (struct estimate_device){.total_bytes = bytes,
                                    .margin_bytes = fit_margin_bytes(margin, bytes)};
    snprintf(row->name, sizeof(row->name), "%s%s%s%s", label, name[0] ? " (" : "", name,
             name[0] ? ")" : "");
}

static int devices_add(const struct app *app, const struct estimate_request *request,
                       struct device_rows *rows, struct err *err)
{
    cleanup_free struct chosen_devices *chosen = xcalloc(1, sizeof(*chosen));
    int rc = chosen_devices_find(app, request->gpus, chosen, err);
    for (size_t i = 0; rc == 0 && i < chosen->len; i++) {
        const struct device *device = &chosen->list.at[chosen->at[i]];
        char label[24];
        device_label(device, label);
        row_add(rows, label, device->name, fit_device_bytes(device, chosen->len), &request->margin);
    }
    chosen_devices_release(chosen);
    return rc;
}

/* ---- the answer ---- */

static int answer(const struct estimate_request *request, const struct model *model,
                  const struct device_rows *rows, struct err *err)
{
    struct estimate_wish wish = request->of;
    struct estimate estimate;
    cleanup_buf struct buf out = BUF_INIT;
    uint64_t context_max = model->config.context_max;
    if (wish.context == 0)
        wish.context =
            context_max > 0 ? MIN(context_max, (uint64_t)CONTEXT_DEFAULT) : CONTEXT_DEFAULT;
    wish.batch = MAX(wish.batch, (uint64_t)1);
    if (context_max > 0 && wish.context > context_max)
        talk("--context %lu is more than the %lu tokens of config.json (max_position_embeddings)",
             wish.context, context_max);
    int rc = estimate_make(model, &wish, &estimate, err);
    if (rc)
        return rc;
    const struct estimate_report report = {.path = request->model,
                                           .model = model,
                                           .wish = &wish,
                                           .estimate = &estimate,
                                           .devices = rows->at,
                                           .n_devices = rows->len};
    (request->is_json ? estimate_json_add : estimate_table_add)(&report, &out);
    return (request->is_json ? objects_put : stdout_put)(buf_str(&out), err);
}

int fit_estimate(const struct app *app, const struct estimate_request *request, struct err *err)
{
    cleanup_free struct device_rows *rows = xcalloc(1, sizeof(*rows));
    cleanup_free struct model *model = xcalloc(1, sizeof(*model));
    int rc = model_read(request->model, model, err);
    if (rc == 0 && request->gpus)
        rc = devices_add(app, request, rows, err);
    if (rc == 0 && request->device_bytes > 0)
        row_add(rows, "a device with so much memory", "", request->device_bytes, &request->margin);
    if (rc == 0)
        rc = answer(request, model, rows, err);
    model_release(model);
    return rc;
}
