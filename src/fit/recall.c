/* SPDX-License-Identifier: Apache-2.0
 *
 * For other verbs: the batch size that muster fit found for their command on the devices that they would take.
 */
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/probe.h"
#include "fit/fit.h"
#include "fit/memo.h"
#include "proc/oom.h"

int fit_batch_on(const struct device *device, size_t n_slots, const char *const *command,
                 const struct environment_wish *environment, uint64_t *out, struct err *err)
{
    uint64_t bytes = fit_device_bytes(device, n_slots);
    struct fit_signature signature;
    struct fit_memo memo;
    char size[16];
    size_format(size, bytes);
    fit_signature_make(&signature, command, environment, device->name, bytes);
    bool is_known = fit_recall(&signature, NULL, &memo);
    fit_signature_release(&signature);
    if (!is_known)
        return fail(err, ERR_USAGE,
                    "no batch size is remembered for this command on a device such as %s (%s); "
                    "find it with muster fit -g SPEC -- COMMAND, or give a number",
                    device->name, size);
    *out = memo.batch;
    fit_memo_release(&memo);
    return 0;
}

/* The smallest batch size over all devices, so that each device can run it. */
static int batch_of(const struct device_list *list, const size_t *chosen, size_t n_chosen,
                    const struct fit_wanted *wanted, uint64_t *out, struct err *err)
{
    for (size_t i = 0; i < n_chosen; i++) {
        uint64_t batch = 0;
        int rc = fit_batch_on(&list->at[chosen[i]], n_chosen, wanted->command, wanted->environment,
                              &batch, err);
        if (rc)
            return rc;
        *out = i == 0 ? batch : MIN(*out, batch);
    }
    return 0;
}

uint64_t fit_device_bytes(const struct device *device, size_t n_slots)
{
    return device->kind == DEVICE_CPU ? oom_memory_bytes() / MAX(n_slots, (size_t)1)
                                      : device->mem_total_bytes;
}

int fit_batch_recall(const struct fit_wanted *wanted, uint64_t *out, struct err *err)
{
    cleanup_free struct device_spec *spec = xcalloc(1, sizeof(*spec));
    cleanup_buf struct buf notes = BUF_INIT;
    struct device_list list = {0};
    size_t chosen[DEVICES_MAX], n_chosen = 0;
    int rc = spec_parse(wanted->gpus, spec, err);
    *out = 0;
    if (rc == 0)
        rc = probe_universe(&(struct probe_opts){.self_path = wanted->self_path}, spec, &list,
                            &notes, err);
    if (rc == 0)
        rc = spec_select(spec, &list, chosen, DEVICES_MAX, &n_chosen, NULL, err);
    if (rc == 0 && n_chosen == 0)
        rc = fail(err, ERR_USAGE, "a device is needed to know its batch size; give a number");
    if (rc == 0)
        rc = batch_of(&list, chosen, n_chosen, wanted, out, err);
    device_list_release(&list);
    return rc;
}
