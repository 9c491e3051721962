/* SPDX-License-Identifier: Apache-2.0
 *
 * The real dag in a world that means ill, seed by seed. Jobs of all wants on some hosts with some
 * devices end well, fail, run out of memory, are lost, or say that a device is ill; they take other
 * times than was expected; devices and hosts go and come, new ones as well; jobs are added, held,
 * released, cancelled and retried while all this goes on; somebody stops it; facts are told twice.
 * All rates are drawn from the seed, so that some worlds have one kind of trouble, some all, some
 * none. After a while trouble ceases, and it must be over soon. dag_oracle.h judges each step. In
 * one world of eight small jobs come without end, and a large one must get its devices all the
 * same. Every fiftieth seed is run twice and must decide the same.
 *
 *   sim_dag [--seeds N] [--first S] [--seed S] [--trace]
 *
 * The exit status says what broke: 129 safety, 128 liveness, 130 determinism.
 */
#include <string.h>

#include "commit.h"
#include "sim/dag_world.h"

enum {
    STEPS_MAX = 600,       /* of a world with trouble: then it ceases */
    STEPS_CALM_MAX = 4000, /* after that it must be over */
    STEPS_OVER = 6,        /* further events */
    GRACE_MAX_MS = 400
};

/* ---- what the dag does to the world ---- */

static enum dag_end end_draw(struct world *w)
{
    for (uint32_t i = DEND_FAILED; i <= DEND_ENDED; i++)
        if (!w->is_calm && world_chance(w, w->rates.end[i]))
            return (enum dag_end)i;
    return DEND_WELL;
}

static void job_begin(struct world *w, uint32_t job)
{
    uint64_t expected_ms = w->oracle.jobs[job].given.expected_ms;
    uint64_t run_ms = world_span_ms(w, w->rates.run_ms);
    if (w->is_stream)
        run_ms = STREAM_RUN_MS / 2 + world_below(w, STREAM_RUN_MS / 2);
    else if (expected_ms > 0 && world_chance(w, 0.6))
        run_ms = expected_ms;
    w->exit_ms[job] = w->now_ms + run_ms;
    w->end[job] = end_draw(w);
}

static void job_end(struct world *w, uint32_t job)
{
    uint64_t at_ms = w->now_ms + world_below(w, GRACE_MAX_MS);
    if (at_ms >= w->exit_ms[job])
        return;
    w->exit_ms[job] = at_ms;
    w->end[job] = world_chance(w, 0.8) ? DEND_ENDED : (enum dag_end)world_below(w, DEND_ENDED);
}

/* ---- a step ---- */

static void event_trace(const struct world *w, const struct dag_event *ev)
{
    static const char *const names[] = {
#define X(kind) [DEV_##kind] = #kind,
        DAG_EVENTS(X)
#undef X
    };
    static const char *const ends[] = {
#define X(kind) [DEND_##kind] = #kind,
        DAG_ENDS_OF_JOBS(X)
#undef X
    };
    printf("%6lu %9lu > %s job %u device %u", w->oracle.n_steps, w->now_ms, names[ev->kind],
           ev->job, ev->device);
    printf("%s%s%s\n", ev->kind == DEV_ENDED ? " " : "", ev->kind == DEV_ENDED ? ends[ev->end] : "",
           ev->flag ? ", flag" : "");
}

static void action_trace(const struct world *w, const struct dag_action *a)
{
    static const char *const names[] = {
#define X(kind) [DACT_##kind] = #kind,
        DAG_ACTIONS(X)
#undef X
    };
    printf("%6lu %9lu <   %s job %u device %u", w->oracle.n_steps, w->now_ms, names[a->kind],
           a->job, a->device);
    if (a->kind == DACT_START) {
        struct dag_placement at = dag_placement(w->dag, a->job);
        printf(" at host %u:", at.host);
        for (uint32_t i = 0; i < at.n_devices; i++)
            printf(" %u", at.devices[i]);
    }
    printf("\n");
}

static void digest_add(struct world *w, const struct dag_action *a)
{
    w->digest = mix64(w->digest ^ ((uint64_t)a->kind << 40 | a->job) ^ w->now_ms);
    if (a->kind != DACT_START)
        return;
    struct dag_placement at = dag_placement(w->dag, a->job);
    for (uint32_t i = 0; i < at.n_devices; i++)
        w->digest = mix64(w->digest ^ at.devices[i]);
}

static void tell(struct world *w, struct dag_event ev)
{
    const struct dag_action *actions;
    ev.now_ms = w->now_ms;
    oracle_event(&w->oracle, &ev);
    if (w->trace)
        event_trace(w, &ev);
    size_t n_actions = dag_step(w->dag, &ev, &actions);
    for (size_t i = 0; i < n_actions; i++) {
        const struct dag_action *a = &actions[i];
        if (w->trace)
            action_trace(w, a);
        digest_add(w, a);
        oracle_action(&w->oracle, w->dag, a);
        if (a->kind == DACT_START)
            job_begin(w, a->job);
        else if (a->kind == DACT_END)
            job_end(w, a->job);
    }
    oracle_settle(&w->oracle, w->dag);
    w->tick_ms = dag_wake_ms(w->dag);
    if (w->tick_ms != NEVER && !w->is_calm && world_chance(w, w->rates.late_tick))
        w->tick_ms += world_below(w, 300);
}

/* ---- facts ---- */

static void job_moves(struct world *w, uint32_t job)
{
    uint32_t place = world_below(w, 3);
    oracle_move(&w->oracle, job, place);
    bool has_moved = dag_move(w->dag, job, place);
    ASSERT(has_moved);
}

static void job_exits(struct world *w, uint32_t job)
{
    const struct oracle_job *j = &w->oracle.jobs[job];
    uint32_t device = j->n_devices > 0 && world_chance(w, 0.8)
                          ? j->devices[world_below(w, j->n_devices)]
                          : UINT32_MAX;
    w->exit_ms[job] = NEVER;
    if (w->end[job] == DEND_ABSENT)
        job_moves(w, job);
    tell(w,
         (struct dag_event){.kind = DEV_ENDED, .job = job, .end = w->end[job], .device = device});
}

static void device_toggles(struct world *w, uint32_t device)
{
    bool was_up = w->oracle.devices[device].given.is_up;
    bool stays_away = was_up && !w->is_calm && world_chance(w, w->rates.gone_for_good);
    w->device_ms[device] = w->is_calm || stays_away ? NEVER
                           : was_up ? w->now_ms + world_span_ms(w, w->rates.device_down_ms)
                                    : world_soon_ms(w, w->rates.device_up_ms);
    for (uint32_t i = 0; was_up && i < w->oracle.n_jobs; i++)
        for (uint32_t k = 0; oracle_runs(&w->oracle, i) && k < w->oracle.jobs[i].n_devices; k++)
            if (w->oracle.jobs[i].devices[k] == device) {
                w->exit_ms[i] = MIN(w->exit_ms[i], w->now_ms + world_below(w, 100));
                w->end[i] = world_chance(w, 0.5) ? DEND_LOST : DEND_ILL;
            }
    tell(w, (struct dag_event){.kind = was_up ? DEV_DEVICE_DOWN : DEV_DEVICE_UP, .device = device});
}

static void host_toggles(struct world *w, uint32_t host)
{
    bool was_up = w->oracle.host_is_up[host];
    w->host_ms[host] = w->is_calm ? NEVER
                       : was_up   ? w->now_ms + world_span_ms(w, w->rates.device_down_ms)
                                  : world_soon_ms(w, w->rates.host_up_ms);
    for (uint32_t i = 0; was_up && i < w->oracle.n_jobs; i++)
        if (oracle_runs(&w->oracle, i) && w->oracle.jobs[i].host == host) {
            w->exit_ms[i] = MIN(w->exit_ms[i], w->now_ms + world_below(w, 100));
            w->end[i] = DEND_LOST;
        }
    tell(w, (struct dag_event){.kind = was_up ? DEV_HOST_DOWN : DEV_HOST_UP, .device = host});
}

static void device_is_new(struct world *w, uint32_t index)
{
    (void)index;
    uint32_t host = world_below(w, MIN(w->oracle.n_hosts + 1, (uint32_t)WORLD_HOSTS));
    struct dag_device device = {.host = host, .mem_bytes = world_memory_draw(w)};
    uint32_t n_cpus = 1 + world_below(w, 8), number = w->oracle.n_devices;
    oracle_add_device(&w->oracle, &device, n_cpus);
    if (dag_add_device(w->dag, &device, n_cpus) != number)
        oracle_found(&w->oracle, FOUND_UNSAFE, "device %u has another number", number);
    w->device_ms[number] = w->now_ms + world_below(w, 300);
    w->new_device_ms =
        w->oracle.n_devices < w->n_devices_max ? w->now_ms + world_below(w, 2000) : NEVER;
}

static void jobs_are_added(struct world *w, uint32_t index)
{
    (void)index;
    w->add_ms = world_soon_ms(w, w->rates.add_ms);
    for (uint32_t n = 1 + world_below(w, 3); n > 0 && w->oracle.n_jobs < w->n_jobs_max; n--)
        world_job_draw(w);
    tell(w, (struct dag_event){.kind = DEV_TICK});
}

/* Somebody looks at a job. */
static void user_acts(struct world *w, uint32_t index)
{
    (void)index;
    static const enum dag_event_kind kinds[] = {DEV_HOLD,    DEV_HOLD,   DEV_RELEASE, DEV_RELEASE,
                                                DEV_RELEASE, DEV_CANCEL, DEV_RETRY,   DEV_RETRY};
    w->user_ms = world_soon_ms(w, w->rates.user_ms);
    if (w->oracle.n_jobs == 0)
        return;
    uint32_t job = world_below(w, w->oracle.n_jobs);
    if (!world_chance(w, 0.3)) {
        tell(w, (struct dag_event){.kind = kinds[world_below(w, countof(kinds))], .job = job});
        return;
    }
    if (world_chance(w, 0.2)) {
        job_moves(w, job);
        tell(w, (struct dag_event){.kind = DEV_TICK});
        return;
    }
    uint64_t expected_ms = world_chance(w, 0.7) ? world_span_ms(w, w->rates.run_ms) : 0;
    bool has_memory = w->oracle.jobs[job].given.want.mem_bytes > 0 && world_chance(w, 0.5);
    uint64_t mem_bytes = has_memory ? (1 + world_below(w, 40)) * GIB : 0;
    oracle_expect(&w->oracle, job, expected_ms, mem_bytes);
    dag_expect(w->dag, job, expected_ms, mem_bytes);
    tell(w, (struct dag_event){.kind = DEV_TICK});
}

static void await_toggles(struct world *w, uint32_t index)
{
    (void)index;
    bool flag = !w->oracle.is_awaiting;
    w->await_ms = flag ? w->now_ms + world_below(w, 3000) : NEVER;
    tell(w, (struct dag_event){.kind = DEV_AWAIT, .flag = flag});
}

static void stop_is_told(struct world *w, uint32_t index)
{
    (void)index;
    w->stop_ms = world_chance(w, 0.5) ? w->now_ms + world_below(w, GRACE_MAX_MS) : NEVER;
    tell(w, (struct dag_event){.kind = DEV_STOP, .flag = world_chance(w, 0.4)});
}

static void time_passes(struct world *w, uint32_t index)
{
    (void)index;
    tell(w, (struct dag_event){.kind = DEV_TICK});
}

/* Something that is known already, or makes no sense. */
static struct dag_event noise_draw(struct world *w)
{
    uint32_t job = world_below(w, w->oracle.n_jobs), device = world_below(w, w->oracle.n_devices);
    uint32_t host = world_below(w, w->oracle.n_hosts);
    bool has_device = w->oracle.n_devices > 0, is_idle = !oracle_runs(&w->oracle, job);
    const struct dag_event events[] = {
        {.kind = DEV_TICK},
        {.kind = w->oracle.is_stopped ? DEV_STOP : DEV_TICK},
        {.kind = DEV_AWAIT, .flag = w->oracle.is_awaiting},
        {.kind = w->oracle.host_is_up[host] ? DEV_HOST_UP : DEV_HOST_DOWN, .device = host},
        {.kind = !has_device                             ? DEV_TICK
                 : w->oracle.devices[device].given.is_up ? DEV_DEVICE_UP
                                                         : DEV_DEVICE_DOWN,
         .device = device},
        {.kind = is_idle && w->oracle.n_jobs > 0 ? DEV_ENDED : DEV_TICK,
         .job = job,
         .end = (enum dag_end)world_below(w, DEND_ENDED + 1)},
    };
    return events[world_below(w, countof(events))];
}

/* From now on devices stay, or come back, jobs end well, and nobody is held. */
static void calm_begins(struct world *w, uint32_t index)
{
    (void)index;
    w->is_calm = true;
    w->calm_ms = w->stop_ms = w->add_ms = w->user_ms = w->new_device_ms = NEVER;
    w->await_ms = w->oracle.is_awaiting ? w->now_ms + world_below(w, 300) : NEVER;
    for (uint32_t i = 0; i < w->oracle.n_devices; i++)
        w->device_ms[i] =
            w->oracle.devices[i].given.is_up ? NEVER : w->now_ms + world_below(w, 300);
    for (uint32_t i = 0; i < w->oracle.n_hosts; i++)
        w->host_ms[i] = w->oracle.host_is_up[i] ? NEVER : w->now_ms + world_below(w, 300);
    for (uint32_t i = 0; i < w->oracle.n_jobs; i++)
        if (w->oracle.jobs[i].is_held)
            tell(w, (struct dag_event){.kind = DEV_RELEASE, .job = i});
    w->tick_ms = w->now_ms;
}

/* ---- a world ---- */

/* What comes next: the earliest, and of several at one time any. */
struct next {
    uint64_t at_ms;
    uint32_t n_equal, index;
    void (*happens)(struct world *w, uint32_t index);
};

static void consider(struct world *w, struct next *next, uint64_t at_ms, uint32_t index,
                     void (*happens)(struct world *, uint32_t))
{
    at_ms = at_ms == NEVER ? NEVER : MAX(at_ms, w->now_ms); /* what is overdue happens now */
    if (at_ms > next->at_ms || at_ms == NEVER)
        return;
    next->n_equal = at_ms < next->at_ms ? 1 : next->n_equal + 1;
    bool is_chosen = world_below(w, next->n_equal) == 0;
    next->at_ms = at_ms;
    if (is_chosen) {
        next->index = index;
        next->happens = happens;
    }
}

static struct next next_find(struct world *w)
{
    struct next next = {.at_ms = NEVER};
    consider(w, &next, w->tick_ms, 0, time_passes);
    consider(w, &next, w->stop_ms, 0, stop_is_told);
    consider(w, &next, w->calm_ms, 0, calm_begins);
    consider(w, &next, w->add_ms, 0, jobs_are_added);
    consider(w, &next, w->user_ms, 0, user_acts);
    consider(w, &next, w->await_ms, 0, await_toggles);
    consider(w, &next, w->new_device_ms, 0, device_is_new);
    for (uint32_t i = 0; i < w->oracle.n_devices; i++)
        consider(w, &next, w->device_ms[i], i, device_toggles);
    for (uint32_t i = 0; i < w->oracle.n_hosts; i++)
        consider(w, &next, w->host_ms[i], i, host_toggles);
    for (uint32_t i = 0; i < w->oracle.n_jobs; i++)
        if (oracle_runs(&w->oracle, i))
            consider(w, &next, w->exit_ms[i], i, job_exits);
    return next;
}

static void stream_judge(struct world *w)
{
    if (w->oracle.n_steps == 0 || w->is_calm)
        return;
    if (w->large == DAG_NO_JOB)
        world_large_add(w);
    const struct oracle_job *large = &w->oracle.jobs[w->large];
    bool waits = large->is_new || large->state == DAG_READY;
    if (waits && w->now_ms > w->large_by_ms)
        oracle_found(&w->oracle, FOUND_STUCK, "the large job does not get its devices");
    if (waits)
        world_stream_fill(w);
    else
        calm_begins(w, 0);
}

static void world_step(struct world *w)
{
    if (w->is_stream)
        stream_judge(w);
    if (!w->is_calm && world_chance(w, w->rates.noise)) {
        tell(w, noise_draw(w));
        return;
    }
    struct next next = next_find(w);
    if (!next.happens)
        oracle_found(&w->oracle, FOUND_STUCK, "it waits for nothing");
    w->now_ms = next.at_ms;
    next.happens(w, next.index);
}

/* All that is left could not start on any device that is up, or may not. */
static bool is_at_end(const struct world *w)
{
    bool is = w->is_calm && w->oracle.is_over && !w->oracle.is_awaiting;
    for (uint32_t i = 0; i < w->oracle.n_devices; i++)
        is &= w->oracle.devices[i].given.is_up;
    for (uint32_t i = 0; i < w->oracle.n_hosts; i++)
        is &= w->oracle.host_is_up[i];
    return is;
}

/* With all up and nobody held, what has not come to its end is behind a stop or a failure. */
static void end_judge(const struct world *w)
{
    bool is_halted = w->oracle.is_stopped;
    for (uint32_t i = 0; i < w->oracle.n_jobs; i++)
        is_halted |= !w->oracle.config.keeps_going && w->oracle.jobs[i].state == DAG_FAILED;
    for (uint32_t i = 0; i < w->oracle.n_jobs && !is_halted; i++) {
        enum dag_state state = w->oracle.jobs[i].state;
        if (state == DAG_WAITS || state == DAG_READY)
            oracle_found(&w->oracle, FOUND_STUCK, "job %u is forgotten", i);
    }
}

/* When it is over, it can still go on. */
static void world_goes_on(struct world *w)
{
    for (uint32_t i = 0; i < STEPS_OVER; i++) {
        w->now_ms += world_below(w, 1000);
        tell(w, noise_draw(w));
    }
    if (w->oracle.n_jobs < WORLD_JOBS)
        world_job_draw(w);
    tell(w, (struct dag_event){.kind = DEV_STOP, .flag = true});
}

static uint64_t world_run(uint64_t seed, bool trace)
{
    static struct world world;
    struct world *w = &world;
    *w = (struct world){.trace = trace, .large = DAG_NO_JOB};
    world_draw(w, seed);
    for (uint64_t limit = STEPS_MAX; !is_at_end(w);) {
        if (w->oracle.n_steps >= limit && w->is_calm)
            oracle_found(&w->oracle, FOUND_STUCK, "it does not come to an end");
        if (w->oracle.n_steps >= limit && !w->is_stream)
            calm_begins(w, 0);
        if (w->is_calm && limit == STEPS_MAX)
            limit = w->oracle.n_steps + STEPS_CALM_MAX;
        world_step(w);
    }
    end_judge(w);
    world_goes_on(w);
    dag_free(w->dag);
    return w->digest;
}

static int seed_run(uint64_t seed, bool trace)
{
    uint64_t digest = world_run(seed, trace);
    if (seed % 50 != 0 || digest == world_run(seed, false))
        return FOUND_NOTHING;
    printf("FAIL seed=%lu commit=%s determinism: the second time it went another way\n", seed,
           SIM_COMMIT);
    return FOUND_DIFFERENT;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 2000, first = 1;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--trace"))
            trace = true;
        else if (!strcmp(argv[i], "--seeds"))
            seeds = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--first") || !strcmp(argv[i], "--seed"))
            first = strtoull(value, NULL, 10);
        if (!strcmp(argv[i], "--seed"))
            seeds = 1;
    }
    int found = FOUND_NOTHING;
    for (uint64_t i = 0; found == FOUND_NOTHING && i < seeds; i++)
        found = seed_run(first + i, trace);
    if (found == FOUND_NOTHING)
        printf("%lu seeds: all jobs came to their right ends\n", seeds);
    return found;
}
