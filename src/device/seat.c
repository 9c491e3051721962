/* SPDX-License-Identifier: Apache-2.0 */
#include "device/seat.h"

#include "base/cleanup.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "device/near.h"
#include "device/topology.h"
#include "device/vendor.h"

int seats_possible(const struct device_spec *spec, uint32_t group, struct err *err)
{
    size_t n_named = spec->kind == SPEC_LIST ? spec->n_entries : spec->count;
    bool is_count = spec->kind != SPEC_LIST;
    if (group <= 1 || group == SEAT_HAS_ALL || n_named == 0)
        return 0;
    if (n_named < group)
        return fail(err, ERR_USAGE, "a worker takes %u devices (--gpus-per-worker), -g names %zu",
                    group, n_named);
    if (is_count || n_named % group == 0)
        return 0;
    return fail(err, ERR_USAGE,
                "the %zu devices of -g cannot be shared out among workers of %u: name %zu or %zu",
                n_named, group, n_named - n_named % group, n_named + group - n_named % group);
}

int seats_fit(const struct device_list *devices, size_t *chosen, size_t *n_chosen, uint32_t group,
              struct buf *notes, struct err *err)
{
    size_t n_fit = *n_chosen;
    if (group <= 1 || group == SEAT_HAS_ALL)
        return 0;
    cleanup_free size_t *order = near_groups(devices, chosen, *n_chosen, group, &n_fit);
    if (n_fit == 0)
        return fail(err, ERR_UNAVAILABLE,
                    "a worker takes %u devices (--gpus-per-worker), and %zu can be had%s", group,
                    *n_chosen, *n_chosen < group ? "" : ", not so many of one kind");
    if (n_fit == *n_chosen)
        return 0;
    for (size_t i = n_fit; i < *n_chosen; i++) {
        char label[24];
        device_label(&devices->at[order[i]], label);
        buf_addf(notes, "%s is left over: a worker takes %u devices%s\n", label, group,
                 (*n_chosen - n_fit) < group ? "" : " of one kind");
    }
    memcpy(chosen, order, n_fit * sizeof(*chosen));
    *n_chosen = n_fit;
    return 0;
}

static int seats_check(const struct device_list *devices, const size_t *chosen, size_t n_chosen,
                       const struct seat_opts *opts, struct err *err)
{
    uint32_t group = opts->devices_per_worker, shares = opts->workers_per_device;
    if (group > 1 && shares > 1)
        return fail(err, ERR_USAGE,
                    "several devices a worker and several workers a device exclude each other");
    if (group > SEAT_DEVICES_MAX)
        return fail(err, ERR_USAGE, "at most %d devices a worker", SEAT_DEVICES_MAX);
    for (size_t i = 0; i < n_chosen && group > 1; i++)
        if (devices->at[chosen[i]].parent_uuid[0])
            return fail(err, ERR_USAGE, "a worker can use one MIG instance, not %u (CUDA's limit)",
                        group);
    ASSERT(n_chosen % group == 0); /* ensured by seats_fit() */
    return 0;
}

static void label_make(struct seat *seat, const struct device_list *devices,
                       uint32_t workers_per_device)
{
    char first[24];
    device_label(&devices->at[seat->devices[0]], first);
    *strchr(first, ' ') = '_';
    int used = snprintf(seat->label, sizeof(seat->label), "%s", first);
    for (size_t i = 1; i < seat->n_devices && used < (int)sizeof(seat->label); i++)
        used += snprintf(seat->label + used, sizeof(seat->label) - (size_t)used, "+%d",
                         devices->at[seat->devices[i]].index);
    /* the numbers of 64 GPUs do not fit in a file name, so only the first and the last are used */
    if (used >= (int)sizeof(seat->label))
        snprintf(seat->label, sizeof(seat->label), "%s-%d", first,
                 devices->at[seat->devices[seat->n_devices - 1]].index);
    else if (workers_per_device > 1)
        snprintf(seat->label + used, sizeof(seat->label) - (size_t)used, "_w%u", seat->share);
}

static bool overlap(const cpu_set_t *a, const cpu_set_t *b)
{
    cpu_set_t both;
    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

/*
 * Each seat may use all the cores near its devices. Only the number of threads is divided, so that
 * the seats of one NUMA node together start as many threads as the node has cores.
 */
static void share_cores(struct seat *seats, size_t n_seats)
{
    cpu_set_t allowed;
    unsigned width = smt_width();
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        CPU_ZERO(&allowed);
    for (size_t i = 0; i < n_seats; i++) {
        bool is_bound = CPU_COUNT(&seats[i].cpus) > 0;
        size_t n_sharing = is_bound ? 0 : n_seats;
        for (size_t j = 0; j < n_seats && is_bound; j++)
            n_sharing += overlap(&seats[i].cpus, &seats[j].cpus);
        size_t threads = (size_t)CPU_COUNT(is_bound ? &seats[i].cpus : &allowed);
        seats[i].threads = (unsigned)MAX(threads / width / n_sharing, (size_t)1);
    }
}

/*
 * A worker cannot be shown a part of the CPU slots, because these have no names. So the slots that
 * do not fit into the seat are left out.
 */
static int whole_make(const struct device_list *devices, const size_t *chosen, size_t n_chosen,
                      struct seat **out, size_t *n_out, struct err *err)
{
    size_t n_kept = MIN(n_chosen, (size_t)SEAT_DEVICES_MAX);
    if (n_kept < n_chosen && devices->at[chosen[0]].kind != DEVICE_CPU)
        return fail(err, ERR_USAGE, "%zu devices are more than the %d that one worker can see",
                    n_chosen, SEAT_DEVICES_MAX);
    struct seat *seat = xcalloc(1, sizeof(*seat));
    *seat = (struct seat){.is_whole = true, .n_devices = n_kept, .threads = processors_allowed()};
    memcpy(seat->devices, chosen, n_kept * sizeof(*chosen));
    label_make(seat, devices, 1);
    *out = seat;
    *n_out = 1;
    return 0;
}

int seats_make(const struct device_list *devices, const size_t *chosen, size_t n_chosen,
               const struct seat_opts *opts, struct seat **out, size_t *n_out, struct err *err)
{
    struct seat_opts counts = {.devices_per_worker = MAX(opts->devices_per_worker, 1u),
                               .workers_per_device = MAX(opts->workers_per_device, 1u)};
    if (counts.devices_per_worker == SEAT_HAS_ALL)
        return whole_make(devices, chosen, n_chosen, out, n_out, err);
    int rc = seats_check(devices, chosen, n_chosen, &counts, err);
    if (rc)
        return rc;
    size_t group = counts.devices_per_worker, n_groups = n_chosen / group;
    struct seat *seats = xcalloc(n_groups * counts.workers_per_device + 1, sizeof(*seats));
    size_t n_grouped = 0;
    cleanup_free size_t *order = near_groups(devices, chosen, n_chosen, group, &n_grouped);
    ASSERT(n_grouped == n_chosen);
    /* The share is the outer index, so that the first workers to start are on different devices. */
    for (size_t s = 0; s < n_groups * counts.workers_per_device; s++) {
        struct seat *seat = &seats[s];
        seat->number = (uint32_t)s;
        seat->share = (uint32_t)(s / n_groups);
        seat->n_devices = group;
        for (size_t i = 0; i < group; i++) {
            seat->devices[i] = order[s % n_groups * group + i];
            CPU_OR(&seat->cpus, &seat->cpus, &devices->at[seat->devices[i]].cpus);
        }
        label_make(seat, devices, counts.workers_per_device);
    }
    *n_out = n_groups * counts.workers_per_device;
    share_cores(seats, *n_out);
    *out = seats;
    return 0;
}

enum naming {
    BY_UUID,
    BY_NUMBER /* the physical number; for CPU slots, which have none, the index */
};

/* Adds "NAME=a,b": the seat's devices, by uuid or by number. */
static void add_devices(const struct seat *seat, const struct device_list *devices,
                        const char *name, enum naming naming, struct env_list *env)
{
    struct buf text = BUF_INIT;
    buf_addf(&text, "%s=", name);
    for (size_t i = 0; i < seat->n_devices; i++) {
        const struct device *device = &devices->at[seat->devices[i]];
        buf_add_text(&text, i > 0 ? "," : "");
        if (naming == BY_UUID)
            buf_add_text(&text, device->uuid);
        else
            buf_addf(&text, "%d", device->physical < 0 ? device->index : device->physical);
    }
    env_list_add(env, buf_steal(&text));
}

/* A worker on a CPU slot must not use a GPU that was given to another worker. */
static void hide_all(struct env_list *env)
{
    for (size_t v = 0; v < n_vendors; v++)
        if (vendors[v].is_there())
            env_list_add(env, xstrdup(vendors[v].hides));
}

static void add_visibility(const struct seat *seat, const struct device_list *devices,
                           enum visible_mode mode, struct env_list *env)
{
    const struct device *first = &devices->at[seat->devices[0]];
    const struct vendor *vendor = vendor_of(first->kind == DEVICE_SIM ? DEVICE_CUDA : first->kind);
    if (!vendor) {
        hide_all(env);
        return;
    }
    for (size_t i = 0; vendor->clears[i]; i++)
        env_list_add(env, xstrdup(vendor->clears[i]));
    if (vendor->setting)
        env_list_add(env, xstrdup(vendor->setting));
    bool by_uuid = mode == VISIBLE_UUID || first->parent_uuid[0] != '\0';
    for (size_t i = 0; i < seat->n_devices; i++)
        by_uuid &= !devices->at[seat->devices[i]].is_unnamed;
    add_devices(seat, devices, vendor->shows, by_uuid ? BY_UUID : BY_NUMBER, env);
}

void seat_join(struct seat *seat, const struct seat *more)
{
    ASSERT(seat->n_devices + more->n_devices <= SEAT_DEVICES_MAX);
    memcpy(seat->devices + seat->n_devices, more->devices,
           more->n_devices * sizeof(*more->devices));
    seat->n_devices += more->n_devices;
    seat->threads += more->threads;
    CPU_OR(&seat->cpus, &seat->cpus, &more->cpus);
}

void seat_environment(const struct seat *seat, const struct device_list *devices,
                      enum visible_mode mode, struct env_list *env)
{
    if (seat->n_devices == 0) {
        hide_all(env);
        env_list_add(env, xasprintf("MUSTER_DEVICE_KIND=%s", device_kind_name(DEVICE_CPU)));
        return;
    }
    enum device_kind kind = devices->at[seat->devices[0]].kind;
    add_visibility(seat, devices, mode, env);
    add_devices(seat, devices, "MUSTER_DEVICE", BY_UUID, env);
    add_devices(seat, devices, "MUSTER_DEVICE_INDEX", BY_NUMBER, env);
    /* a worker on a simulated GPU must behave as on a real one */
    env_list_add(env, xasprintf("MUSTER_DEVICE_KIND=%s",
                                device_kind_name(kind == DEVICE_SIM ? DEVICE_CUDA : kind)));
    if (!seat->is_whole && !getenv("OMP_NUM_THREADS"))
        env_list_add(env, xasprintf("OMP_NUM_THREADS=%u", seat->threads));
}
