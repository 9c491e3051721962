/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/dag_world.h"

#include <string.h>

bool world_chance(struct world *w, double p)
{
    return p > 0 && rng_unit(&w->rng) < p;
}

uint32_t world_below(struct world *w, uint64_t bound)
{
    return bound > 0 ? (uint32_t)rng_below(&w->rng, bound) : 0;
}

static double some(struct world *w, double share_of_worlds, double rate)
{
    return world_chance(w, share_of_worlds) ? rate * rng_unit(&w->rng) : 0;
}

/* Around a mean. */
uint64_t world_span_ms(struct world *w, uint64_t mean_ms)
{
    return 1 + world_below(w, 2 * mean_ms);
}

uint64_t world_soon_ms(struct world *w, uint64_t mean_ms)
{
    return mean_ms == NEVER ? NEVER : w->now_ms + world_span_ms(w, mean_ms);
}

/* ---- what the seed decides beforehand ---- */

static struct rates rates_draw(struct world *w)
{
    struct rates rates = {
        .noise = some(w, 0.3, 0.2),
        .late_tick = some(w, 0.4, 0.5),
        .gone_for_good = some(w, 0.2, 0.3),
        .knows_times = world_chance(w, 0.3)   ? 0
                       : world_chance(w, 0.5) ? 1
                                              : rng_unit(&w->rng),
        .device_up_ms = world_chance(w, 0.3) ? 200 + world_below(w, 3000) : NEVER,
        .device_down_ms = 1 + world_below(w, 800),
        .host_up_ms = world_chance(w, 0.2) ? 500 + world_below(w, 5000) : NEVER,
        .add_ms = world_chance(w, 0.4) ? 20 + world_below(w, 500) : NEVER,
        .user_ms = world_chance(w, 0.4) ? 20 + world_below(w, 500) : NEVER,
        .run_ms = 1 + world_below(w, 500),
    };
    for (uint32_t i = DEND_FAILED; i < countof(rates.end); i++)
        rates.end[i] = some(w, 0.35, i == DEND_FATAL ? 0.1 : 0.3);
    rates.end[DEND_ENDED] = some(w, 0.05, 0.2);
    if (world_chance(w, 0.05)) /* jobs are lost more often than they may be */
        rates.end[world_chance(w, 0.5) ? DEND_LOST : DEND_ILL] = 0.97;
    if (world_chance(w, 0.05))
        rates.end[DEND_OOM] = 0.8;
    return rates;
}

uint64_t world_memory_draw(struct world *w)
{
    static const uint64_t sizes[] = {16 * GIB, 24 * GIB, 40 * GIB, 80 * GIB};
    return sizes[world_below(w, countof(sizes))];
}

static struct dag_want want_draw(struct world *w)
{
    struct dag_want want = {.n_cpus = world_chance(w, 0.7) ? world_below(w, 5) : 0};
    uint32_t manner = world_below(w, 10);
    if (manner == 0)
        return want;
    want.n_devices_min = world_chance(w, 0.75) ? 1 : 1 + world_below(w, 3);
    want.n_devices_max = want.n_devices_min + (world_chance(w, 0.2) ? world_below(w, 4) : 0);
    if (world_chance(w, 0.03))
        want.n_devices_min = 0;
    if (manner >= 4 && manner != 9)
        want.mem_bytes = (1 + world_below(w, world_chance(w, 0.8) ? 24 : 90)) * GIB;
    if (manner >= 7)
        want.share = world_chance(w, 0.1) ? DAG_SHARE_WHOLE : 100 + world_below(w, 600);
    if (world_chance(w, 0.2))
        want.place = 1 + world_below(w, 2);
    return want;
}

static void devices_draw(struct world *w, struct dag_device *devices, uint32_t n, uint32_t n_hosts)
{
    bool has_memory = world_chance(w, 0.85), is_uniform = world_chance(w, 0.5),
         all_up = world_chance(w, 0.8);
    uint64_t mem_bytes = world_memory_draw(w);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t own_bytes = is_uniform ? mem_bytes : world_memory_draw(w);
        devices[i] = (struct dag_device){
            .host = world_below(w, n_hosts),
            .mem_bytes = has_memory && !world_chance(w, 0.03) ? own_bytes : 0,
            .is_up = all_up || world_chance(w, 0.7),
        };
    }
}

static struct dag_config config_draw(struct world *w)
{
    return (struct dag_config){
        .age_ms = world_chance(w, 0.5) ? 1 + world_below(w, 1000) : 100000,
        .patience_ms = 50 + world_below(w, world_chance(w, 0.5) ? 500 : 5000),
        .n_running_max = world_chance(w, 0.15) ? 1 + world_below(w, 5) : 0,
        .strikes = 1 + world_below(w, 3),
        .keeps_going = world_chance(w, 0.9),
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
        config.patience_ms = 50 + world_below(w, 100);
    config.n_hosts = world_chance(w, 0.5) || w->is_stream ? 1 : 1 + world_below(w, WORLD_HOSTS);
    config.n_devices = w->is_stream           ? 2 + world_below(w, 2)
                       : world_chance(w, 0.1) ? 0
                                              : 1 + world_below(w, 8);
    config.n_devices_max = w->n_devices_max =
        config.n_devices + (world_chance(w, 0.2) ? world_below(w, 4) : 0);
    for (uint32_t i = 0; i < config.n_hosts; i++)
        cpus[i] = w->is_stream ? 64 : 1 + world_below(w, 16);
    for (uint32_t i = 0; i < countof(distance); i++)
        distance[i] = (uint8_t)world_below(w, 4);
    config.distance = world_chance(w, 0.5) ? distance : NULL;
    devices_draw(w, devices, config.n_devices, config.n_hosts);
    for (uint32_t i = 0; w->is_stream && i < config.n_devices; i++)
        devices[i] = (struct dag_device){.host = 0, .mem_bytes = 80 * GIB, .is_up = true};
    oracle_init(&w->oracle, &config, seed);
    w->dag = dag_new(&config);
    ASSERT(w->dag);
    for (uint32_t place = 1; place <= 2; place++)
        for (uint32_t host = 0; host < WORLD_HOSTS; host++)
            if (world_chance(w, 0.7)) {
                w->oracle.is_allowed[place][host] = true;
                dag_allow(w->dag, place, host);
            }
    for (uint32_t device = 0; device < WORLD_DEVICES; device++)
        if (world_chance(w, 0.2)) {
            w->oracle.is_denied[2][device] = true;
            dag_deny_device(w->dag, 2, device);
        }
}

static void job_give(struct world *w, const struct dag_job *job)
{
    oracle_add(&w->oracle, job);
    uint32_t number = dag_add(w->dag, job);
    if (number + 1 != w->oracle.n_jobs)
        oracle_found(&w->oracle, FOUND_UNSAFE, "a new job has the number %u", number);
}

void world_job_draw(struct world *w)
{
    uint32_t n = w->oracle.n_jobs, needs[WORLD_NEEDS];
    struct dag_job job = {
        .want = w->wants[world_below(w, KINDS)],
        .priority = world_chance(w, 0.2) ? (int32_t)world_below(w, 7) - 3 : 0,
        .n_retries = world_below(w, 3),
        .n_batch_steps = world_chance(w, 0.5) ? 1 + world_below(w, 3) : 0,
        .expected_ms =
            world_chance(w, w->rates.knows_times) ? world_span_ms(w, w->rates.run_ms) : 0,
        .is_done = n < 8 && world_chance(w, 0.03),
        .is_held = world_chance(w, 0.04),
        .needs = needs,
    };
    uint32_t n_needs_max = world_chance(w, 0.8) ? 2 : WORLD_NEEDS;
    uint32_t n_needs = n == 0 || world_chance(w, 0.5) ? 0 : 1 + world_below(w, MIN(n, n_needs_max));
    bool is_near = world_chance(w, 0.5);
    for (; job.n_needs < n_needs; job.n_needs++)
        needs[job.n_needs] = is_near ? n - 1 - world_below(w, MIN(n, 5u)) : world_below(w, n);
    job_give(w, &job);
}

void world_stream_fill(struct world *w)
{
    uint32_t n_ready = 0, n = w->oracle.n_jobs;
    for (uint32_t i = 0; i < n; i++)
        n_ready += w->oracle.jobs[i].state == DAG_READY || w->oracle.jobs[i].is_new;
    for (; n_ready < STREAM_READY && w->oracle.n_jobs < WORLD_JOBS; n_ready++)
        job_give(w, &(struct dag_job){
                        .want = w->wants[0],
                        .expected_ms = world_chance(w, w->rates.knows_times)
                                           ? world_span_ms(w, STREAM_RUN_MS)
                                           : 0,
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
    world_stream_fill(w);
    world_stream_fill(w);
}

/*
 * The small ones run: now a large one comes. It must start after the jobs before it, its patience,
 * and what then runs.
 */
void world_large_add(struct world *w)
{
    uint32_t n = w->oracle.n_devices, n_wanted = world_chance(w, 0.5) ? n : 1 + world_below(w, n);
    bool is_known = world_chance(w, w->rates.knows_times);
    w->large = w->oracle.n_jobs;
    w->large_by_ms = w->now_ms + 6 * w->oracle.config.patience_ms + 6ull * STREAM_RUN_MS;
    job_give(w, &(struct dag_job){
                    .want = {.n_devices_min = n_wanted, .n_devices_max = n_wanted},
                    .expected_ms = is_known ? STREAM_RUN_MS : 0,
                });
}

void world_draw(struct world *w, uint64_t seed)
{
    w->rng.state = mix64(seed);
    w->is_stream = seed % 8 == 0;
    w->rates = rates_draw(w);
    w->now_ms = world_below(w, 2) * 100000;
    dag_begin(w, seed);
    for (uint32_t i = 0; i < KINDS; i++)
        w->wants[i] = want_draw(w);
    if (w->is_stream)
        stream_draw(w);
    for (uint32_t i = 0; i < WORLD_DEVICES; i++)
        w->device_ms[i] = i < w->oracle.n_devices ? world_soon_ms(w, w->rates.device_up_ms) : NEVER;
    for (uint32_t i = 0; i < WORLD_HOSTS; i++)
        w->host_ms[i] = i < w->oracle.n_hosts ? world_soon_ms(w, w->rates.host_up_ms) : NEVER;
    w->calm_ms = w->is_stream ? NEVER : w->now_ms + 100 + world_below(w, 6000);
    w->stop_ms = !w->is_stream && world_chance(w, 0.1) ? w->now_ms + world_below(w, 3000) : NEVER;
    w->await_ms = !w->is_stream && world_chance(w, 0.1) ? w->now_ms : NEVER;
    w->new_device_ms = w->oracle.n_devices < w->n_devices_max && !w->is_stream
                           ? w->now_ms + world_below(w, 2000)
                           : NEVER;
    w->add_ms = world_soon_ms(w, w->rates.add_ms);
    w->user_ms = world_soon_ms(w, w->rates.user_ms);
    w->tick_ms = w->now_ms;
    w->n_jobs_max = 1 + world_below(w, world_chance(w, 0.8) ? 40 : 120);
    for (uint32_t n = w->is_stream ? 0 : w->n_jobs_max - world_below(w, w->n_jobs_max / 2 + 1);
         n > 0; n--)
        world_job_draw(w);
}
