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
           "replay: build/tests/sim/sim_dag --seed %lu --trace\n",
           o->seed, SIM_COMMIT, what == FOUND_STUCK ? "liveness" : "safety", words, o->n_steps,
           o->seed);
    fflush(stdout);
    _exit(what);
}

#define MUST(o, condition, ...)                           \
    do {                                                  \
        if (!(condition))                                 \
            oracle_found((o), FOUND_UNSAFE, __VA_ARGS__); \
    } while (0)

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

static bool is_bad(enum dag_state state)
{
    return state == DAG_FAILED || state == DAG_BLOCKED || state == DAG_CANCELLED ||
           state == DAG_UNFIT;
}

static bool is_final(enum dag_state state)
{
    return state == DAG_DONE || (is_bad(state) && state != DAG_BLOCKED);
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

static uint32_t needs_left(const struct oracle *o, const struct oracle_job *j)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->given.n_needs; i++)
        n += o->jobs[j->needs[i]].state != DAG_DONE;
    return n;
}

static bool has_bad_need(const struct oracle *o, const struct oracle_job *j)
{
    bool has = false;
    for (uint32_t i = 0; i < j->given.n_needs; i++)
        has |= is_bad(o->jobs[j->needs[i]].state);
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
        if (has_bad_need(o, j))
            j->state = DAG_BLOCKED;
        else if (!o->is_awaiting && !room_could_ever(o, i))
            settle(j, DAG_UNFIT);
        else
            j->state = needs_left(o, j) > 0 ? DAG_WAITS : DAG_READY;
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
    memcpy(j->needs, job->needs, job->n_needs * sizeof(*job->needs));
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

/* ---- facts ---- */

static void open_again(struct oracle_job *j)
{
    j->state = DAG_WAITS;
    j->is_new = true;
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
    } else if (ev->end == DEND_FAILED || ev->end == DEND_FATAL) {
        failure_note(j, ev->end == DEND_FATAL);
    } else if (ev->end == DEND_OOM) {
        oom_note(o, ev->job);
    } else if (ev->end == DEND_ILL) {
        ill_note(o, j, ev->device);
    } else if (ev->end == DEND_ENDED && o->is_stopped) {
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
    if (is_final(j->state))
        return;
    j->is_held = false;
    if (oracle_runs(o, job)) {
        o->must_end[job] = j->state == DAG_RUNS;
        j->state = DAG_ENDS;
        j->is_cancelled = true;
    } else {
        settle(j, DAG_CANCELLED);
    }
}

static void retry_note(struct oracle_job *j)
{
    if (!is_final(j->state) || j->state == DAG_DONE)
        return;
    j->n_failures = j->n_lost = j->n_halvings = 0;
    j->oom_step = OOM_STEP_NONE;
    j->is_cancelled = false;
    open_again(j);
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
        retry_note(&o->jobs[ev->job]);
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

/* ---- actions ---- */

static bool may_start(const struct oracle *o)
{
    bool is_halted = false;
    for (uint32_t i = 0; i < o->n_jobs; i++)
        is_halted |= !o->config.keeps_going && o->jobs[i].state == DAG_FAILED;
    return !o->is_stopped && !is_halted && oracle_n_running(o) < o->config.n_running_max;
}

static int64_t urgency(const struct oracle *o, uint32_t job)
{
    const struct oracle_job *j = &o->jobs[job];
    return (int64_t)j->given.priority * (int64_t)o->config.age_ms + (int64_t)j->path_ms -
           (int64_t)j->ready_ms;
}

static bool is_special(const struct oracle_job *j)
{
    bool is = j->oom_step != OOM_STEP_NONE;
    for (uint32_t i = 0; i < WORLD_DEVICES; i++)
        is |= j->is_ill_on[i];
    return is;
}

static bool wants_the_same(const struct oracle_job *a, const struct oracle_job *b)
{
    return !memcmp(&a->given.want, &b->given.want, sizeof(a->given.want)) &&
           a->given.expected_ms == b->given.expected_ms && !is_special(a) && !is_special(b);
}

/*
 * Of those that want the same for as long, the most urgent starts first. And for others that are more urgent, when they
 * would start without this one.
 */
static void order_judge(struct oracle *o, uint32_t job)
{
    for (uint32_t i = 0; i < o->n_jobs; i++) {
        const struct oracle_job *j = &o->jobs[i];
        if (j->state != DAG_READY || j->is_held || urgency(o, i) <= urgency(o, job))
            continue;
        MUST(o, !wants_the_same(j, &o->jobs[job]), "job %u starts before %u, which is more urgent",
             job, i);
        if (o->forecast_ms[i] == NEVER)
            o->forecast_ms[i] = room_forecast(o, i);
    }
}

static uint32_t most_urgent(const struct oracle *o)
{
    uint32_t found = DAG_NO_JOB;
    for (uint32_t i = 0; i < o->n_jobs; i++)
        if (o->jobs[i].state == DAG_READY && !o->jobs[i].is_held &&
            (found == DAG_NO_JOB || urgency(o, i) > urgency(o, found)))
            found = i;
    return found;
}

/* The most urgent of all starts when it fits (of equally urgent ones, if all fit), and gets all devices that it can use. */
static void first_judge(const struct oracle *o, uint32_t job, const struct dag_placement *at)
{
    uint32_t first = most_urgent(o), n_max = o->jobs[job].given.want.n_devices_max;
    bool all_fit = true;
    for (uint32_t i = 0; i < o->n_jobs; i++)
        if (o->jobs[i].state == DAG_READY && !o->jobs[i].is_held &&
            urgency(o, i) == urgency(o, first))
            all_fit &= room_fits(o, i);
    if (!all_fit)
        return;
    MUST(o, urgency(o, first) == urgency(o, job), "job %u starts before %u, which fits", job,
         first);
    MUST(o, at->n_devices == MIN(n_max, room_offers(o, job, at->host)), "job %u gets %u devices",
         job, at->n_devices);
}

static void start_judge(struct oracle *o, const struct dag *dag, uint32_t job)
{
    struct oracle_job *j = &o->jobs[job];
    struct dag_placement at = dag_placement(dag, job);
    MUST(o, j->state == DAG_READY && !j->is_held, "job %u starts in state %d", job, j->state);
    MUST(o, may_start(o), "job %u starts although nothing may start", job);
    order_judge(o, job);
    j->n_attempts++;
    MUST(o, at.attempt == j->n_attempts, "job %u has attempt %u", job, at.attempt);
    MUST(o, at.oom_step == j->oom_step && at.n_halvings == j->n_halvings,
         "job %u starts at another step after it ran out of memory", job);
    const char *trouble = room_trouble(o, job, &at);
    MUST(o, !trouble, "job %u starts where it must not: %s", job, trouble);
    first_judge(o, job, &at);
    j->state = DAG_RUNS;
    o->is_over = false;
    j->started_ms = o->now_ms;
    j->host = at.host;
    j->n_devices = at.n_devices;
    memcpy(j->devices, at.devices, at.n_devices * sizeof(*at.devices));
}

void oracle_action(struct oracle *o, const struct dag *dag, const struct dag_action *a)
{
    struct oracle_job *j = &o->jobs[a->job];
    if (a->kind == DACT_START) {
        start_judge(o, dag, a->job);
    } else if (a->kind == DACT_END) {
        MUST(o, o->must_end[a->job], "job %u is ended without a reason", a->job);
        o->must_end[a->job] = false;
    } else if (a->kind == DACT_SETTLED) {
        MUST(o, j->must_settle, "job %u is settled, but must not be", a->job);
        j->must_settle = false;
    } else if (a->kind == DACT_BENCH) {
        MUST(o, o->devices[a->device].must_bench, "device %u is benched", a->device);
        o->devices[a->device].must_bench = false;
    } else {
        MUST(o, !o->is_over && oracle_n_running(o) == 0, "it is over too early");
        o->is_over = true;
    }
}

/* ---- after a step ---- */

static void told_judge(const struct oracle *o)
{
    for (uint32_t i = 0; i < o->n_jobs; i++) {
        MUST(o, !o->must_end[i], "job %u is not ended", i);
        MUST(o, !o->jobs[i].must_settle, "that job %u is settled is not told", i);
    }
    for (uint32_t i = 0; i < o->n_devices; i++)
        MUST(o, !o->devices[i].must_bench, "device %u is not benched", i);
    MUST(o, o->is_over == (oracle_n_running(o) == 0), "that it is over is not told");
}

static void culprit_judge(const struct oracle *o, uint32_t job, uint32_t culprit)
{
    const struct oracle_job *j = &o->jobs[job];
    bool is_need = false;
    for (uint32_t i = 0; i < j->given.n_needs; i++)
        is_need |= j->needs[i] == culprit && is_bad(o->jobs[culprit].state);
    MUST(o, has_bad_need(o, j) ? is_need : culprit == DAG_NO_JOB, "job %u is not job %u's culprit",
         culprit, job);
}

static void job_judge(const struct oracle *o, const struct dag *dag, uint32_t job)
{
    const struct oracle_job *j = &o->jobs[job];
    struct dag_job_view view = dag_job_view(dag, job);
    MUST(o, view.state == j->state, "job %u is in state %d instead of %d", job, view.state,
         j->state);
    MUST(o, view.is_held == j->is_held, "job %u is held, or should be", job);
    MUST(o, view.n_needs_left == needs_left(o, j), "job %u has %u needs left", job,
         view.n_needs_left);
    MUST(o, view.n_attempts == j->n_attempts && view.n_failures == j->n_failures,
         "job %u has %u attempts and %u failures", job, view.n_attempts, view.n_failures);
    MUST(o, view.oom_step == j->oom_step && view.n_halvings == j->n_halvings,
         "job %u is at another step after it ran out of memory", job);
    MUST(o, j->state != DAG_READY || view.ready_ms == j->ready_ms, "job %u is ready since %lu", job,
         view.ready_ms);
    MUST(o, j->state == DAG_DONE || view.path_ms == j->path_ms, "job %u has a path of %lu, not %lu",
         job, view.path_ms, j->path_ms);
    culprit_judge(o, job, view.first_culprit);
}

static void views_judge(const struct oracle *o, const struct dag *dag)
{
    struct dag_view view = dag_view(dag);
    uint32_t n_of[DAG_STATES] = {0}, n_held = 0;
    for (uint32_t i = 0; i < o->n_jobs; i++) {
        job_judge(o, dag, i);
        n_of[o->jobs[i].state]++;
        n_held +=
            o->jobs[i].is_held && (o->jobs[i].state == DAG_READY || o->jobs[i].state == DAG_WAITS);
    }
    MUST(o, !memcmp(n_of, view.n_of, sizeof(n_of)) && view.n_jobs == o->n_jobs,
         "jobs are miscounted");
    MUST(o, view.n_held == n_held, "%u jobs are held, not %u", n_held, view.n_held);
    MUST(o, view.is_over == o->is_over && view.is_stopped == o->is_stopped,
         "the whole is in another state");
    for (uint32_t i = 0; i < o->n_devices; i++) {
        const char *trouble = room_device_trouble(o, dag, i);
        MUST(o, !trouble, "device %u: %s", i, trouble);
    }
}

static uint32_t head_find(struct oracle *o, const struct dag *dag)
{
    uint32_t head = DAG_NO_JOB;
    for (uint32_t i = 0; i < o->n_jobs; i++)
        if (dag_job_view(dag, i).is_head) {
            MUST(o, head == DAG_NO_JOB, "jobs %u and %u are the head", head, i);
            head = i;
        }
    if (head != o->head)
        o->head_ms = o->now_ms;
    o->head = head;
    return head;
}

static uint64_t rounded(uint64_t expected_ms)
{
    uint64_t least = expected_ms > 0 ? 512 : 0; /* what is shorter than a second is alike */
    while (2 * least <= expected_ms && expected_ms > 0)
        least *= 2;
    return least;
}

/* Of jobs that want the same and take about as long, the more urgent one alone is asked whether it would end in time. */
static bool is_behind_alike(const struct oracle *o, uint32_t job)
{
    const struct oracle_job *j = &o->jobs[job];
    bool is = false;
    for (uint32_t i = 0; i < o->n_jobs; i++) {
        const struct oracle_job *other = &o->jobs[i];
        is |= i != job && other->state == DAG_READY && !other->is_held && !is_special(other) &&
              !is_special(j) && urgency(o, i) >= urgency(o, job) &&
              !memcmp(&other->given.want, &j->given.want, sizeof(j->given.want)) &&
              rounded(other->given.expected_ms) == rounded(j->given.expected_ms);
    }
    return is;
}

/* A job that fits and did not start: because the head would start later, or there is no reason. */
static void idle_judge(const struct oracle *o, uint32_t job, uint32_t head)
{
    const struct oracle_job *j = &o->jobs[job];
    if (j->state != DAG_READY || j->is_held || !room_fits(o, job))
        return;
    MUST(o, head != DAG_NO_JOB && head != job, "job %u could start", job);
    MUST(o, urgency(o, job) <= urgency(o, head), "job %u waits for job %u, which is less urgent",
         job, head);
    uint64_t start_ms = room_forecast(o, head), expected_ms = j->given.expected_ms;
    bool may_drain = o->now_ms - o->head_ms >= 4 * o->config.patience_ms;
    MUST(o, start_ms != NEVER || o->now_ms - o->jobs[head].ready_ms >= o->config.patience_ms,
         "job %u waits for job %u, which has not waited long", job, head);
    MUST(o,
         may_drain || start_ms == NEVER || expected_ms == 0 || o->now_ms + expected_ms > start_ms ||
             is_behind_alike(o, job),
         "job %u would have ended before job %u starts", job, head);
}

static void progress_judge(struct oracle *o, const struct dag *dag)
{
    uint32_t head = head_find(o, dag);
    for (uint32_t i = 0; may_start(o) && i < o->n_jobs; i++)
        idle_judge(o, i, head);
    if (head == DAG_NO_JOB)
        return;
    MUST(o, o->jobs[head].state == DAG_READY && !o->jobs[head].is_held, "job %u is no head", head);
    uint64_t before_ms = o->forecast_ms[head], after_ms = room_forecast(o, head);
    uint64_t view_ms = dag_job_view(dag, head).start_by_ms;
    MUST(o, after_ms <= before_ms, "job %u, the head, starts at %lu instead of %lu", head, after_ms,
         before_ms);
    MUST(o, view_ms == (after_ms == NEVER ? 0 : after_ms), "job %u starts by %lu, not by %lu", head,
         after_ms, view_ms);
}

void oracle_settle(struct oracle *o, const struct dag *dag)
{
    uint64_t wake_ms = dag_wake_ms(dag);
    told_judge(o);
    views_judge(o, dag);
    progress_judge(o, dag);
    MUST(o, wake_ms > o->now_ms, "it wants to be woken at %lu", wake_ms);
}
