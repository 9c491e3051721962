/* SPDX-License-Identifier: Apache-2.0
 *
 * Which CPUs the ranks of a machine get (--numa-binding), and their share of threads (--threads share). Both are
 * found before any rank is started. On a machine with an agent, the agent finds them, since it knows the cores.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"

static size_t *positions_all_new(size_t n)
{
    size_t *out = xcalloc(n + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++)
        out[i] = i;
    return out;
}

/* Without --gpus ranks see the devices that muster sees. These are looked up only if ranks are bound to their CPUs. */
static int seen_cpus_find(struct machine *machine, struct err *err)
{
    struct device_list devices = {0};
    bool binds = machine->cpus.binding != NUMA_BINDING_NONE;
    int rc = binds ? devices_see(shell_self_path(machine->launch->shell), &devices, err) : 0;
    cleanup_free size_t *positions = positions_all_new(devices.len);
    rc =
        rc ? rc
           : cpu_shares_of(&machine->cpus, &devices, positions, devices.len, &machine->shares, err);
    device_list_release(&devices);
    return rc;
}

int machine_cpus_find(struct machine *machine, struct err *err)
{
    const struct launch *launch = machine->launch;
    const struct launch_request *request = launch->request;
    const struct seat *seat = machine_seat(machine);
    if (request->cpus.binding == NUMA_BINDING_NONE && !request->cpus.threads.is_share)
        return 0;
    if (request->cpus.threads.is_share && request->task.n_local > 1)
        return fail(err, ERR_USAGE,
                    "--threads share divides the cores among ranks that muster starts, and a "
                    "launcher has started the %u tasks on this machine; use --threads N",
                    request->task.n_local);
    machine->cpus = (struct cpu_wish){.binding = request->cpus.binding,
                                      .shares_threads = request->cpus.threads.is_share,
                                      .n_ranks = request->task.n_local > 0 ? request->task.n_local
                                                                           : machine->n_ranks};
    if (machine->is_far)
        return 0;
    if (seat->n_devices == 0)
        return seen_cpus_find(machine, err);
    return cpu_shares_of(&machine->cpus, &launch->allocation.devices, seat->devices,
                         seat->n_devices, &machine->shares, err);
}
