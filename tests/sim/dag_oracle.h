/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges a dag from outside. It keeps the facts that the dag was told, works out anew after each
 * event what state every job must have, and compares. Which jobs start is the dag's choice: each
 * start is looked at by adding up what all that runs takes, and after a step nothing may be left
 * that could have started.
 */
#pragma once

#include "base/attr.h"
#include "core/dag.h"

enum {
    WORLD_JOBS = 128,
    WORLD_NEEDS = 6,
    WORLD_DEVICES = 12,
    WORLD_HOSTS = 4,
    WORLD_LOST_MAX = 20 /* ends that are not counted */
};

/* How a run of the simulator ends; also its exit status. */
enum {
    FOUND_NOTHING = 0,
    FOUND_STUCK = 128,
    FOUND_UNSAFE = 129,
    FOUND_DIFFERENT = 130
};

struct oracle_job {
    struct dag_job given; /* needs: below */
    uint32_t needs[WORLD_NEEDS];
    enum dag_state state;
    bool is_held, is_cancelled, is_again, is_new;
    bool is_ill_on[WORLD_DEVICES]; /* it was ill there */
    bool was_ill;                  /* also where the device was benched by then */
    uint32_t n_attempts, n_failures, n_lost, n_halvings;
    enum dag_oom_step oom_step;
    uint64_t floor_bytes; /* of the device where it ran out of memory */
    uint64_t ready_ms, path_ms, started_ms;
    uint32_t host, n_devices, devices[WORLD_DEVICES];
    bool must_settle; /* in this step */
};

struct oracle_device {
    struct dag_device given; /* is_up: now */
    bool is_benched, must_bench;
    uint32_t n_strikes;
};

struct oracle {
    struct dag_config config; /* without pointers, with defaults */
    uint64_t seed, n_steps, now_ms;
    struct oracle_job jobs[WORLD_JOBS];
    uint32_t n_jobs;
    struct oracle_device devices[WORLD_DEVICES];
    uint32_t n_devices, n_hosts;
    uint32_t host_cpus[WORLD_HOSTS];
    bool host_is_up[WORLD_HOSTS];
    bool is_allowed[DAG_PLACES_MAX][WORLD_HOSTS];
    bool is_denied[DAG_PLACES_MAX][WORLD_DEVICES];
    bool is_awaiting, is_stopped, is_over, must_end[WORLD_JOBS];
    uint64_t head_ms; /* when it became the head that is there */
    uint32_t head;
    uint64_t forecast_ms[WORLD_JOBS]; /* before the starts of this step */
};

void oracle_init(struct oracle *oracle, const struct dag_config *config, uint64_t seed);
void oracle_add(struct oracle *oracle, const struct dag_job *job);
void oracle_add_device(struct oracle *oracle, const struct dag_device *device, uint32_t n_cpus);
void oracle_expect(struct oracle *oracle, uint32_t job, uint64_t expected_ms, uint64_t mem_bytes);
void oracle_move(struct oracle *oracle, uint32_t job, uint32_t place);
/* Before dag_step, after each of its actions, and when all have been told. */
void oracle_event(struct oracle *oracle, const struct dag_event *event);
void oracle_action(struct oracle *oracle, const struct dag *dag, const struct dag_action *action);
void oracle_settle(struct oracle *oracle, const struct dag *dag);

bool oracle_is_bad(enum dag_state state);
uint32_t oracle_needs_left(const struct oracle *oracle, const struct oracle_job *job);
bool oracle_has_bad_need(const struct oracle *oracle, const struct oracle_job *job);
bool oracle_runs(const struct oracle *oracle, uint32_t job);
uint32_t oracle_n_running(const struct oracle *oracle);
/* Says what was found, and ends the program. */
NORETURN void oracle_found(const struct oracle *oracle, int what, const char *fmt, ...)
    PRINTF(3, 4);
