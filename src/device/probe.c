/* SPDX-License-Identifier: Apache-2.0 */
#include "device/probe.h"

#include "device/probe_gpu.h"
#include "device/simulated.h"
#include "device/topology.h"
#include "device/visible.h"

static int probe_gpus(const struct probe_opts *opts, struct device_list *out, struct buf *notes,
                      struct err *err)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (!gpu_driver_is_there()) {
        buf_add_text(notes, "no NVIDIA driver on this machine\n");
        return 0;
    }
    int rc = gpu_list(opts, out, notes, err);
    if (rc == 0 && list && !opts->ignore_visibility)
        visible_apply(list, out, notes);
    return rc;
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
        if (rc == 0 && out->len == 0 && spec->is_default) {
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
