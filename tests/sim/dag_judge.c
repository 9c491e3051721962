/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle of dags, second half: what the dag does, and what it says afterwards.
 */
#include <string.h>

#include "sim/dag_room.h"

#define NEVER UINT64_MAX

#define MUST(o, condition, ...)                           \
    do {                                                  \
        if (!(condition))                                 \
            oracle_found((o), FOUND_UNSAFE, __VA_ARGS__); \
    } while (0)

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
    return j->oom_step != OOM_STEP_NONE || j->was_ill;
}

static bool wants_the_same(const struct oracle_job *a, const struct oracle_job *b)
{
    return !memcmp(&a->given.want, &b->given.want, sizeof(a->given.want)) &&
           a->given.expected_ms == b->given.expected_ms && !is_special(a) && !is_special(b);
}

/*
 * Of those that want the same for as long, the most urgent starts first. And for others that are
 * more urgent, when they would start without this one.
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

/*
 * The most urgent of all starts when it fits (of equally urgent ones, if all fit), and gets all
 * devices that it can use.
 */
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
        is_need |= j->needs[i] == culprit && oracle_is_bad(o->jobs[culprit].state);
    MUST(o, oracle_has_bad_need(o, j) ? is_need : culprit == DAG_NO_JOB,
         "job %u is not job %u's culprit", culprit, job);
}

static void job_judge(const struct oracle *o, const struct dag *dag, uint32_t job)
{
    const struct oracle_job *j = &o->jobs[job];
    struct dag_job_view view = dag_job_view(dag, job);
    MUST(o, view.state == j->state, "job %u is in state %d instead of %d", job, view.state,
         j->state);
    MUST(o, view.is_held == j->is_held, "job %u is held, or should be", job);
    MUST(o, view.n_needs_left == oracle_needs_left(o, j), "job %u has %u needs left", job,
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

/*
 * Of jobs that want the same and take about as long, the more urgent one alone is asked whether it
 * would end in time.
 */
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
