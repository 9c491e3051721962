/* SPDX-License-Identifier: Apache-2.0
 *
 * The world in which the simulator plays a dag: what the seed decides, and what is drawn on the
 * way.
 */
#pragma once

#include "base/rng.h"
#include "sim/dag_oracle.h"

#define NEVER UINT64_MAX
#define GIB   (1ull << 30)

enum {
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

/* A world at its beginning. `*world` is all zero but for `trace` and `large`. */
void world_draw(struct world *world, uint64_t seed);
bool world_chance(struct world *world, double p);
/* Below `bound`; 0 if that is 0. */
uint32_t world_below(struct world *world, uint64_t bound);
/* Around a mean. */
uint64_t world_span_ms(struct world *world, uint64_t mean_ms);
/* A time to come; never if `mean_ms` is that. */
uint64_t world_soon_ms(struct world *world, uint64_t mean_ms);
uint64_t world_memory_draw(struct world *world);
/* One more job. */
void world_job_draw(struct world *world);
/* In a stream: the large job; small ones, so that some always wait. */
void world_large_add(struct world *world);
void world_stream_fill(struct world *world);
