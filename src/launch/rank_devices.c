/* SPDX-License-Identifier: Apache-2.0
 *
 * --gpus-min: if devices of this machine are lost while ranks use them, the next generation has a rank for each
 * device that is left.
 */
#include "base/cleanup.h"
#include "base/idlist.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"
#include "shell/device_watch.h"

int final_statuses_parse(struct str text, struct launch_restarts *out, struct err *err)
{
    uint32_t statuses[STATUSES_MAX];
    size_t n = 0;
    int rc = idlist_parse(text, STATUSES_MAX - 1, statuses, countof(statuses), &n, err);
    if (rc == 0)
        memset(out->is_final, 0, sizeof(out->is_final)); /* of a variable or an earlier option */
    for (size_t i = 0; rc == 0 && i < n; i++)
        out->is_final[statuses[i]] = true;
    return rc;
}

void rank_devices_watch(struct launch *launch)
{
    static const struct device_handlers nothing = {0}; /* no handler: samples are looked up */
    if (launch->devices.watch || launch->allocation.n_chosen == 0)
        return;
    launch->devices.watch = device_watch_new(launch->shell, &launch->allocation, &nothing, launch);
    device_watch_begin(launch->devices.watch);
}

int rank_devices_spare(struct launch *launch, struct err *err)
{
    const struct seat *seat = machine_seat(&launch->own);
    if (launch->request->restarts.gpus_min == 0)
        return 0;
    if (launch->allocation.n_chosen > SEAT_DEVICES_MAX)
        return fail(
            err, ERR_USAGE,
            "--gpus has %zu devices; ranks that start again on fewer (--gpus-min) can have %d at "
            "most; take fewer",
            launch->allocation.n_chosen, SEAT_DEVICES_MAX);
    if (seat->n_devices == 0)
        return fail(
            err, ERR_USAGE,
            "--gpus takes no device, and each rank needs one (--gpus-min); --gpus cpu:N takes CPU "
            "slots");
    if (launch->own.n_ranks != seat->n_devices || launch->request->meeting.n_nodes_max > 1)
        return fail(
            err, ERR_USAGE,
            "--gpus-min works on one machine, with one rank on each device of --gpus; leave "
            "out --nproc-per-node and --nnodes");
    if (launch->request->restarts.gpus_min > seat->n_devices)
        return fail(err, ERR_USAGE,
                    "--gpus-min %lu is more than the %zu devices of --gpus; lower it",
                    launch->request->restarts.gpus_min, seat->n_devices);
    launch->devices.all = xmalloc(sizeof(*seat));
    *launch->devices.all = *seat;
    rank_devices_watch(launch);
    return 0;
}

/* The devices that are left. *lost: the others, as "gpu 1, gpu 3". */
static struct seat left_of(const struct launch *launch, struct buf *lost)
{
    const struct seat *all = launch->devices.all;
    struct seat left = *all;
    left.n_devices = 0;
    for (size_t i = 0; i < all->n_devices; i++) {
        if (!device_watch_sample(launch->devices.watch, all->devices[i])->is_lost) {
            left.devices[left.n_devices++] = all->devices[i];
            continue;
        }
        buf_add_text(lost, lost->len == 0 ? "" : ", ");
        allocation_label_add(&launch->allocation,
                             allocation_position(&launch->allocation, all->devices[i]), lost);
    }
    return left;
}

static int ranks_settle(struct launch *launch, const struct seat *left, struct err *err)
{
    struct machine *own = &launch->own;
    launch->allocation.seats[own->seat] = *left;
    own->n_ranks = (uint32_t)left->n_devices;
    free(own->shares);
    own->shares = NULL;
    return machine_cpus_find(own, err);
}

void rank_devices_settle(struct launch *launch)
{
    const struct seat *all = launch->devices.all, *now = machine_seat(&launch->own);
    cleanup_buf struct buf lost = BUF_INIT;
    struct err err = {0};
    if (!all || gang_view(launch->gang).state != GANG_GATHERS)
        return;
    const struct seat left = left_of(launch, &lost);
    if (left.n_devices == now->n_devices &&
        memcmp(left.devices, now->devices, left.n_devices * sizeof(*left.devices)) == 0)
        return;
    int rc =
        left.n_devices < launch->request->restarts.gpus_min
            ? fail(&err, ERR_UNAVAILABLE,
                   "%zu of %zu devices are left (lost: %s), and --gpus-min is %lu", left.n_devices,
                   all->n_devices, buf_text(&lost), launch->request->restarts.gpus_min)
            : ranks_settle(launch, &left, &err);
    if (rc != 0) {
        shell_abort(launch->shell, &err);
        return;
    }
    log_add(shell_log(launch->shell), LOG_WARN, "launch",
            "%zu of %zu devices have a rank from now on%s%s", left.n_devices, all->n_devices,
            lost.len > 0 ? "; lost: " : "", buf_text(&lost));
    lead_tell(launch, (struct gang_event){.kind = GEV_NODE_UP, .count = launch->own.n_ranks});
}

void rank_devices_end(struct launch *launch)
{
    device_watch_end(launch->devices.watch);
}

void rank_devices_release(struct launch *launch)
{
    device_watch_free(launch->devices.watch);
    free(launch->devices.all);
}
