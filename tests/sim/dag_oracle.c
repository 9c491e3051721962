/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/dag_oracle.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "commit.h"
#include "sim/dag_room.h"

#define NEVER UINT64_MAX

/* ---- saying so ---- */

void oracle_found(const struct oracle *o, int what, const char *fmt, ...)
{
    char words[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    printf("FAIL seed=%lu commit=%s %s: %s, at step %lu\n"
           "replay: tools/sim dag --seed %lu --trace\n",
           o->seed, SIM_COMMIT, what == FOUND_STUCK ? "liveness" : "safety", words, o->n_steps,
           o->seed);
    fflush(stdout);
    _exit(what);
}

static const struct oracle *watched;

static void on_signal(int number)
{
    signal(number, SIG_DFL);
    oracle_found(watched, FOUND_UNSAFE, "signal %d (above)", number);
}

void oracle_init(struct oracle *o, const struct dag_config *config, uint64_t seed)
{
    *o = (struct oracle){.config = *config, .seed = seed, .head = DAG_NO_JOB};
    if (o->config.n_running_max == 0)
        o->config.n_running_max = UINT32_MAX;
    o->n_devices = config->n_devices;
    o->n_hosts = config->n_hosts;
    for (uint32_t i = 0; i < config->n_devices; i++)
        o->devices[i].given = config->devices[i];
    for (uint32_t i = 0; i < config->n_hosts; i++) {
        o->host_cpus[i] = config->host_cpus[i];
        o->host_is_up[i] = true;
    }
    for (uint32_t i = 0; i < WORLD_HOSTS; i++)
        o->is_allowed[0][i] = true;
    watched = o;
    signal(SIGABRT, on_signal);
    signal(SIGSEGV, on_signal);
}

/* ---- states ---- */

bool oracle_is_bad(enum dag_state state)
{
    return state == DAG_FAILED || state == DAG_BLOCKED || state == DAG_CANCELLED ||
           state == DAG_UNFIT;
}

static bool is_final(enum dag_state state)
{
    return state == DAG_DONE || (oracle_is_bad(state) && state != DAG_BLOCKED);
}

bool oracle_runs(const struct oracle *o, uint32_t job)
{
    return job < o->n_jobs && (o->jobs[job].state == DAG_RUNS || o->jobs[job].state == DAG_ENDS);
}

uint32_t oracle_n_running(const struct oracle *o)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n_jobs; i++)
        n += oracle_runs(o, i);
    return n;
}

uint32_t oracle_needs_left(const struct oracle *o, const struct oracle_job *j)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->given.n_needs; i++)
        n += o->jobs[j->needs[i]].state != DAG_DONE;
    return n;
}

bool oracle_has_bad_need(const struct oracle *o, const struct oracle_job *j)
{
    bool has = false;
    for (uint32_t i = 0; i < j->given.n_needs; i++)
        has |= oracle_is_bad(o->jobs[j->needs[i]].state);
    return has;
}

static void settle(struct oracle_job *j, enum dag_state state)
{
    j->state = state;
    j->must_settle = true;
}

/* Neither final nor running: what it is depends on others. */
static bool is_open(const struct oracle_job *j)
{
    return j->state == DAG_WAITS || j->state == DAG_READY || j->state == DAG_BLOCKED;
}

/* Those with smaller numbers come first, and so each need before what needs it. */
static void states_refresh(struct oracle *o)
{
    for (uint32_t i = 0; i < o->n_jobs; i++) {
        struct oracle_job *j = &o->jobs[i];
        if (!is_open(j))
            continue;
        bool was_ready = j->state == DAG_READY && !j->is_new;
        j->is_new = false;
        if (oracle_has_bad_need(o, j))
            j->state = DAG_BLOCKED;
        else if (!o->is_awaiting && !room_could_ever(o, i))
            settle(j, DAG_UNFIT);
        else
            j->state = oracle_needs_left(o, j) > 0 ? DAG_WAITS : DAG_READY;
        if (j->state == DAG_READY && !was_ready)
            j->ready_ms = o->now_ms;
    }
}

static uint64_t mean_ms(const struct oracle *o)
{
    uint64_t sum_ms = 0, n = 0;
    for (uint32_t i = 0; i < o->n_jobs; i++) {
        sum_ms += o->jobs[i].given.expected_ms;
        n += o->jobs[i].given.expected_ms > 0;
    }
    return n > 0 ? sum_ms / n : DAG_UNKNOWN_MS;
}

static void paths_refresh(struct oracle *o)
{
    uint64_t unknown_ms = mean_ms(o);
    for (uint32_t i = 0; i < o->n_jobs; i++)
        o->jobs[i].path_ms = 0;
    for (uint32_t i = o->n_jobs; i-- > 0;) {
        struct oracle_job *j = &o->jobs[i];
        j->path_ms += j->given.expected_ms > 0 ? j->given.expected_ms : unknown_ms;
        for (uint32_t k = 0; j->state != DAG_DONE && k < j->given.n_needs; k++)
            o->jobs[j->needs[k]].path_ms = MAX(o->jobs[j->needs[k]].path_ms, j->path_ms);
    }
}

/* ---- what is added ---- */

void oracle_add(struct oracle *o, const struct dag_job *job)
{
    struct oracle_job *j = &o->jobs[o->n_jobs++];
    *j = (struct oracle_job){.given = *job, .is_held = job->is_held, .is_new = true};
    j->given.want.n_devices_max = MAX(job->want.n_devices_max, job->want.n_devices_min);
    for (uint32_t i = 0; i < job->n_needs; i++)
        j->needs[i] = job->needs[i];
    j->state = job->is_done ? DAG_DONE : DAG_WAITS;
    o->is_over = false;
}

void oracle_add_device(struct oracle *o, const struct dag_device *device, uint32_t n_cpus)
{
    o->devices[o->n_devices++] = (struct oracle_device){.given = *device};
    o->devices[o->n_devices - 1].given.is_up = false;
    if (device->host < o->n_hosts)
        return;
    o->n_hosts = device->host + 1;
    o->host_cpus[device->host] = n_cpus;
    o->host_is_up[device->host] = true;
}

void oracle_expect(struct oracle *o, uint32_t job, uint64_t expected_ms, uint64_t mem_bytes)
{
    struct oracle_job *j = &o->jobs[job];
    if (oracle_runs(o, job) || j->state == DAG_DONE)
        return;
    if (expected_ms > 0)
        j->given.expected_ms = expected_ms;
    if (mem_bytes > 0)
        j->given.want.mem_bytes = mem_bytes;
}

void oracle_move(struct oracle *o, uint32_t job, uint32_t place)
{
    o->jobs[job].given.want.place = place;
}

/* ---- facts ---- */

static void open_again(struct oracle_job *j)
{
    j->state = DAG_WAITS;
    j->is_new = true;
}

static void begin_anew(struct oracle_job *j)
{
    j->n_failures = j->n_lost = j->n_halvings = 0;
    j->oom_step = OOM_STEP_NONE;
    j->is_cancelled = j->is_again = false;
    open_again(j);
}

static void failure_note(struct oracle_job *j, bool is_fatal)
{
    if (++j->n_failures > j->given.n_retries || is_fatal)
        settle(j, DAG_FAILED);
    else
        open_again(j);
}

static void lost_note(struct oracle_job *j)
{
    if (j->n_lost == WORLD_LOST_MAX) {
        failure_note(j, false);
        return;
    }
    j->n_lost++;
    open_again(j);
}

static void ill_note(struct oracle *o, struct oracle_job *j, uint32_t device)
{
    bool is_named = false;
    j->was_ill |= j->n_devices > 0;
    for (uint32_t i = 0; i < j->n_devices; i++)
        is_named |= j->devices[i] == device;
    for (uint32_t i = 0; i < j->n_devices; i++) {
        struct oracle_device *d = &o->devices[j->devices[i]];
        if ((is_named && j->devices[i] != device) || j->is_ill_on[j->devices[i]] || d->is_benched)
            continue;
        j->is_ill_on[j->devices[i]] = true;
        d->is_benched = d->must_bench = ++d->n_strikes == o->config.strikes;
    }
    lost_note(j);
}

static void oom_note(struct oracle *o, uint32_t job)
{
    struct oracle_job *j = &o->jobs[job];
    bool was_alone = room_is_alone(j);
    if (j->n_devices == 0) {
        failure_note(j, false);
        return;
    }
    j->floor_bytes = NEVER;
    for (uint32_t i = 0; i < j->n_devices; i++)
        j->floor_bytes = MIN(j->floor_bytes, o->devices[j->devices[i]].given.mem_bytes);
    bool has_larger = j->floor_bytes > 0 && room_could_narrow(o, job, j->floor_bytes + 1, true);
    if (!was_alone)
        j->oom_step = OOM_STEP_ALONE;
    else if (j->oom_step != OOM_STEP_BATCH && has_larger)
        j->oom_step = OOM_STEP_LARGER;
    else if (j->n_halvings < j->given.n_batch_steps) {
        j->oom_step = OOM_STEP_BATCH;
        j->n_halvings++;
    } else {
        failure_note(j, true);
        return;
    }
    open_again(j);
}

static void strike_of_cancelled(struct oracle *o, struct oracle_job *j, uint32_t device)
{
    struct oracle_job copy = *j;
    ill_note(o, &copy, device);
    memcpy(j->is_ill_on, copy.is_ill_on, sizeof(j->is_ill_on));
    j->was_ill = copy.was_ill;
}

static void ended_note(struct oracle *o, const struct dag_event *ev)
{
    struct oracle_job *j = &o->jobs[ev->job];
    if (!oracle_runs(o, ev->job))
        return;
    if (ev->end == DEND_WELL) {
        settle(j, DAG_DONE);
    } else if (j->is_cancelled) {
        if (ev->end == DEND_ILL)
            strike_of_cancelled(o, j, ev->device);
        settle(j, DAG_CANCELLED);
    } else if (j->is_again) {
        if (ev->end == DEND_ILL)
            strike_of_cancelled(o, j, ev->device);
        begin_anew(j);
    } else if (ev->end == DEND_FAILED || ev->end == DEND_FATAL) {
        failure_note(j, ev->end == DEND_FATAL);
    } else if (ev->end == DEND_OOM) {
        oom_note(o, ev->job);
    } else if (ev->end == DEND_ILL) {
        ill_note(o, j, ev->device);
    } else if (ev->end == DEND_ABSENT || (ev->end == DEND_ENDED && o->is_stopped)) {
        open_again(j);
    } else {
        lost_note(j);
    }
}

static void hold_note(struct oracle *o, const struct dag_event *ev)
{
    struct oracle_job *j = &o->jobs[ev->job];
    bool is_held = ev->kind == DEV_HOLD;
    if (is_held == j->is_held || (is_held && is_final(j->state)))
        return;
    j->is_held = is_held;
    if (!is_held && j->state == DAG_READY)
        j->ready_ms = o->now_ms;
}

static void cancel_note(struct oracle *o, uint32_t job)
{
    struct oracle_job *j = &o->jobs[job];
    if (j->state == DAG_DONE || j->state == DAG_CANCELLED)
        return;
    j->is_held = false;
    if (oracle_runs(o, job)) {
        o->must_end[job] = j->state == DAG_RUNS;
        j->state = DAG_ENDS;
        j->is_cancelled = true;
        j->is_again = false;
    } else {
        settle(j, DAG_CANCELLED);
    }
}

static void retry_note(struct oracle *o, uint32_t job)
{
    struct oracle_job *j = &o->jobs[job];
    if (oracle_runs(o, job) && j->is_cancelled) {
        j->is_cancelled = false;
        j->is_again = true;
    }
    if (is_final(j->state) && j->state != DAG_DONE)
        begin_anew(j);
}

static void stop_note(struct oracle *o, bool ends)
{
    o->is_stopped = true;
    for (uint32_t i = 0; ends && i < o->n_jobs; i++) {
        o->must_end[i] = o->jobs[i].state == DAG_RUNS;
        if (o->must_end[i])
            o->jobs[i].state = DAG_ENDS;
    }
}

static void fact_note(struct oracle *o, const struct dag_event *ev)
{
    switch (ev->kind) {
    case DEV_TICK:
        break;
    case DEV_ENDED:
        ended_note(o, ev);
        break;
    case DEV_DEVICE_UP:
    case DEV_DEVICE_DOWN:
        o->devices[ev->device].given.is_up = ev->kind == DEV_DEVICE_UP;
        break;
    case DEV_HOST_UP:
    case DEV_HOST_DOWN:
        o->host_is_up[ev->device] = ev->kind == DEV_HOST_UP;
        break;
    case DEV_HOLD:
    case DEV_RELEASE:
        hold_note(o, ev);
        break;
    case DEV_CANCEL:
        cancel_note(o, ev->job);
        break;
    case DEV_RETRY:
        retry_note(o, ev->job);
        break;
    case DEV_AWAIT:
        o->is_awaiting = ev->flag;
        break;
    case DEV_STOP:
        stop_note(o, ev->flag);
        break;
    }
}

/* Whether a job is unfit is seen after the event: those that are new must not be so before. */
void oracle_event(struct oracle *o, const struct dag_event *ev)
{
    bool was_awaiting = o->is_awaiting;
    o->n_steps++;
    o->now_ms = ev->now_ms;
    o->is_awaiting = true;
    states_refresh(o);
    o->is_awaiting = was_awaiting;
    fact_note(o, ev);
    states_refresh(o);
    paths_refresh(o);
    for (uint32_t i = 0; i < o->n_jobs; i++)
        o->forecast_ms[i] = NEVER;
}
