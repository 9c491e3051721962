/* SPDX-License-Identifier: Apache-2.0
 *
 * Events in, actions out. A step takes in added jobs, handles its event, finds the jobs that can never run, and plans
 * which jobs start (dag_plan.c).
 */
#include "core/dag_impl.h"

void dag_emit(struct dag *dag, enum dag_action_kind kind, uint32_t job, uint32_t device)
{
    ASSERT(dag->out.len < dag->out.cap);
    dag->out.at[dag->out.len++] = (struct dag_action){kind, job, device};
}

/* ---- states ---- */

static bool counts_as_held(const struct job *j)
{
    return j->is_held && (j->state == DAG_READY || j->state == DAG_WAITS);
}

void dag_state_set(struct dag *dag, uint32_t job, enum dag_state state)
{
    struct job *j = &dag->jobs.at[job];
    dag->n_held -= counts_as_held(j);
    dag->n_of[j->state]--;
    j->state = (uint8_t)state;
    dag->n_of[state]++;
    dag->n_held += counts_as_held(j);
}

static void held_set(struct dag *dag, struct job *j, bool is_held)
{
    dag->n_held -= counts_as_held(j);
    j->is_held = is_held;
    dag->n_held += counts_as_held(j);
}

void dag_settle(struct dag *dag, uint32_t job, enum dag_state state)
{
    struct job *j = &dag->jobs.at[job];
    bool was_bad = dag_is_bad(j->state);
    if (j->is_queued)
        dag_ready_remove(dag, job);
    dag_state_set(dag, job, state);
    dag_emit(dag, DACT_SETTLED, job, 0);
    if (state == DAG_DONE)
        dag_done_spread(dag, job);
    else if (!was_bad)
        dag_bad_spread(dag, job, true);
}

static void queue(struct dag *dag, uint32_t job)
{
    struct job *j = &dag->jobs.at[job];
    j->ready_ms = dag->now_ms;
    if (!j->is_held)
        dag_ready_push(dag, job);
}

void dag_open(struct dag *dag, uint32_t job)
{
    struct job *j = &dag->jobs.at[job];
    if (j->n_bad > 0) {
        dag_state_set(dag, job, DAG_BLOCKED);
    } else if (dag->shapes.at[j->shape].is_unfit) {
        dag_settle(dag, job, DAG_UNFIT);
    } else if (j->n_left > 0) {
        dag_state_set(dag, job, DAG_WAITS);
    } else {
        dag_state_set(dag, job, DAG_READY);
        queue(dag, job);
    }
}

/* ---- adding ---- */

static enum dag_state state_at_first(const struct job *j, bool is_done)
{
    if (is_done)
        return DAG_DONE;
    return j->n_bad > 0 ? DAG_BLOCKED : j->n_left > 0 ? DAG_WAITS : DAG_READY;
}

static struct dag_want want_checked(const struct dag_want *given)
{
    struct dag_want want = *given;
    ASSERT(want.place < DAG_PLACES_MAX && want.share <= DAG_SHARE_WHOLE);
    want.n_devices_max = MAX(want.n_devices_max, want.n_devices_min);
    want.n_devices_max = MIN(want.n_devices_max, (uint32_t)DAG_JOB_DEVICES_MAX);
    return want;
}

static void time_is_known(struct dag *dag, uint64_t before_ms, uint64_t now_ms)
{
    dag->paths.known_ms += now_ms - before_ms;
    dag->paths.n_known += (now_ms > 0) - (before_ms > 0);
}

/* What an earlier session left out of memory with its batch, on the largest device, begins where that ended. */
static void halvings_take(struct dag *dag, struct job *j, uint32_t n_halvings)
{
    j->n_halvings = (uint8_t)MIN(n_halvings, (uint32_t)j->n_batch_steps);
    if (j->n_halvings == 0)
        return;
    j->oom_step = OOM_STEP_BATCH;
    for (uint32_t i = 1; i < dag->devices.len; i++)
        if (dag->devices.at[i].mem_bytes > dag->devices.at[j->floor_device].mem_bytes)
            j->floor_device = (uint16_t)i;
}

uint32_t dag_add(struct dag *dag, const struct dag_job *job)
{
    ASSERT(abs(job->priority) <= DAG_PRIORITY_MAX);
    const struct dag_want want = want_checked(&job->want);
    uint64_t expected_ms = MIN(job->expected_ms, EXPECTED_MAX_MS);
    if (!dag_jobs_grow(dag, job->n_needs))
        return DAG_NO_JOB;
    uint32_t shape = dag_shape_find(dag, &want), number = dag->jobs.len;
    if (shape == NONE)
        return DAG_NO_JOB;
    dag->jobs.len++;
    struct job *j = &dag->jobs.at[number];
    *j = (struct job){
        .expected_ms = expected_ms,
        .followers = NONE,
        .shape = shape,
        .n_retries = job->n_retries,
        .priority = (int16_t)job->priority,
        .n_batch_steps = (uint8_t)MIN(job->n_batch_steps, (uint32_t)HALVINGS_MAX),
        .is_held = job->is_held,
    };
    halvings_take(dag, j, job->n_halvings);
    time_is_known(dag, 0, expected_ms);
    dag_edges_add(dag, number, job->needs, job->n_needs);
    j->state = (uint8_t)state_at_first(j, job->is_done);
    dag->n_of[j->state]++;
    dag->n_held += counts_as_held(j);
    j->path_ms = dag_duration_ms(dag, number);
    bool is_mean_other = expected_ms > 0 && dag->paths.n_known < dag->jobs.len;
    dag->paths.is_due |= job->n_needs > 0 || is_mean_other;
    dag->is_over = false;
    return number;
}

void dag_add_host(struct dag *dag, uint32_t host, uint32_t n_cpus)
{
    ASSERT(host < DAG_HOSTS_MAX);
    dag->hosts.at[host].n_cpus = n_cpus;
    dag->hosts.at[host].is_up = true;
    dag->hosts.len = MAX(dag->hosts.len, host + 1);
    dag->shapes.is_all_due = true;
}

uint32_t dag_add_device(struct dag *dag, const struct dag_device *device, uint32_t n_cpus)
{
    ASSERT(device->host < DAG_HOSTS_MAX);
    if (dag->devices.len == dag->config.n_devices_max)
        return NONE;
    if (device->host >= dag->hosts.len) {
        dag->hosts.at[device->host].n_cpus = n_cpus;
        dag->hosts.at[device->host].is_up = true;
        dag->hosts.len = device->host + 1;
    }
    uint32_t number = dag->devices.len++;
    dag->devices.at[number] = (struct place_device){
        .host = device->host, .next_on_host = NONE, .mem_bytes = device->mem_bytes};
    uint32_t *link = &dag->hosts.at[device->host].first_device;
    while (*link != NONE)
        link = &dag->devices.at[*link].next_on_host;
    *link = number;
    dag->shapes.is_all_due = true;
    return number;
}

void dag_allow(struct dag *dag, uint32_t place, uint32_t host)
{
    ASSERT(place > 0 && place < DAG_PLACES_MAX && host < DAG_HOSTS_MAX);
    dag->hosts.allowed[place][host / 64] |= 1ull << host % 64;
    dag->shapes.is_all_due = true;
}

void dag_deny_device(struct dag *dag, uint32_t place, uint32_t device)
{
    ASSERT(place > 0 && place < DAG_PLACES_MAX && device < DAG_DEVICES_MAX);
    dag->devices.denied[place][device / 64] |= 1ull << device % 64;
    dag->shapes.is_all_due = true;
}

/*
 * Gives the job another want, and perhaps another expected time. False: memory ran out, and the job
 * keeps those that it has.
 */
static bool reshape(struct dag *dag, uint32_t job, const struct dag_want *want,
                    uint64_t expected_ms)
{
    struct job *j = &dag->jobs.at[job];
    uint32_t shape = dag_shape_find(dag, want);
    bool is_queued = j->is_queued;
    if (shape == NONE)
        return false;
    if (is_queued)
        dag_ready_remove(dag, job);
    time_is_known(dag, j->expected_ms, expected_ms);
    dag->paths.is_due |= j->expected_ms != expected_ms;
    j->expected_ms = expected_ms;
    j->shape = shape;
    if (is_queued)
        dag_ready_push(dag, job);
    dag->shapes.is_sweep_due |= dag->shapes.at[shape].is_unfit;
    return true;
}

void dag_expect(struct dag *dag, uint32_t job, uint64_t expected_ms, uint64_t mem_bytes)
{
    ASSERT(job < dag->jobs.len);
    const struct job *j = &dag->jobs.at[job];
    if (j->state == DAG_RUNS || j->state == DAG_ENDS || j->state == DAG_DONE)
        return;
    struct dag_want want = dag->shapes.at[j->shape].want;
    want.mem_bytes = mem_bytes > 0 ? mem_bytes : want.mem_bytes;
    /* Without memory the old expectations stay. They are no promise: a job may take longer than it
     * was expected to, and one that runs out of device memory starts again with more. */
    (void)reshape(dag, job, &want,
                  expected_ms > 0 ? MIN(expected_ms, EXPECTED_MAX_MS) : j->expected_ms);
}

bool dag_move(struct dag *dag, uint32_t job, uint32_t place)
{
    ASSERT(job < dag->jobs.len && place < DAG_PLACES_MAX);
    const struct job *j = &dag->jobs.at[job];
    struct dag_want want =
        dag->shapes.at[j->shape].want; /* all but the place stays, as while it runs */
    want.place = place;
    return reshape(dag, job, &want, j->expected_ms);
}

/* Jobs that were added since the last step begin to wait now. */
static void absorb(struct dag *dag)
{
    for (; dag->jobs.n_absorbed < dag->jobs.len; dag->jobs.n_absorbed++) {
        uint32_t job = dag->jobs.n_absorbed;
        const struct job *j = &dag->jobs.at[job];
        if (j->state == DAG_READY)
            queue(dag, job);
        dag->shapes.is_sweep_due |= dag->shapes.at[j->shape].is_unfit;
    }
}

/* ---- jobs that can never run ---- */

static void shape_check(struct dag *dag, struct shape *s)
{
    const struct demand demand = {.want = s->want, .job = NONE, .is_alone = dag_is_whole(&s->want)};
    bool was_unfit = s->is_unfit;
    s->is_checked = true;
    s->is_unfit =
        !dag->is_awaiting && !dag_place(dag, &demand, &dag->empty, NULL, REACH_EVER, NULL);
    dag->shapes.is_sweep_due |= s->is_unfit && !was_unfit;
}

/* Called before an event, for what was added, and after it, for what it changed. */
static void shapes_check(struct dag *dag)
{
    bool is_due = dag->shapes.is_check_due || dag->shapes.is_all_due;
    for (uint32_t i = 1; is_due && i < dag->shapes.len; i++)
        if (!dag->shapes.at[i].is_checked || dag->shapes.is_all_due)
            shape_check(dag, &dag->shapes.at[i]);
    dag->shapes.is_check_due = dag->shapes.is_all_due = false;
}

static void unfit_settle(struct dag *dag)
{
    for (uint32_t job = 0; dag->shapes.is_sweep_due && job < dag->jobs.len; job++) {
        const struct job *j = &dag->jobs.at[job];
        if ((j->state == DAG_WAITS || j->state == DAG_READY) && dag->shapes.at[j->shape].is_unfit)
            dag_settle(dag, job, DAG_UNFIT);
    }
    dag->shapes.is_sweep_due = false;
}

static bool has_started(const struct job *j)
{
    return j->state == DAG_RUNS || j->state == DAG_ENDS;
}

/* ---- events ---- */

static void on_tick(struct dag *dag, const struct dag_event *ev)
{
    (void)dag, (void)ev;
}

static void on_ended(struct dag *dag, const struct dag_event *ev)
{
    if (has_started(&dag->jobs.at[ev->job]))
        dag_ended(dag, ev);
}

static void on_device(struct dag *dag, const struct dag_event *ev)
{
    ASSERT(ev->device < dag->devices.len);
    dag->devices.at[ev->device].is_up = ev->kind == DEV_DEVICE_UP;
}

static void on_host(struct dag *dag, const struct dag_event *ev)
{
    ASSERT(ev->device < dag->hosts.len);
    dag->hosts.at[ev->device].is_up = ev->kind == DEV_HOST_UP;
}

static bool is_final(enum dag_state state)
{
    return state == DAG_DONE || state == DAG_FAILED || state == DAG_CANCELLED || state == DAG_UNFIT;
}

static void on_hold(struct dag *dag, const struct dag_event *ev)
{
    struct job *j = &dag->jobs.at[ev->job];
    bool is_held = ev->kind == DEV_HOLD;
    if (j->is_held == is_held || (is_held && is_final(j->state)))
        return;
    if (j->is_queued)
        dag_ready_remove(dag, ev->job);
    held_set(dag, j, is_held);
    if (j->state == DAG_READY && !is_held)
        queue(dag, ev->job);
}

static void job_end(struct dag *dag, uint32_t job)
{
    if (dag->jobs.at[job].state != DAG_RUNS)
        return;
    dag_state_set(dag, job, DAG_ENDS);
    dag_emit(dag, DACT_END, job, 0);
}

static void on_cancel(struct dag *dag, const struct dag_event *ev)
{
    struct job *j = &dag->jobs.at[ev->job];
    if (j->state == DAG_DONE || j->state == DAG_CANCELLED)
        return;
    held_set(dag, j, false);
    if (has_started(j)) {
        j->wish = WISH_CANCELLED;
        job_end(dag, ev->job);
    } else {
        dag_settle(dag, ev->job, DAG_CANCELLED);
    }
}

void dag_begin_anew(struct dag *dag, uint32_t job)
{
    struct job *j = &dag->jobs.at[job];
    j->n_failures = 0;
    j->n_lost = j->n_halvings = 0;
    j->oom_step = OOM_STEP_NONE;
    j->wish = WISH_NONE;
    dag_open(dag, job);
}

static void on_retry(struct dag *dag, const struct dag_event *ev)
{
    struct job *j = &dag->jobs.at[ev->job];
    if (j->wish == WISH_CANCELLED && has_started(j))
        j->wish = WISH_AGAIN;
    if (!is_final(j->state) || j->state == DAG_DONE)
        return;
    dag_begin_anew(dag, ev->job);
    if (!dag_is_bad(j->state))
        dag_bad_spread(dag, ev->job, false);
}

static void on_await(struct dag *dag, const struct dag_event *ev)
{
    dag->shapes.is_all_due |= dag->is_awaiting != ev->flag;
    dag->is_awaiting = ev->flag;
}

static void on_stop(struct dag *dag, const struct dag_event *ev)
{
    dag->is_stopped = true;
    for (uint32_t job = dag->running; ev->flag && job != NONE; job = dag->jobs.at[job].next)
        job_end(dag, job);
}

static const struct {
    void (*happens)(struct dag *dag, const struct dag_event *ev);
    bool has_job;
} handlers[] = {
    [DEV_TICK] = {on_tick, false},        [DEV_ENDED] = {on_ended, true},
    [DEV_DEVICE_UP] = {on_device, false}, [DEV_DEVICE_DOWN] = {on_device, false},
    [DEV_HOST_UP] = {on_host, false},     [DEV_HOST_DOWN] = {on_host, false},
    [DEV_HOLD] = {on_hold, true},         [DEV_RELEASE] = {on_hold, true},
    [DEV_CANCEL] = {on_cancel, true},     [DEV_RETRY] = {on_retry, true},
    [DEV_AWAIT] = {on_await, false},      [DEV_STOP] = {on_stop, false},
};

static void over_find(struct dag *dag)
{
    bool is_over = dag->n_of[DAG_RUNS] + dag->n_of[DAG_ENDS] == 0;
    if (is_over && !dag->is_over)
        dag_emit(dag, DACT_OVER, 0, 0);
    dag->is_over = is_over;
}

size_t dag_step(struct dag *dag, const struct dag_event *ev, const struct dag_action **actions)
{
    ASSERT(ev->kind < countof(handlers));
    ASSERT(!handlers[ev->kind].has_job || ev->job < dag->jobs.len);
    ASSERT(ev->now_ms >= dag->now_ms);
    dag->now_ms = ev->now_ms;
    dag->out.len = 0;
    absorb(dag);
    dag_paths_refresh(dag);
    shapes_check(dag);
    handlers[ev->kind].happens(dag, ev);
    shapes_check(dag);
    unfit_settle(dag);
    dag_plan(dag);
    over_find(dag);
    *actions = dag->out.at;
    return dag->out.len;
}
