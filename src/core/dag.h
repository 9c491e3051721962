/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that need each other, and devices for them: which job starts when and where, what the end of a job means for
 * it and for the jobs that need it, and when the run is over.
 *
 * A job is ready when all jobs that it needs are done. Ready jobs are ordered by urgency: priority * age_ms + path_ms -
 * ready_ms, where path_ms is the longest time of a chain of jobs from this one to an end. All wait at the same rate, so the
 * order of two jobs does not change while they wait, and none waits without end behind later ones.
 *
 * The most urgent ready job that does not fit is the head. Less urgent jobs start before the head (backfill), as long
 * as that does not make it later by what is known of times; after patience_ms of waiting, devices for it are kept free.
 *
 * Pure: it makes no system call and has no clock. dag_new, dag_add and dag_near allocate, and so do dag_expect and
 * dag_move if what the job wants is new; dag_step does not. Events go in by dag_step, actions come out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

enum {
    DAG_DEVICES_MAX = 1024,
    DAG_HOSTS_MAX = 256,
    DAG_JOB_DEVICES_MAX = 64, /* of one job */
    DAG_SHARE_WHOLE = 1000,
    DAG_PLACES_MAX = 256,
    DAG_PRIORITY_MAX = 1000,
    DAG_UNKNOWN_MS =
        60000 /* the time that is assumed for a job if no job's time is known; else their mean */
};
#define DAG_NO_JOB UINT32_MAX

struct dag_device {
    uint32_t host;      /* below DAG_HOSTS_MAX */
    uint64_t mem_bytes; /* 0: no memory of its own, or not known */
    bool is_up;         /* at the beginning; DEV_DEVICE_UP and DEV_DEVICE_DOWN change it */
};

struct dag_config {
    const struct dag_device *devices; /* borrowed during dag_new */
    uint32_t n_devices,
        n_devices_max; /* n_devices_max: with those that dag_add_device adds; 0: n_devices */
    /* [n_devices * n_devices], smaller is nearer; NULL: all are equally near on one host. Borrowed during dag_new. */
    const uint8_t *distance;
    const uint32_t *host_cpus; /* [n_hosts] */
    uint32_t n_hosts;
    uint64_t age_ms;        /* the waiting time that is worth one step of priority; 0: 15 minutes */
    uint64_t patience_ms;   /* 0: 5 minutes */
    uint32_t n_running_max; /* jobs at a time; 0: no limit */
    uint32_t
        strikes; /* a device that so many different jobs found ill is not used any more; 0: 2 */
    bool keeps_going; /* false: after the first job that fails for good, no job starts (--halt) */
};

/* What a job needs to run. All its devices are on one host. */
struct dag_want {
    uint32_t n_devices_min,
        n_devices_max; /* 0, 0: CPUs alone. It gets as many as are free when it starts, up to max */
    uint32_t share;    /* of each device, per mille; 0: DAG_SHARE_WHOLE */
    uint64_t mem_bytes; /*
 * of each device, reserved; 0: not counted. With share 0, other jobs that reserve memory may share the device, up to
 * its memory; both 0: the device for itself
 */
    uint32_t n_cpus;    /* of the host; if no host has as many: DAG_UNFIT */
    uint32_t place; /* which hosts and devices it may use (dag_allow, dag_deny_device); 0: all */
};

struct dag_job {
    struct dag_want want;
    int32_t priority;       /* larger is more urgent; within ±DAG_PRIORITY_MAX */
    uint32_t n_retries;     /* after ends that are the job's own */
    uint32_t n_batch_steps; /* so often its batch can be halved; 0: it has none */
    uint32_t n_halvings;    /* it was halved so often in an earlier session, and is so at first */
    uint64_t expected_ms;   /* 0: unknown */
    bool is_done;           /* by an earlier session */
    bool is_held;
    const uint32_t *needs; /* jobs that were added before; borrowed during dag_add */
    uint32_t n_needs;
};

enum dag_state {
    DAG_WAITS, /* for a job that it needs */
    DAG_READY, /* for devices */
    DAG_RUNS,
    DAG_ENDS, /* it is being ended */
    DAG_DONE,
    DAG_FAILED,  /* for good */
    DAG_BLOCKED, /* a job that it needs has failed for good, was cancelled, or is blocked itself */
    DAG_CANCELLED,
    DAG_UNFIT, /* no device that is there, or may come, could run it */
    DAG_STATES
};

/* How a job ended, as the shell judges it. */
#define DAG_ENDS_OF_JOBS(X)                                                                          \
    X(WELL)   /* and its outs are there */                                                           \
    X(FAILED) /* by itself: tried again while it has retries */                                      \
    X(FATAL)  /* its command cannot work: not tried again */                                         \
    X(OOM)    /* of device memory: tried again alone, on a larger device, with a smaller batch */    \
    X(ILL)    /* a device is ill: tried again elsewhere, and not counted */                          \
    X(LOST)   /* not its own fault (preempted, host lost): tried again, and not counted */           \
    X(ABSENT) /* its command is not on this host: tried again where dag_move lets it, not counted */ \
    X(ENDED) /* because of DACT_END */

enum dag_end {
#define X(kind) DEND_##kind,
    DAG_ENDS_OF_JOBS(X)
#undef X
};

#define DAG_EVENTS(X)                                                                                                         \
    X(TICK)        /* time has passed */                                                                                      \
    X(ENDED)       /* `job` is gone, with all its descendants: `end`; `mem_bytes`: its peak on a device, 0: unknown */        \
    X(DEVICE_UP)   /* `device` can be used (again) */                                                                         \
    X(DEVICE_DOWN) /* `device` cannot be used; the end of its jobs comes as DEV_ENDED */                                      \
    X(HOLD)        /* `job` is not started until DEV_RELEASE */                                                               \
    X(RELEASE)                                                                                                                \
    X(CANCEL) /* `job` is given up; if it runs, DACT_END */                                                                   \
    X(RETRY) /* `job`, which has failed for good or was cancelled, is tried again, with all its retries, when it has ended */ \
    X(HOST_UP) /* `device` is the number of a host: it is there (again); all are at the beginning */                          \
    X(HOST_DOWN) /* the same: nothing starts there, on devices or without; the end of its jobs comes as DEV_ENDED */          \
    X(AWAIT)     /* `flag`: further devices may come; no job is DAG_UNFIT meanwhile */                                        \
    X(STOP)      /* nothing new is started; flag: and what runs is ended */

enum dag_event_kind {
#define X(kind) DEV_##kind,
    DAG_EVENTS(X)
#undef X
};

/* Facts that come late or twice change nothing. */
struct dag_event {
    enum dag_event_kind kind;
    uint64_t now_ms; /* monotonic; never smaller than in the previous event */
    uint32_t job, device;
    enum dag_end end;
    uint64_t mem_bytes;
    bool flag;
};

#define DAG_ACTIONS(X)                                                                                              \
    X(START)   /* `job`, on the devices of dag_placement() */                                                       \
    X(END)     /* `job`; its end comes as DEV_ENDED */                                                              \
    X(SETTLED) /* `job` has a final state: DAG_DONE, FAILED, CANCELLED, UNFIT. Jobs that become blocked, or       \
                * unblocked, are not told */ \
    X(BENCH)   /* `device` is not used any more: too many jobs found it ill */                                      \
    X(OVER) /* nothing runs, and nothing can start before another event. After it further events may start jobs */

enum dag_action_kind {
#define X(kind) DACT_##kind,
    DAG_ACTIONS(X)
#undef X
};

struct dag_action {
    enum dag_action_kind kind;
    uint32_t job, device;
};

/* How a job is tried again after it ran out of memory: the steps come in this order. */
enum dag_oom_step {
    OOM_STEP_NONE,
    OOM_STEP_ALONE,  /* no other job on its devices */
    OOM_STEP_LARGER, /* alone, on devices with more memory than where it failed */
    OOM_STEP_BATCH   /* alone, with a batch that was halved n_halvings times */
};

struct dag_placement {
    uint32_t n_devices;
    const uint32_t *devices; /* valid until the job ends */
    uint32_t host;
    uint32_t attempt; /* from 1; counts every start of this session */
    enum dag_oom_step oom_step;
    uint32_t n_halvings;
};

struct dag_job_view {
    enum dag_state state;
    bool is_held;
    uint32_t n_needs_left; /* not done yet */
    uint32_t
        first_culprit; /* a needed job that failed, is blocked, cancelled or unfit; or DAG_NO_JOB */
    uint32_t n_attempts, n_failures;
    uint64_t ready_ms, path_ms;
    enum dag_oom_step oom_step;
    uint32_t n_halvings;
    bool is_head;         /* devices are kept free for it */
    uint64_t start_by_ms; /* of a ready job: when it may start, by the known times; 0: unknown */
};

struct dag_device_view {
    bool is_up, is_benched;
    uint32_t n_jobs, share_used;
    uint64_t mem_bytes, mem_reserved_bytes; /* mem_bytes: what jobs can have; 0: unknown */
};

struct dag_host_view {
    bool is_up;
    uint32_t n_cpus, n_cpus_used;
};

struct dag_view {
    uint32_t n_of[DAG_STATES];
    uint32_t n_jobs, n_held; /* n_held: ready or waiting */
    bool is_over, is_stopped;
};

struct dag;

/* NULL: memory ran out. */
struct dag *dag_new(const struct dag_config *config);
void dag_free(struct dag *dag);
/* The new job's number: 0, 1, 2 …; DAG_NO_JOB: memory ran out. Nothing starts before the next dag_step. */
uint32_t dag_add(struct dag *dag, const struct dag_job *job);
/*
 * Adds a host that was not there at the beginning, or sets the CPUs of one. The host is up, and keeps the devices
 * that it had.
 */
void dag_add_host(struct dag *dag, uint32_t host, uint32_t n_cpus);
/*
 * Adds a device, which is not up yet. Returns its number; UINT32_MAX: there are n_devices_max already. n_cpus: of a
 * host that is new.
 */
uint32_t dag_add_device(struct dag *dag, const struct dag_device *device, uint32_t n_cpus);
/* How far `n` devices from `first` on are from each other: [n * n], smaller is nearer. False: memory ran out, and they are
 * taken for equally near. */
bool dag_near(struct dag *dag, uint32_t first, uint32_t n, const uint8_t *distance);
/* Jobs with this place (not 0) may use this host; without a call they may not. */
void dag_allow(struct dag *dag, uint32_t place, uint32_t host);
/*
 * Jobs with this place may not use this device, which may come later; without a call they may if they may use its
 * host.
 */
void dag_deny_device(struct dag *dag, uint32_t place, uint32_t device);
/* New expectations of a job that has not started. If memory runs out, the old ones stay. */
void dag_expect(struct dag *dag, uint32_t job, uint64_t expected_ms, uint64_t mem_bytes);
/*
 * Changes dag_want.place of a job, from its next start on. False: memory ran out, and the job keeps
 * its place.
 */
MUST_CHECK bool dag_move(struct dag *dag, uint32_t job, uint32_t place);
/* *actions: in the order in which they must be carried out, valid until the next call. Returns their number. */
size_t dag_step(struct dag *dag, const struct dag_event *event, const struct dag_action **actions);
/* When a DEV_TICK must come at the latest; UINT64_MAX: none is needed. */
uint64_t dag_wake_ms(const struct dag *dag);
/* The placement of a job that runs, or is being ended. */
struct dag_placement dag_placement(const struct dag *dag, uint32_t job);
struct dag_job_view dag_job_view(const struct dag *dag, uint32_t job);
struct dag_device_view dag_device_view(const struct dag *dag, uint32_t device);
struct dag_host_view dag_host_view(const struct dag *dag, uint32_t host);
/* How many ready jobs are more urgent than this one, which is ready. Linear in the number of jobs. */
uint32_t dag_ready_before(const struct dag *dag, uint32_t job);
struct dag_view dag_view(const struct dag *dag);
/* The jobs that need this one. Valid until the next dag_add. */
const uint32_t *dag_followers(const struct dag *dag, uint32_t job, uint32_t *n_out);
