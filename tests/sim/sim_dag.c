/* SPDX-License-Identifier: Apache-2.0
 *
 * The real dag in a world that means ill, seed by seed. Jobs of all wants on some hosts with some devices end well, fail,
 * run out of memory, are lost, or say that a device is ill; they take other times than was expected; devices and hosts go
 * and come, new ones as well; jobs are added, held, released, cancelled and retried while all this goes on; somebody stops
 * it; facts are told twice. All rates are drawn from the seed, so that some worlds have one kind of trouble, some all, some
 * none. After a while trouble ceases, and it must be over soon. dag_oracle.h judges each step. In one world of eight small
 * jobs come without end, and a large one must get its devices all the same. Every fiftieth seed is run twice and must
 * decide the same.
 *
 *   sim_dag [--seeds N] [--first S] [--seed S] [--trace]
 *
 * The exit status says what broke: 129 safety, 128 liveness, 130 determinism.
 */
#include <string.h>

#include "base/rng.h"
#include "commit.h"
#include "sim/dag_oracle.h"

#define NEVER UINT64_MAX
#define GIB   (1ull << 30)

enum {
    STEPS_MAX = 600,       /* of a world with trouble: then it ceases */
    STEPS_CALM_MAX = 4000, /* after that it must be over */
    STEPS_OVER = 6,        /* further events */
    GRACE_MAX_MS = 400,
    STREAM_RUN_MS = 300,
    STREAM_READY = 6, /* small jobs that wait, at least */
    KINDS = 6         /* of wants in a world */
};

/* Probabilities, and times on the average. */
struct rates {
    double end[DEND_ENDED + 1]; /* of ends that are not well */
    double noise, user, late_tick, gone_for_good, knows_times;
    uint64_t device_up_ms, device_down_ms, host_up_ms, add_ms, user_ms, run_ms;
};

struct world {
    struct rng rng;
    struct rates rates;
    struct oracle oracle;
    struct dag *dag;
    uint64_t now_ms, digest;
    bool is_calm, is_stream, trace;
    struct dag_want wants[KINDS];
    uint32_t n_jobs_max, n_devices_max;
    uint64_t exit_ms[WORLD_JOBS];
    enum dag_end end[WORLD_JOBS];
    uint64_t device_ms[WORLD_DEVICES], host_ms[WORLD_HOSTS]; /* when one comes or goes */
    uint64_t tick_ms, stop_ms, calm_ms, add_ms, user_ms, await_ms, new_device_ms;
    uint32_t large;       /* in a stream, when it has come; else DAG_NO_JOB */
    uint64_t large_by_ms; /* it must have started */
};

static bool chance(struct world *w, double p)
{
    return p > 0 && rng_unit(&w->rng) < p;
}

static uint32_t below(struct world *w, uint64_t bound)
{
    return bound > 0 ? (uint32_t)rng_below(&w->rng, bound) : 0;
}

static double some(struct world *w, double share_of_worlds, double rate)
{
    return chance(w, share_of_worlds) ? rate * rng_unit(&w->rng) : 0;
}

/* Around a mean. */
static uint64_t span_ms(struct world *w, uint64_t mean_ms)
{
    return 1 + below(w, 2 * mean_ms);
}

static uint64_t soon_ms(struct world *w, uint64_t mean_ms)
{
    return mean_ms == NEVER ? NEVER : w->now_ms + span_ms(w, mean_ms);
}

/* ---- what the seed decides beforehand ---- */

static struct rates rates_draw(struct world *w)
{
    struct rates rates = {
        .noise = some(w, 0.3, 0.2),
        .late_tick = some(w, 0.4, 0.5),
        .gone_for_good = some(w, 0.2, 0.3),
        .knows_times = chance(w, 0.3)   ? 0
                       : chance(w, 0.5) ? 1
                                        : rng_unit(&w->rng),
        .device_up_ms = chance(w, 0.3) ? 200 + below(w, 3000) : NEVER,
        .device_down_ms = 1 + below(w, 800),
        .host_up_ms = chance(w, 0.2) ? 500 + below(w, 5000) : NEVER,
        .add_ms = chance(w, 0.4) ? 20 + below(w, 500) : NEVER,
        .user_ms = chance(w, 0.4) ? 20 + below(w, 500) : NEVER,
        .run_ms = 1 + below(w, 500),
    };
    for (uint32_t i = DEND_FAILED; i < countof(rates.end); i++)
        rates.end[i] = some(w, 0.35, i == DEND_FATAL ? 0.1 : 0.3);
    rates.end[DEND_ENDED] = some(w, 0.05, 0.2);
    if (chance(w, 0.05)) /* jobs are lost more often than they may be */
        rates.end[chance(w, 0.5) ? DEND_LOST : DEND_ILL] = 0.97;
    if (chance(w, 0.05))
        rates.end[DEND_OOM] = 0.8;
    return rates;
}

static uint64_t memory_draw(struct world *w)
{
    static const uint64_t sizes[] = {16 * GIB, 24 * GIB, 40 * GIB, 80 * GIB};
    return sizes[below(w, countof(sizes))];
}

static struct dag_want want_draw(struct world *w)
{
    struct dag_want want = {.n_cpus = chance(w, 0.7) ? below(w, 5) : 0};
    uint32_t manner = below(w, 10);
    if (manner == 0)
        return want;
    want.n_devices_min = chance(w, 0.75) ? 1 : 1 + below(w, 3);
    want.n_devices_max = want.n_devices_min + (chance(w, 0.2) ? below(w, 4) : 0);
    if (chance(w, 0.03))
        want.n_devices_min = 0;
    if (manner >= 4 && manner != 9)
        want.mem_bytes = (1 + below(w, chance(w, 0.8) ? 24 : 90)) * GIB;
    if (manner >= 7)
        want.share = chance(w, 0.1) ? DAG_SHARE_WHOLE : 100 + below(w, 600);
    if (chance(w, 0.2))
        want.place = 1 + below(w, 2);
    return want;
}

static void devices_draw(struct world *w, struct dag_device *devices, uint32_t n, uint32_t n_hosts)
{
    bool has_memory = chance(w, 0.85), is_uniform = chance(w, 0.5), all_up = chance(w, 0.8);
    uint64_t mem_bytes = memory_draw(w);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t own_bytes = is_uniform ? mem_bytes : memory_draw(w);
        devices[i] = (struct dag_device){
            .host = below(w, n_hosts),
            .mem_bytes = has_memory && !chance(w, 0.03) ? own_bytes : 0,
            .is_up = all_up || chance(w, 0.7),
        };
    }
}

static struct dag_config config_draw(struct world *w)
{
    return (struct dag_config){
        .age_ms = chance(w, 0.5) ? 1 + below(w, 1000) : 100000,
        .patience_ms = 50 + below(w, chance(w, 0.5) ? 500 : 5000),
        .n_running_max = chance(w, 0.15) ? 1 + below(w, 5) : 0,
        .strikes = 1 + below(w, 3),
        .keeps_going = chance(w, 0.9),
    };
}

static void dag_begin(struct world *w, uint64_t seed)
{
    static uint8_t distance[WORLD_DEVICES * WORLD_DEVICES];
    struct dag_device devices[WORLD_DEVICES];
    uint32_t cpus[WORLD_HOSTS];
    struct dag_config config = config_draw(w);
    config.devices = devices;
    config.host_cpus = cpus;
    if (w->is_stream)
        config.patience_ms = 50 + below(w, 100);
    config.n_hosts = chance(w, 0.5) || w->is_stream ? 1 : 1 + below(w, WORLD_HOSTS);
    config.n_devices = w->is_stream ? 2 + below(w, 2) : chance(w, 0.1) ? 0 : 1 + below(w, 8);
    config.n_devices_max = w->n_devices_max = config.n_devices + (chance(w, 0.2) ? below(w, 4) : 0);
    for (uint32_t i = 0; i < config.n_hosts; i++)
        cpus[i] = w->is_stream ? 64 : 1 + below(w, 16);
    for (uint32_t i = 0; i < countof(distance); i++)
        distance[i] = (uint8_t)below(w, 4);
    config.distance = chance(w, 0.5) ? distance : NULL;
    devices_draw(w, devices, config.n_devices, config.n_hosts);
    for (uint32_t i = 0; w->is_stream && i < config.n_devices; i++)
        devices[i] = (struct dag_device){.host = 0, .mem_bytes = 80 * GIB, .is_up = true};
    oracle_init(&w->oracle, &config, seed);
    w->dag = dag_new(&config);
    ASSERT(w->dag);
    for (uint32_t place = 1; place <= 2; place++)
        for (uint32_t host = 0; host < WORLD_HOSTS; host++)
            if (chance(w, 0.7)) {
                w->oracle.is_allowed[place][host] = true;
                dag_allow(w->dag, place, host);
            }
}

static void job_give(struct world *w, const struct dag_job *job)
{
    oracle_add(&w->oracle, job);
    uint32_t number = dag_add(w->dag, job);
    if (number + 1 != w->oracle.n_jobs)
        oracle_found(&w->oracle, FOUND_UNSAFE, "a new job has the number %u", number);
}

static void job_draw(struct world *w)
{
    uint32_t n = w->oracle.n_jobs, needs[WORLD_NEEDS];
    struct dag_job job = {
        .want = w->wants[below(w, KINDS)],
        .priority = chance(w, 0.2) ? (int32_t)below(w, 7) - 3 : 0,
        .n_retries = below(w, 3),
        .n_batch_steps = chance(w, 0.5) ? 1 + below(w, 3) : 0,
        .expected_ms = chance(w, w->rates.knows_times) ? span_ms(w, w->rates.run_ms) : 0,
        .is_done = n < 8 && chance(w, 0.03),
        .is_held = chance(w, 0.04),
        .needs = needs,
    };
    uint32_t n_needs_max = chance(w, 0.8) ? 2 : WORLD_NEEDS;
    uint32_t n_needs = n == 0 || chance(w, 0.5) ? 0 : 1 + below(w, MIN(n, n_needs_max));
    bool is_near = chance(w, 0.5);
    for (; job.n_needs < n_needs; job.n_needs++)
        needs[job.n_needs] = is_near ? n - 1 - below(w, MIN(n, 5u)) : below(w, n);
    job_give(w, &job);
}

static void stream_fill(struct world *w)
{
    uint32_t n_ready = 0, n = w->oracle.n_jobs;
    for (uint32_t i = 0; i < n; i++)
        n_ready += w->oracle.jobs[i].state == DAG_READY || w->oracle.jobs[i].is_new;
    for (; n_ready < STREAM_READY && w->oracle.n_jobs < WORLD_JOBS; n_ready++)
        job_give(w,
                 &(struct dag_job){
                     .want = w->wants[0],
                     .expected_ms = chance(w, w->rates.knows_times) ? span_ms(w, STREAM_RUN_MS) : 0,
                 });
}

/* Small jobs, of which there will always be more. */
static void stream_draw(struct world *w)
{
    w->rates = (struct rates){.knows_times = w->rates.knows_times,
                              .run_ms = STREAM_RUN_MS,
                              .device_up_ms = NEVER,
                              .host_up_ms = NEVER,
                              .add_ms = NEVER,
                              .user_ms = NEVER};
    w->wants[0] = (struct dag_want){.n_devices_min = 1, .n_devices_max = 1, .share = 500};
    stream_fill(w);
    stream_fill(w);
}

/* The small ones run: now a large one comes. It must start after the jobs before it, its patience, and what then runs. */
static void large_add(struct world *w)
{
    uint32_t n = w->oracle.n_devices, n_wanted = chance(w, 0.5) ? n : 1 + below(w, n);
    bool is_known = chance(w, w->rates.knows_times);
    w->large = w->oracle.n_jobs;
    w->large_by_ms = w->now_ms + 6 * w->oracle.config.patience_ms + 6ull * STREAM_RUN_MS;
    job_give(w, &(struct dag_job){
                    .want = {.n_devices_min = n_wanted, .n_devices_max = n_wanted},
                    .expected_ms = is_known ? STREAM_RUN_MS : 0,
                });
}

static void world_draw(struct world *w, uint64_t seed)
{
    w->rng.state = mix64(seed);
    w->is_stream = seed % 8 == 0;
    w->rates = rates_draw(w);
    w->now_ms = below(w, 2) * 100000;
    dag_begin(w, seed);
    for (uint32_t i = 0; i < KINDS; i++)
        w->wants[i] = want_draw(w);
    if (w->is_stream)
        stream_draw(w);
    for (uint32_t i = 0; i < WORLD_DEVICES; i++)
        w->device_ms[i] = i < w->oracle.n_devices ? soon_ms(w, w->rates.device_up_ms) : NEVER;
    for (uint32_t i = 0; i < WORLD_HOSTS; i++)
        w->host_ms[i] = i < w->oracle.n_hosts ? soon_ms(w, w->rates.host_up_ms) : NEVER;
    w->calm_ms = w->is_stream ? NEVER : w->now_ms + 100 + below(w, 6000);
    w->stop_ms = !w->is_stream && chance(w, 0.1) ? w->now_ms + below(w, 3000) : NEVER;
    w->await_ms = !w->is_stream && chance(w, 0.1) ? w->now_ms : NEVER;
    w->new_device_ms = w->oracle.n_devices < w->n_devices_max && !w->is_stream
                           ? w->now_ms + below(w, 2000)
                           : NEVER;
    w->add_ms = soon_ms(w, w->rates.add_ms);
    w->user_ms = soon_ms(w, w->rates.user_ms);
    w->tick_ms = w->now_ms;
    w->n_jobs_max = 1 + below(w, chance(w, 0.8) ? 40 : 120);
    for (uint32_t n = w->is_stream ? 0 : w->n_jobs_max - below(w, w->n_jobs_max / 2 + 1); n > 0;
         n--)
        job_draw(w);
}

/* ---- what the dag does to the world ---- */

static enum dag_end end_draw(struct world *w)
{
    for (uint32_t i = DEND_FAILED; i <= DEND_ENDED; i++)
        if (!w->is_calm && chance(w, w->rates.end[i]))
            return (enum dag_end)i;
    return DEND_WELL;
}

static void job_begin(struct world *w, uint32_t job)
{
    uint64_t expected_ms = w->oracle.jobs[job].given.expected_ms;
    uint64_t run_ms = span_ms(w, w->rates.run_ms);
    if (w->is_stream)
        run_ms = STREAM_RUN_MS / 2 + below(w, STREAM_RUN_MS / 2);
    else if (expected_ms > 0 && chance(w, 0.6))
        run_ms = expected_ms;
    w->exit_ms[job] = w->now_ms + run_ms;
    w->end[job] = end_draw(w);
}

static void job_end(struct world *w, uint32_t job)
{
    uint64_t at_ms = w->now_ms + below(w, GRACE_MAX_MS);
    if (at_ms >= w->exit_ms[job])
        return;
    w->exit_ms[job] = at_ms;
    w->end[job] = chance(w, 0.8) ? DEND_ENDED : (enum dag_end)below(w, DEND_ENDED);
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
    if (w->tick_ms != NEVER && !w->is_calm && chance(w, w->rates.late_tick))
        w->tick_ms += below(w, 300);
}

/* ---- facts ---- */

static void job_exits(struct world *w, uint32_t job)
{
    const struct oracle_job *j = &w->oracle.jobs[job];
    uint32_t device =
        j->n_devices > 0 && chance(w, 0.8) ? j->devices[below(w, j->n_devices)] : UINT32_MAX;
    w->exit_ms[job] = NEVER;
    tell(w,
         (struct dag_event){.kind = DEV_ENDED, .job = job, .end = w->end[job], .device = device});
}

static void device_toggles(struct world *w, uint32_t device)
{
    bool was_up = w->oracle.devices[device].given.is_up;
    bool stays_away = was_up && !w->is_calm && chance(w, w->rates.gone_for_good);
    w->device_ms[device] = w->is_calm || stays_away ? NEVER
                           : was_up ? w->now_ms + span_ms(w, w->rates.device_down_ms)
                                    : soon_ms(w, w->rates.device_up_ms);
    for (uint32_t i = 0; was_up && i < w->oracle.n_jobs; i++)
        for (uint32_t k = 0; oracle_runs(&w->oracle, i) && k < w->oracle.jobs[i].n_devices; k++)
            if (w->oracle.jobs[i].devices[k] == device) {
                w->exit_ms[i] = MIN(w->exit_ms[i], w->now_ms + below(w, 100));
                w->end[i] = chance(w, 0.5) ? DEND_LOST : DEND_ILL;
            }
    tell(w, (struct dag_event){.kind = was_up ? DEV_DEVICE_DOWN : DEV_DEVICE_UP, .device = device});
}

static void host_toggles(struct world *w, uint32_t host)
{
    bool was_up = w->oracle.host_is_up[host];
    w->host_ms[host] = w->is_calm ? NEVER
                       : was_up   ? w->now_ms + span_ms(w, w->rates.device_down_ms)
                                  : soon_ms(w, w->rates.host_up_ms);
    for (uint32_t i = 0; was_up && i < w->oracle.n_jobs; i++)
        if (oracle_runs(&w->oracle, i) && w->oracle.jobs[i].host == host) {
            w->exit_ms[i] = MIN(w->exit_ms[i], w->now_ms + below(w, 100));
            w->end[i] = DEND_LOST;
        }
    tell(w, (struct dag_event){.kind = was_up ? DEV_HOST_DOWN : DEV_HOST_UP, .device = host});
}

static void device_is_new(struct world *w, uint32_t index)
{
    (void)index;
    uint32_t host = below(w, MIN(w->oracle.n_hosts + 1, (uint32_t)WORLD_HOSTS));
    struct dag_device device = {.host = host, .mem_bytes = memory_draw(w)};
    uint32_t n_cpus = 1 + below(w, 8), number = w->oracle.n_devices;
    oracle_add_device(&w->oracle, &device, n_cpus);
    if (dag_add_device(w->dag, &device, n_cpus) != number)
        oracle_found(&w->oracle, FOUND_UNSAFE, "device %u has another number", number);
    w->device_ms[number] = w->now_ms + below(w, 300);
    w->new_device_ms = w->oracle.n_devices < w->n_devices_max ? w->now_ms + below(w, 2000) : NEVER;
}

static void jobs_are_added(struct world *w, uint32_t index)
{
    (void)index;
    w->add_ms = soon_ms(w, w->rates.add_ms);
    for (uint32_t n = 1 + below(w, 3); n > 0 && w->oracle.n_jobs < w->n_jobs_max; n--)
        job_draw(w);
    tell(w, (struct dag_event){.kind = DEV_TICK});
}

/* Somebody looks at a job. */
static void user_acts(struct world *w, uint32_t index)
{
    (void)index;
    static const enum dag_event_kind kinds[] = {DEV_HOLD,    DEV_HOLD,   DEV_RELEASE, DEV_RELEASE,
                                                DEV_RELEASE, DEV_CANCEL, DEV_RETRY,   DEV_RETRY};
    w->user_ms = soon_ms(w, w->rates.user_ms);
    if (w->oracle.n_jobs == 0)
        return;
    uint32_t job = below(w, w->oracle.n_jobs);
    if (!chance(w, 0.3)) {
        tell(w, (struct dag_event){.kind = kinds[below(w, countof(kinds))], .job = job});
        return;
    }
    uint64_t expected_ms = chance(w, 0.7) ? span_ms(w, w->rates.run_ms) : 0;
    bool has_memory = w->oracle.jobs[job].given.want.mem_bytes > 0 && chance(w, 0.5);
    uint64_t mem_bytes = has_memory ? (1 + below(w, 40)) * GIB : 0;
    oracle_expect(&w->oracle, job, expected_ms, mem_bytes);
    dag_expect(w->dag, job, expected_ms, mem_bytes);
    tell(w, (struct dag_event){.kind = DEV_TICK});
}

static void await_toggles(struct world *w, uint32_t index)
{
    (void)index;
    bool flag = !w->oracle.is_awaiting;
    w->await_ms = flag ? w->now_ms + below(w, 3000) : NEVER;
    tell(w, (struct dag_event){.kind = DEV_AWAIT, .flag = flag});
}

static void stop_is_told(struct world *w, uint32_t index)
{
    (void)index;
    w->stop_ms = chance(w, 0.5) ? w->now_ms + below(w, GRACE_MAX_MS) : NEVER;
    tell(w, (struct dag_event){.kind = DEV_STOP, .flag = chance(w, 0.4)});
}

static void time_passes(struct world *w, uint32_t index)
{
    (void)index;
    tell(w, (struct dag_event){.kind = DEV_TICK});
}

/* Something that is known already, or makes no sense. */
static struct dag_event noise_draw(struct world *w)
{
    uint32_t job = below(w, w->oracle.n_jobs), device = below(w, w->oracle.n_devices);
    uint32_t host = below(w, w->oracle.n_hosts);
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
         .end = (enum dag_end)below(w, DEND_ENDED + 1)},
    };
    return events[below(w, countof(events))];
}

/* From now on devices stay, or come back, jobs end well, and nobody is held. */
static void calm_begins(struct world *w, uint32_t index)
{
    (void)index;
    w->is_calm = true;
    w->calm_ms = w->stop_ms = w->add_ms = w->user_ms = w->new_device_ms = NEVER;
    w->await_ms = w->oracle.is_awaiting ? w->now_ms + below(w, 300) : NEVER;
    for (uint32_t i = 0; i < w->oracle.n_devices; i++)
        w->device_ms[i] = w->oracle.devices[i].given.is_up ? NEVER : w->now_ms + below(w, 300);
    for (uint32_t i = 0; i < w->oracle.n_hosts; i++)
        w->host_ms[i] = w->oracle.host_is_up[i] ? NEVER : w->now_ms + below(w, 300);
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
    bool is_chosen = below(w, next->n_equal) == 0;
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
        large_add(w);
    const struct oracle_job *large = &w->oracle.jobs[w->large];
    bool waits = large->is_new || large->state == DAG_READY;
    if (waits && w->now_ms > w->large_by_ms)
        oracle_found(&w->oracle, FOUND_STUCK, "the large job does not get its devices");
    if (waits)
        stream_fill(w);
    else
        calm_begins(w, 0);
}

static void world_step(struct world *w)
{
    if (w->is_stream)
        stream_judge(w);
    if (!w->is_calm && chance(w, w->rates.noise)) {
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
        w->now_ms += below(w, 1000);
        tell(w, noise_draw(w));
    }
    if (w->oracle.n_jobs < WORLD_JOBS)
        job_draw(w);
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
