/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices a job gets. A device has one job alone, or several that reserve memory, shares, or both, up to what
 * the device has. A job gets the fullest device on which it fits; several devices are near each other, on the host
 * that has the fewest to offer. So what stays free is in large pieces.
 */
#include <string.h>

#include "core/dag_impl.h"

bool dag_is_whole(const struct dag_want *want)
{
    return want->mem_bytes == 0 && want->share == 0;
}

bool dag_is_ill(const struct dag *dag, uint32_t device, uint32_t job)
{
    const uint32_t *ill = dag->devices.ill_jobs + (size_t)device * dag->config.strikes;
    for (uint32_t i = 0; i < dag->devices.at[device].n_strikes; i++)
        if (ill[i] == job)
            return true;
    return false;
}

/*
 * Failed attempts narrow where a job may go, but only while such a place exists. Enough memory is more important than
 * avoiding an ill device: without it the job cannot run.
 */
static void demand_widen(const struct dag *dag, struct demand *demand)
{
    const struct demand narrow = *demand;
    for (uint32_t wide = 0; wide < 4; wide++) {
        demand->avoids_ill = narrow.avoids_ill && !(wide & 1);
        demand->mem_min = wide & 2 ? 0 : narrow.mem_min;
        if (dag_place(dag, demand, &dag->empty, NULL, REACH_UP, NULL))
            return;
    }
}

struct demand dag_demand(const struct dag *dag, uint32_t job)
{
    const struct job *j = &dag->jobs.at[job];
    struct demand demand = {.want = dag->shapes.at[j->shape].want, .job = job};
    demand.is_alone = j->oom_step != OOM_STEP_NONE || dag_is_whole(&demand.want);
    demand.avoids_ill = j->has_ill;
    if (j->oom_step >= OOM_STEP_LARGER)
        demand.mem_min = dag->devices.at[j->floor_device].mem_bytes;
    demand.mem_min += j->oom_step == OOM_STEP_LARGER;
    if (dag_is_special(j) && j->state == DAG_READY)
        demand_widen(dag, &demand);
    return demand;
}

/* ---- one device ---- */

/* A device whose memory is not known cannot be shared by memory. */
static bool is_alone_on(const struct demand *d, const struct place_device *device)
{
    return d->is_alone || (d->want.share == 0 && device->mem_bytes == 0);
}

static uint64_t memory_on(const struct demand *d, const struct place_device *device)
{
    return device->mem_bytes > 0 ? d->want.mem_bytes : 0;
}

static bool fits_on(const struct demand *d, const struct place_device *device,
                    const struct load *load)
{
    uint64_t mem_bytes = memory_on(d, device);
    if (mem_bytes > device->mem_bytes)
        return false;
    if (is_alone_on(d, device))
        return load->n_jobs == 0;
    if (load->n_alone > 0 || mem_bytes > device->mem_bytes - load->mem_bytes)
        return false;
    if (d->want.share == 0)
        return load->n_share_only == 0;
    return d->want.share + load->share <= DAG_SHARE_WHOLE &&
           (mem_bytes > 0 || load->n_memory_only == 0);
}

static void load_change(struct load *load, const struct demand *d,
                        const struct place_device *device, bool is_more)
{
    uint32_t one = is_more ? 1 : UINT32_MAX;
    load->n_jobs += one;
    if (is_alone_on(d, device)) {
        load->n_alone += one;
        return;
    }
    uint64_t mem_bytes = memory_on(d, device);
    load->mem_bytes += is_more ? mem_bytes : -mem_bytes;
    load->share += is_more ? d->want.share : -d->want.share;
    load->n_memory_only += d->want.share == 0 ? one : 0;
    load->n_share_only += mem_bytes == 0 ? one : 0;
}

/* How much of the device would be left for others. */
static uint64_t left_on(const struct demand *d, const struct place_device *device,
                        const struct load *load)
{
    uint64_t mem_bytes = memory_on(d, device);
    if (is_alone_on(d, device))
        return d->want.mem_bytes > 0 && device->mem_bytes == 0 ? NEVER : device->mem_bytes;
    if (mem_bytes > 0)
        return device->mem_bytes - load->mem_bytes - mem_bytes;
    return DAG_SHARE_WHOLE - load->share - d->want.share;
}

/* ---- one host ---- */

static bool host_is_allowed(const struct dag *dag, uint32_t place, uint32_t host)
{
    return dag->hosts.allowed[place][host / 64] >> host % 64 & 1;
}

static bool device_is_denied(const struct dag *dag, uint32_t place, uint32_t device)
{
    return dag->devices.denied[place][device / 64] >> device % 64 & 1;
}

struct look {
    const struct demand *demand;
    const struct room *now, *later; /* later may be NULL */
    enum reach reach;
};

static bool has_cpus(const struct dag *dag, const struct look *look, uint32_t host)
{
    uint64_t n_cpus = dag->hosts.at[host].n_cpus, n_wanted = look->demand->want.n_cpus;
    return n_wanted + look->now->cpus_used[host] <= n_cpus &&
           (!look->later || n_wanted + look->later->cpus_used[host] <= n_cpus);
}

static bool device_fits(const struct dag *dag, const struct look *look, uint32_t device)
{
    const struct place_device *d = &dag->devices.at[device];
    return !d->is_benched && (d->is_up || look->reach == REACH_EVER) &&
           d->mem_bytes >= look->demand->mem_min &&
           !device_is_denied(dag, look->demand->want.place, device) &&
           fits_on(look->demand, d, &look->now->loads[device]) &&
           (!look->later || fits_on(look->demand, d, &look->later->loads[device])) &&
           !(look->demand->avoids_ill && dag_is_ill(dag, device, look->demand->job));
}

/* What a host has for a job. */
struct offer {
    uint32_t host;
    uint32_t n_devices; /* that the job would get */
    uint32_t n_fitting; /* they are in devices.fitting */
    uint64_t left;      /* what is left on the fullest device; without devices, CPUs */
};

static bool host_look(const struct dag *dag, const struct look *look, uint32_t host,
                      struct offer *offer)
{
    const struct dag_want *want = &look->demand->want;
    if (!host_is_allowed(dag, want->place, host) || !has_cpus(dag, look, host) ||
        (look->reach == REACH_UP && !dag->hosts.at[host].is_up))
        return false;
    *offer = (struct offer){.host = host, .left = NEVER};
    if (want->n_devices_max == 0) {
        offer->left = dag->hosts.at[host].n_cpus - look->now->cpus_used[host];
        return true;
    }
    for (uint32_t i = dag->hosts.at[host].first_device; i != NONE;
         i = dag->devices.at[i].next_on_host) {
        if (!device_fits(dag, look, i))
            continue;
        uint64_t left = left_on(look->demand, &dag->devices.at[i], &look->now->loads[i]);
        offer->left = MIN(offer->left, left);
        dag->devices.fitting[offer->n_fitting++] = i;
    }
    offer->n_devices = MIN(offer->n_fitting, want->n_devices_max);
    return offer->n_devices >= MAX(want->n_devices_min, 1u);
}

static bool is_better(const struct offer *a, const struct offer *b)
{
    if (a->n_devices != b->n_devices)
        return a->n_devices > b->n_devices;
    if (a->n_devices == 1 && a->left != b->left)
        return a->left < b->left;
    if (a->n_fitting != b->n_fitting)
        return a->n_fitting < b->n_fitting;
    return a->left < b->left;
}

/* ---- which of its devices ---- */

/*
 * Moves the device that is nearest to `from` (NONE: all are equally near), and of equally near ones the fullest, to
 * position `at`.
 */
static uint64_t nearest_to(const struct dag *dag, const struct look *look, uint32_t from,
                           uint32_t at, uint32_t n)
{
    const uint8_t *distance = dag->devices.distance;
    uint32_t *fitting = dag->devices.fitting, best = at, n_max = dag->config.n_devices_max;
    uint64_t best_far = NEVER, best_left = NEVER;
    for (uint32_t i = at; i < n; i++) {
        uint32_t device = fitting[i];
        uint64_t far = from == NONE ? 0 : distance[(size_t)from * n_max + device];
        uint64_t left = left_on(look->demand, &dag->devices.at[device], &look->now->loads[device]);
        if (far < best_far || (far == best_far && (left < best_left || (left == best_left &&
                                                                        device < fitting[best])))) {
            best = i;
            best_far = far;
            best_left = left;
        }
    }
    uint32_t kept = fitting[at];
    fitting[at] = fitting[best];
    fitting[best] = kept;
    return best_far;
}

/* Chooses the devices around `centre`. Returns the sum of their distances from it. */
static uint64_t set_around(const struct dag *dag, const struct look *look, uint32_t centre,
                           const struct offer *offer)
{
    uint64_t far = 0;
    for (uint32_t i = 0; i < offer->n_fitting; i++)
        if (dag->devices.fitting[i] == centre) {
            dag->devices.fitting[i] = dag->devices.fitting[0];
            dag->devices.fitting[0] = centre;
        }
    for (uint32_t i = 1; i < offer->n_devices; i++)
        far += nearest_to(dag, look, centre, i, offer->n_fitting);
    return far;
}

static void devices_choose(const struct dag *dag, const struct look *look,
                           const struct offer *offer, struct spot *spot)
{
    uint64_t best_far = NEVER;
    uint32_t centre = NONE;
    bool has_choice = dag->devices.distance && offer->n_devices > 1;
    for (uint32_t i = dag->hosts.at[offer->host].first_device; i != NONE;
         i = dag->devices.at[i].next_on_host) {
        if (!has_choice || !device_fits(dag, look, i))
            continue;
        uint64_t far = set_around(dag, look, i, offer);
        if (far < best_far) {
            best_far = far;
            centre = i;
        }
    }
    if (centre != NONE)
        set_around(dag, look, centre, offer);
    else
        for (uint32_t i = 0; i < offer->n_devices; i++)
            nearest_to(dag, look, NONE, i, offer->n_fitting);
    memcpy(spot->devices, dag->devices.fitting, offer->n_devices * sizeof(*spot->devices));
}

bool dag_place(const struct dag *dag, const struct demand *demand, const struct room *now,
               const struct room *later, enum reach reach, struct spot *spot)
{
    const struct look look = {demand, now, later, reach};
    struct offer best = {.host = NONE}, offer;
    for (uint32_t host = 0; host < dag->hosts.len; host++) {
        if (!host_look(dag, &look, host, &offer))
            continue;
        if (!spot)
            return true;
        if (best.host == NONE || is_better(&offer, &best))
            best = offer;
    }
    if (best.host == NONE)
        return false;
    spot->host = best.host;
    spot->n_devices = best.n_devices;
    if (best.n_devices > 0) {
        (void)host_look(dag, &look, best.host, &best); /* finds its devices again */
        devices_choose(dag, &look, &best, spot);
    }
    return true;
}

/* ---- what cannot be ---- */

static void slack_of_device(const struct dag *dag, uint32_t device, struct slack *slack)
{
    const struct place_device *d = &dag->devices.at[device];
    const struct load *load = &dag->now.loads[device];
    if (!d->is_up || d->is_benched || load->n_alone > 0)
        return;
    slack->n_open++;
    slack->n_empty += load->n_jobs == 0;
    slack->share = MAX(slack->share, DAG_SHARE_WHOLE - load->share);
    slack->mem_bytes =
        d->mem_bytes == 0 ? NEVER : MAX(slack->mem_bytes, d->mem_bytes - load->mem_bytes);
}

struct slack dag_slack(const struct dag *dag)
{
    struct slack most = {0};
    for (uint32_t host = 0; host < dag->hosts.len; host++) {
        const struct place_host *h = &dag->hosts.at[host];
        struct slack slack = {.n_cpus = h->n_cpus - dag->now.cpus_used[host]};
        for (uint32_t i = h->is_up ? h->first_device : NONE; i != NONE;
             i = dag->devices.at[i].next_on_host)
            slack_of_device(dag, i, &slack);
        most.n_cpus = MAX(most.n_cpus, slack.n_cpus);
        most.n_empty = MAX(most.n_empty, slack.n_empty);
        most.n_open = MAX(most.n_open, slack.n_open);
        most.share = MAX(most.share, slack.share);
        most.mem_bytes = MAX(most.mem_bytes, slack.mem_bytes);
    }
    return most;
}

bool dag_is_hopeless(const struct slack *slack, const struct demand *demand)
{
    const struct dag_want *want = &demand->want;
    if (want->n_cpus > slack->n_cpus || want->n_devices_max == 0)
        return want->n_cpus > slack->n_cpus;
    return MAX(want->n_devices_min, 1u) > (demand->is_alone ? slack->n_empty : slack->n_open) ||
           (!demand->is_alone &&
            (want->share > slack->share || want->mem_bytes > slack->mem_bytes));
}

/* ---- taking and giving ---- */

void dag_take(const struct dag *dag, const struct room *room, const struct demand *demand,
              const struct spot *spot)
{
    room->cpus_used[spot->host] += demand->want.n_cpus;
    for (uint32_t i = 0; i < spot->n_devices; i++) {
        uint32_t device = spot->devices[i];
        load_change(&room->loads[device], demand, &dag->devices.at[device], true);
    }
}

const uint32_t *dag_devices_of(const struct dag *dag, const struct job *job)
{
    return job->n_devices > 1 ? dag->places.at[job->at] : &dag->devices.numbers[job->at];
}

void dag_give(const struct dag *dag, const struct room *room, uint32_t job)
{
    const struct job *j = &dag->jobs.at[job];
    const struct demand demand = dag_demand(dag, job);
    const uint32_t *devices = dag_devices_of(dag, j);
    room->cpus_used[j->host] -= demand.want.n_cpus;
    for (uint32_t i = 0; i < j->n_devices; i++)
        load_change(&room->loads[devices[i]], &demand, &dag->devices.at[devices[i]], false);
}

void dag_close(const struct dag *dag, const struct room *room, const struct demand *demand)
{
    const struct look look = {demand, &dag->empty, NULL, REACH_UP};
    struct offer offer;
    for (uint32_t host = 0; host < dag->hosts.len; host++) {
        if (!host_look(dag, &look, host, &offer))
            continue;
        for (uint32_t i = 0; i < offer.n_fitting; i++)
            room->loads[dag->devices.fitting[i]] = (struct load){.n_jobs = 1, .n_alone = 1};
        if (demand->want.n_cpus > 0)
            room->cpus_used[host] = dag->hosts.at[host].n_cpus;
    }
}
