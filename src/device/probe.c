/* SPDX-License-Identifier: Apache-2.0 */
#include "device/probe.h"

#include "base/clock.h"
#include "base/xalloc.h"
#include "device/probe_gpu.h"
#include "device/simulated.h"
#include "device/topology.h"
#include "device/vendor.h"

/* Moves the devices of `more` to the end of `all`; their indices continue those of `all`. Distances
 * between devices of the two lists are unknown. */
static void append(struct device_list *all, struct device_list *more)
{
    size_t n_old = all->len, n_all = n_old + more->len;
    const struct device_list old = *all;
    if (n_old == 0 || more->len == 0) {
        struct device_list *unwanted = n_old == 0 ? all : more;
        device_list_release(unwanted);
        if (unwanted == all)
            *all = *more;
        return;
    }
    uint8_t *distance = xmalloc(n_all * n_all);
    memset(distance, DISTANCE_UNKNOWN, n_all * n_all);
    for (size_t i = 0; i < n_all; i++) {
        const struct device_list *part = i < n_old ? &old : more;
        size_t begin = i < n_old ? 0 : n_old;
        for (size_t j = 0; j < part->len && part->distance; j++)
            distance[i * n_all + begin + j] = part->distance[(i - begin) * part->len + j];
    }
    free(all->distance);
    all->at = xrealloc(all->at, n_all * sizeof(*all->at));
    memcpy(&all->at[n_old], more->at, more->len * sizeof(*all->at));
    for (size_t i = n_old; i < n_all; i++)
        all->at[i].index = (int)i;
    *all = (struct device_list){all->at, n_all, distance};
    device_list_release(more);
}

/* Keeps the devices of a vendor that the lists in the environment name. If several vendors are
 * there, each note names its vendor, because CUDA_VISIBLE_DEVICES is read for AMD's devices too. */
static void apply_lists(const struct vendor *vendor, bool is_alone, struct device_list *found,
                        struct buf *notes)
{
    cleanup_buf struct buf said = BUF_INIT;
    visible_apply_rules(vendor->rules, VISIBLE_RULES_MAX, found, &said);
    struct str rest = buf_str(&said), line;
    while (str_next(&rest, '\n', &line))
        if (line.len > 0)
            buf_addf(notes, "%s%s%.*s\n", is_alone ? "" : vendor->name,
                     is_alone ? "" : "'s GPUs: ", (int)line.len, line.at);
}

static size_t vendors_there(void)
{
    size_t n_there = 0;
    for (size_t v = 0; v < n_vendors; v++)
        n_there += vendors[v].is_there();
    return n_there;
}

void probe_visible(const struct device_list *machine, struct device_list *out, struct buf *notes)
{
    size_t n_there = vendors_there();
    *out = (struct device_list){0};
    for (enum device_kind kind = DEVICE_CPU; kind <= DEVICE_SIM; kind++) {
        const struct vendor *vendor = vendor_of(kind);
        struct device_list found = device_list_of_kind(machine, kind);
        device_list_renumber(&found);
        if (vendor && vendor->is_there())
            apply_lists(vendor, n_there == 1, &found, notes);
        append(out, &found);
    }
}

/* Drivers are asked one after the other, and none may use up the time of the next. */
static uint64_t share_until(uint64_t until_ms, size_t n_left)
{
    uint64_t now_ms = clock_now_ms();
    return until_ms > now_ms ? now_ms + (until_ms - now_ms) / n_left : until_ms;
}

/*
 * The first failure becomes the error. With wants_reasons the other drivers are queried
 * nevertheless, and their failures are added to `reasons`.
 */
static int machine_list(const struct probe_opts *opts, struct device_list *out, struct buf *reasons,
                        struct err *err)
{
    size_t n_left = vendors_there();
    int rc = 0;
    for (size_t v = 0; v < n_vendors && (rc == 0 || opts->wants_reasons); v++) {
        struct device_list found = {0};
        struct probe_opts share = *opts;
        struct err why = {0};
        if (!vendors[v].is_there() || n_left == 0)
            continue;
        share.until_ms = share_until(opts->until_ms, n_left--);
        int failed = gpu_list(&vendors[v], &share, &found, reasons, rc ? &why : err);
        if (failed && rc)
            buf_addf(reasons, "%s\n", why.text);
        rc = rc ? rc : failed;
        append(out, &found);
    }
    return rc;
}

/* Why a vendor has no device is noted only if no device is found, or with wants_reasons. */
static int probe_gpus(const struct probe_opts *opts, struct device_list *out, struct buf *notes,
                      struct err *err)
{
    cleanup_buf struct buf reasons = BUF_INIT;
    struct device_list machine = {0};
    int rc = machine_list(opts, &machine, &reasons, err);
    size_t n_there = vendors_there();
    if (rc && !opts->wants_reasons) {
        device_list_release(&machine);
        return rc;
    }
    for (size_t v = 0; v < n_vendors && n_there == 0; v++)
        buf_addf(&reasons, "%s%s%s", v == 0 ? "no " : " or ", vendors[v].name,
                 v + 1 < n_vendors ? "" : " driver on this machine\n");
    if (opts->ignore_visibility)
        *out = machine;
    else
        probe_visible(&machine, out, notes);
    if (!opts->ignore_visibility)
        device_list_release(&machine);
    if (out->len == 0 || opts->wants_reasons)
        buf_add_str(notes, buf_str(&reasons));
    return rc;
}

static bool has_gpu(const struct device_list *list, bool is_for_looking)
{
    for (size_t i = 0; i < list->len; i++)
        if (is_for_looking || !list->at[i].is_integrated)
            return true;
    return false;
}

int probe_universe(const struct probe_opts *opts, const struct device_spec *spec,
                   struct device_list *out, struct buf *notes, struct err *err)
{
    struct buf unwanted = BUF_INIT;
    int rc = 0;
    *out = (struct device_list){0};
    switch (spec->kind) {
    case SPEC_NONE:
        break;
    case SPEC_SIM:
        sim_devices(spec, out);
        break;
    case SPEC_CPU:
        cpu_devices(spec->count, out);
        break;
    case SPEC_FREE:
    case SPEC_ALL:
    case SPEC_ANY:
    case SPEC_LIST:
        rc = probe_gpus(opts, out, notes ? notes : &unwanted, err);
        if (rc == 0 && spec->is_default && !has_gpu(out, opts->is_for_looking)) {
            if (out->len > 0 && notes)
                buf_add_text(notes, "no GPU but graphics of the processor (-g all uses them)\n");
            device_list_release(out);
            cpu_devices(0, out);
            buf_addf(notes ? notes : &unwanted, "using %zu CPU slot%s instead\n", out->len,
                     out->len == 1 ? "" : "s");
        }
        break;
    }
    buf_release(&unwanted);
    return rc ? wrap(err, rc, "devices") : 0;
}
