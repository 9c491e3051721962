/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/dag_room.h"

#include <string.h>

#define NEVER UINT64_MAX

/* What counts when one looks for a place. */
struct question {
    uint32_t job;
    bool with_running;   /* else devices are empty */
    const bool *is_gone; /* of those that run, those that have ended by then; NULL: none */
    bool only_up, avoids_ill;
    uint64_t mem_min;
};

bool room_is_alone(const struct oracle_job *j)
{
    return j->oom_step != OOM_STEP_NONE ||
           (j->given.want.share == 0 && j->given.want.mem_bytes == 0);
}

/* How a job is on a device. */
enum manner {
    ALONE,
    BY_MEMORY,
    BY_SHARE,
    BY_BOTH
};

static enum manner manner_of(const struct oracle *o, uint32_t job, uint32_t device)
{
    const struct oracle_job *j = &o->jobs[job];
    bool has_memory = j->given.want.mem_bytes > 0 && o->devices[device].given.mem_bytes > 0;
    if (room_is_alone(j) || (j->given.want.share == 0 && !has_memory))
        return ALONE;
    if (j->given.want.share == 0)
        return BY_MEMORY;
    return has_memory ? BY_BOTH : BY_SHARE;
}

static bool go_together(enum manner a, enum manner b)
{
    if (a == ALONE || b == ALONE)
        return false;
    return !(a == BY_MEMORY && b == BY_SHARE) && !(a == BY_SHARE && b == BY_MEMORY);
}

static bool is_on(const struct oracle_job *j, uint32_t device)
{
    bool is = false;
    for (uint32_t i = 0; i < j->n_devices; i++)
        is |= j->devices[i] == device;
    return is;
}

static bool counts(const struct oracle *o, const struct question *q, uint32_t other)
{
    return q->with_running && oracle_runs(o, other) && !(q->is_gone && q->is_gone[other]);
}

static bool device_takes(const struct oracle *o, const struct question *q, uint32_t device)
{
    const struct oracle_device *d = &o->devices[device];
    const struct oracle_job *j = &o->jobs[q->job];
    enum manner manner = manner_of(o, q->job, device);
    uint64_t mem_bytes = j->given.want.mem_bytes, share = j->given.want.share;
    if (o->is_denied[j->given.want.place][device] || d->is_benched ||
        (q->only_up && !d->given.is_up) || d->given.mem_bytes < q->mem_min ||
        (q->avoids_ill && j->is_ill_on[device]))
        return false;
    for (uint32_t i = 0; i < o->n_jobs; i++) {
        if (!counts(o, q, i) || !is_on(&o->jobs[i], device))
            continue;
        if (!go_together(manner, manner_of(o, i, device)))
            return false;
        mem_bytes += o->jobs[i].given.want.mem_bytes;
        share += o->jobs[i].given.want.share;
    }
    return share <= DAG_SHARE_WHOLE && (d->given.mem_bytes == 0 || mem_bytes <= d->given.mem_bytes);
}

static uint32_t cpus_used(const struct oracle *o, const struct question *q, uint32_t host)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_jobs; i++)
        if (counts(o, q, i) && o->jobs[i].host == host)
            n += o->jobs[i].given.want.n_cpus;
    return n;
}

/*
 * How many devices of the host would take it; UINT32_MAX: it needs none, and could be there; 0: it
 * could not.
 */
static uint32_t host_offers(const struct oracle *o, const struct question *q, uint32_t host)
{
    const struct dag_want *want = &o->jobs[q->job].given.want;
    uint32_t n = 0;
    if (!o->is_allowed[want->place][host] || (q->only_up && !o->host_is_up[host]) ||
        cpus_used(o, q, host) + want->n_cpus > o->host_cpus[host])
        return 0;
    for (uint32_t i = 0; i < o->n_devices; i++)
        n += o->devices[i].given.host == host && device_takes(o, q, i);
    if (want->n_devices_max == 0)
        return UINT32_MAX;
    return n >= MAX(want->n_devices_min, 1u) ? n : 0;
}

static bool is_possible(const struct oracle *o, const struct question *q)
{
    bool is = false;
    for (uint32_t host = 0; host < o->n_hosts; host++)
        is |= host_offers(o, q, host) > 0;
    return is;
}

bool room_could_ever(const struct oracle *o, uint32_t job)
{
    return is_possible(o, &(struct question){.job = job});
}

bool room_could_narrow(const struct oracle *o, uint32_t job, uint64_t mem_min, bool avoids)
{
    return is_possible(
        o,
        &(struct question){.job = job, .only_up = true, .avoids_ill = avoids, .mem_min = mem_min});
}

/* What was learned of the job, as far as there is such a place. */
static struct question question_now(const struct oracle *o, uint32_t job)
{
    const struct oracle_job *j = &o->jobs[job];
    struct question q = {.job = job, .with_running = true, .only_up = true};
    uint64_t mem_min = j->oom_step == OOM_STEP_LARGER  ? j->floor_bytes + 1
                       : j->oom_step == OOM_STEP_BATCH ? j->floor_bytes
                                                       : 0;
    q.mem_min = room_could_narrow(o, job, mem_min, false) ? mem_min : 0;
    q.avoids_ill = room_could_narrow(o, job, q.mem_min, true);
    return q;
}

bool room_fits(const struct oracle *o, uint32_t job)
{
    struct question q = question_now(o, job);
    return is_possible(o, &q);
}

uint32_t room_offers(const struct oracle *o, uint32_t job, uint32_t host)
{
    struct question q = question_now(o, job);
    return host_offers(o, &q, host);
}

static uint64_t end_of(const struct oracle *o, uint32_t job)
{
    const struct oracle_job *j = &o->jobs[job];
    return j->given.expected_ms > 0 ? MAX(j->started_ms + j->given.expected_ms, o->now_ms + 1)
                                    : NEVER;
}

/*
 * All that run and end at one time are taken away together: which of them is first makes no
 * difference to when.
 */
uint64_t room_forecast(const struct oracle *o, uint32_t job)
{
    bool is_gone[WORLD_JOBS] = {false};
    struct question q = question_now(o, job);
    uint64_t at_ms = o->now_ms;
    q.is_gone = is_gone;
    while (!is_possible(o, &q)) {
        at_ms = NEVER;
        for (uint32_t i = 0; i < o->n_jobs; i++)
            if (oracle_runs(o, i) && !is_gone[i])
                at_ms = MIN(at_ms, end_of(o, i));
        for (uint32_t i = 0; i < o->n_jobs; i++)
            is_gone[i] |= oracle_runs(o, i) && end_of(o, i) <= at_ms;
        if (at_ms == NEVER)
            break;
    }
    return at_ms;
}

const char *room_trouble(const struct oracle *o, uint32_t job, const struct dag_placement *at)
{
    const struct dag_want *want = &o->jobs[job].given.want;
    struct question q = question_now(o, job);
    if (at->n_devices > want->n_devices_max ||
        at->n_devices < (want->n_devices_max > 0 ? MAX(want->n_devices_min, 1u) : 0))
        return "a wrong number of devices";
    if (at->host >= o->n_hosts || host_offers(o, &q, at->host) == 0)
        return "the host cannot take it";
    for (uint32_t i = 0; i < at->n_devices; i++) {
        if (o->devices[at->devices[i]].given.host != at->host)
            return "a device of another host";
        if (!device_takes(o, &q, at->devices[i]))
            return "a device cannot take it";
        for (uint32_t k = 0; k < i; k++)
            if (at->devices[k] == at->devices[i])
                return "a device twice";
    }
    return NULL;
}

const char *room_device_trouble(const struct oracle *o, const struct dag *dag, uint32_t device)
{
    const struct oracle_device *d = &o->devices[device];
    struct dag_device_view view = dag_device_view(dag, device);
    uint32_t n_jobs = 0, share = 0;
    uint64_t mem_bytes = 0;
    for (uint32_t i = 0; i < o->n_jobs; i++) {
        if (!oracle_runs(o, i) || !is_on(&o->jobs[i], device))
            continue;
        bool is_alone = manner_of(o, i, device) == ALONE;
        bool has_memory = !is_alone && d->given.mem_bytes > 0;
        n_jobs++;
        share += is_alone ? (uint32_t)DAG_SHARE_WHOLE : o->jobs[i].given.want.share;
        mem_bytes += has_memory ? o->jobs[i].given.want.mem_bytes : 0;
    }
    if (view.is_up != d->given.is_up || view.is_benched != d->is_benched)
        return "it is up, or benched, or should be";
    if (view.n_jobs != n_jobs || view.share_used != share || view.mem_reserved_bytes != mem_bytes)
        return "what is taken of it is miscounted";
    return NULL;
}
