/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/chosen_devices.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "device/probe.h"
#include "device/spec.h"

int chosen_devices_find(const struct app *app, const char *text, struct chosen_devices *out,
                        struct err *err)
{
    cleanup_free struct device_spec *spec = xcalloc(1, sizeof(*spec));
    cleanup_buf struct buf notes = BUF_INIT;
    out->len = 0;
    out->list = (struct device_list){0};
    int rc = spec_parse(text, spec, err);
    if (rc == 0)
        rc = probe_universe(&(struct probe_opts){.self_path = app->self_path}, spec, &out->list,
                            &notes, err);
    return rc ? rc : spec_select(spec, &out->list, out->at, DEVICES_MAX, &out->len, NULL, err);
}

void chosen_devices_release(struct chosen_devices *chosen)
{
    device_list_release(&chosen->list);
    chosen->len = 0;
}
