/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GPUs are connected: PCIe, links of their vendors, NUMA nodes. An idle GPU lowers the
 * generation of its PCIe link, never the width; so a low generation counts only on a busy GPU.
 */
#include "base/cleanup.h"
#include "base/idlist.h"
#include "base/xalloc.h"
#include "device/vendor.h"
#include "doctor/checks.h"

enum {
    NODES_MAX = 64,
    BUSY_PERCENT = 50
};

static const struct trouble
    narrow = {FINDING_WARN, "Data reach it at a fraction of the speed of its slot.",
              "Power off and seat the board, or its riser, anew; look at lspci -vv (LnkSta) and at "
              "the slot in the board's manual"},
    old_gen = {FINDING_WARN, "Under load its link runs at an older generation than it can.",
               "Look at the slot's setting in the firmware, and at risers"},
    fewer_links = {FINDING_WARN,
                   "Collectives and peer-to-peer run at the speed of the weakest; the others of "
                   "its model have more.",
                   "nvidia-smi nvlink -s; look for Xid 74 in dmesg; have the bridge or the board "
                   "looked at"};

static void width_judge(const struct device *device, struct findings *out)
{
    if (device->details.pcie_width > 0 &&
        device->details.pcie_width < device->details.pcie_width_max)
        found_at(out, &narrow, device, "PCIe link of %d lanes instead of %d",
                 device->details.pcie_width, device->details.pcie_width_max);
    if (device->details.pcie_gen > 0 && device->details.pcie_gen < device->details.pcie_gen_max &&
        device->busy_percent >= BUSY_PERCENT)
        found_at(out, &old_gen, device, "PCIe link of generation %d instead of %d",
                 device->details.pcie_gen, device->details.pcie_gen_max);
}

static void nvlinks_judge(const struct device_list *machine, const struct device *device,
                          struct findings *out)
{
    int most = 0;
    for (size_t i = 0; i < machine->len; i++)
        if (strcmp(machine->at[i].name, device->name) == 0)
            most = MAX(most, machine->at[i].details.nvlinks_up);
    if (device->details.nvlinks_up < most && !device->is_lost)
        found_at(out, &fewer_links, device, "%d NVLinks are up, %d on others of its model",
                 device->details.nvlinks_up, most);
}

/* "28 of 28 pairs by NVLink; ": of one vendor's devices, since no link joins two vendors'. */
static void pairs_format(const struct device_list *devices, const struct vendor *vendor,
                         struct buf *out)
{
    size_t n_pairs = 0, n_linked = 0;
    for (size_t a = 0; a < devices->len; a++) {
        for (size_t b = a + 1; b < devices->len && devices->distance; b++) {
            bool is_pair =
                devices->at[a].kind == vendor->kind && devices->at[b].kind == vendor->kind;
            n_pairs += is_pair;
            n_linked += is_pair && devices->distance[a * devices->len + b] < DISTANCE_NOT_LINKED;
        }
    }
    if (n_pairs > 0)
        buf_addf(out, "%zu of %zu pairs by %s; ", n_linked, n_pairs, vendor->link);
}

/* "NUMA node 0: 0-3, node 1: 4-7" */
static void nodes_format(const struct device_list *devices, struct buf *out)
{
    cleanup_free uint32_t *ids = xcalloc(devices->len + 1, sizeof(*ids));
    size_t n_nodes = 0;
    for (int node = 0; node < NODES_MAX; node++) {
        size_t n_ids = 0;
        for (size_t i = 0; i < devices->len; i++)
            if (devices->at[i].numa_node == node)
                ids[n_ids++] = (uint32_t)devices->at[i].index;
        if (n_ids == 0)
            continue;
        buf_addf(out, n_nodes++ > 0 ? ", node %d: gpu " : "NUMA node %d: gpu ", node);
        idlist_format(out, ids, n_ids);
    }
    if (n_nodes == 0)
        buf_add_text(out, "NUMA nodes not known");
}

void links_judge(const struct facts *facts, struct findings *out)
{
    const struct device_list *devices = &facts->devices;
    cleanup_buf struct buf picture = BUF_INIT;
    size_t n_before = out->len;
    if (!are_gpus(devices))
        return;
    for (size_t i = 0; i < devices->len; i++) {
        width_judge(&devices->at[i], out);
        nvlinks_judge(&facts->machine, &devices->at[i], out);
    }
    for (size_t v = 0; v < n_vendors; v++)
        pairs_format(devices, &vendors[v], &picture);
    nodes_format(devices, &picture);
    if (out->len == n_before)
        found_ok(out, "%s", buf_text(&picture));
}
