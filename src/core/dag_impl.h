/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the dag share. dag.c has the events; dag_end.c, what an end means for its job; dag_graph.c, the
 * edges: what a job's state means for its followers, and the lengths of paths; dag_ready.c, the order of the ready
 * jobs; dag_place.c, which devices a job gets; dag_plan.c, which jobs start now, and for which job devices are kept
 * free; dag_look.c, the views.
 */
#pragma once

#include "base/attr.h"
#include "core/dag.h"

#define NONE  UINT32_MAX
#define NEVER UINT64_MAX

enum {
    LOST_MAX = 20,       /* ends that are not counted; further ones count as the job's own */
    DRAIN_PATIENCES = 4, /* see struct hold */
    HALVINGS_MAX = 63
};
#define EXPECTED_MAX_MS (1ull << 40)
#define PATH_MAX_MS     (1ull << 61)
#define AGE_MAX_MS      (1ull << 50)

enum {
    LANES = 16
};

/*
 * A hundred thousand jobs may want the same. A shape holds such a want once. Ready jobs of one shape are tried
 * together: when one does not fit, none does. A shape has lanes of jobs by their expected time, each lane a heap,
 * since the time decides which job may start before the head. Lane 0: time unknown; each further lane has times that
 * are twice as long.
 */
struct shape {
    struct dag_want want;
    uint32_t tops[LANES]; /* the most urgent ready job of each lane; valid where `used` has a bit */
    uint16_t used,
        skipped;     /* a bit for each lane; skipped: its jobs are not tried again in this step */
    uint32_t top;    /* the top of the lanes that are not skipped; NONE: there is none */
    uint32_t at_hot; /* its position in shapes.hot; NONE: it is not there */
    bool is_unfit, is_checked;
};

/* Shape 0 is not a shape: it is the heap of jobs that want something special (dag_is_special). */
enum {
    SHAPE_SPECIAL = 0
};

/* What is to happen to a job after it was ended. */
enum job_wish {
    WISH_NONE,
    WISH_CANCELLED,
    WISH_AGAIN /* cancelled, and then to start again */
};

struct job {
    int64_t urgency; /* valid while ready */
    uint64_t expected_ms, path_ms, ready_ms, started_ms;
    uint32_t first_edge;    /* to a need; its edges end where those of the next job begin */
    uint32_t followers;     /* the first edge to a job that needs it */
    uint32_t n_left, n_bad; /* of its needs: not done; failed, blocked, cancelled or unfit */
    uint32_t shape;
    uint32_t child, next,
        prev;    /* in the heap of its shape; next and prev also in the list of running jobs */
    uint32_t at; /* its device, or with several devices its slot in places */
    uint32_t n_retries, n_attempts, n_failures;
    uint16_t host, floor_device; /* where it ran out of memory */
    uint8_t n_devices;
    int16_t priority;
    uint8_t state, oom_step, n_batch_steps, n_halvings, n_lost;
    bool is_held : 1, is_queued : 1, has_ill : 1;
    uint8_t wish : 2; /* enum job_wish */
};

struct edge {
    uint32_t need, follower;
    uint32_t next; /* the next edge with this need */
};

/* What jobs take of a device. */
struct load {
    uint32_t n_jobs, n_alone; /* n_alone: 1 if a job has the device for itself */
    uint32_t n_memory_only, n_share_only;
    uint32_t share;
    uint64_t mem_bytes;
};

/* What is taken, now or at a later time. */
struct room {
    struct load *loads;  /* [n_devices_max] */
    uint32_t *cpus_used; /* [DAG_HOSTS_MAX] */
};

struct place_device {
    uint32_t host, next_on_host;
    uint64_t mem_bytes;
    uint32_t n_strikes; /* in ill_jobs */
    bool is_up, is_benched;
};

struct place_host {
    uint32_t n_cpus, first_device;
    bool is_up;
};

/* What a job wants, with what was learned from its ends. */
struct demand {
    struct dag_want want;
    uint32_t job;
    bool is_alone, avoids_ill;
    uint64_t mem_min; /* a device must have at least so much */
};

struct spot {
    uint32_t host, n_devices;
    uint32_t devices[DAG_JOB_DEVICES_MAX];
};

/* Which devices count in a search for a place. */
enum reach {
    REACH_EVER, /* all that are not benched */
    REACH_UP
};

/* The most that is free on any host, or on any device. */
struct slack {
    uint32_t n_cpus;
    uint32_t n_empty, n_open; /* devices without jobs; without a job that has it for itself */
    uint32_t share;
    uint64_t mem_bytes;
};

/* Devices that are kept free for the head, while one step is planned. */
struct hold {
    bool is_known, is_there, drains;
    uint64_t start_ms; /* when the head can start, by the known times; NEVER: not known */
    uint32_t waiting[8], n_waiting; /* the most urgent jobs that do not fit */
    struct slack slack;             /* valid if has_slack */
    bool has_slack;
};

/* The head, from step to step. */
struct head {
    uint32_t job;
    uint64_t since_ms, promised_ms; /* promised_ms 0: no time was promised */
};

struct dag {
    struct dag_config config;
    uint64_t now_ms, wake_ms;
    uint32_t n_of[DAG_STATES], n_held;
    bool is_over, is_stopped, is_awaiting;

    struct {
        struct job *at;
        uint32_t len, cap, n_absorbed; /* jobs from n_absorbed on were added since the last step */
        uint32_t *by_end;              /* [cap] running jobs as a heap, for a forecast */
    } jobs;
    struct {
        struct edge *at;
        uint32_t len, cap;
        uint32_t *list, *first; /* for dag_followers: [cap], [jobs.cap + 2] */
    } edges;
    struct {
        bool is_due;
        uint64_t done_ms;           /* when paths were computed last */
        uint64_t known_ms, n_known; /* sum and number of the known times */
    } paths;
    struct {
        struct shape *at;
        uint32_t len, cap;
        uint32_t *table, table_cap;    /* a hash table of numbers of shapes */
        uint32_t *hot, n_hot;          /* a heap of shapes that have ready jobs */
        uint32_t *skipped, n_skipped;  /* shapes that were tried in this step and do not fit */
        uint32_t skipped_jobs;         /* a list of single jobs that do not fit */
        bool is_check_due, is_all_due; /* is_unfit has to be found for new shapes; for all */
        bool is_sweep_due;             /* some jobs of unfit shapes do not have that state yet */
    } shapes;
    struct {
        struct place_device *at;
        uint32_t len;
        uint32_t *numbers;  /* [n_devices_max] numbers[i] is i */
        uint32_t *ill_jobs; /* [n_devices_max * strikes] */
        uint8_t *distance;  /* NULL: all are equally near */
        uint32_t *fitting;  /* [n_devices_max] the result of one look */
        uint64_t denied[DAG_PLACES_MAX][DAG_DEVICES_MAX / 64]; /* bits */
    } devices;
    struct {
        struct place_host at[DAG_HOSTS_MAX];
        uint32_t len;
        uint64_t allowed[DAG_PLACES_MAX][DAG_HOSTS_MAX / 64]; /* bits */
    } hosts;
    struct {
        uint32_t (*at)[DAG_JOB_DEVICES_MAX];
        uint32_t *free, n_free;
    } places; /* the devices of running jobs that have several */
    struct room now, later, empty;
    uint32_t running;    /* the first one of a list */
    uint32_t n_timeless; /* running jobs whose time is not known */
    struct hold hold;
    struct head head;
    struct {
        struct dag_action *at;
        size_t len, cap;
    } out;
};

/* ---- dag.c ---- */
void dag_emit(struct dag *dag, enum dag_action_kind kind, uint32_t job, uint32_t device);
void dag_state_set(struct dag *dag, uint32_t job, enum dag_state state);
void dag_settle(struct dag *dag, uint32_t job, enum dag_state state);
/* Gives a job the state that follows from its needs and its want: blocked, unfit, waiting or ready. */
void dag_open(struct dag *dag, uint32_t job);

/* ---- dag_end.c ---- */
/* A started job has ended. */
void dag_ended(struct dag *dag, const struct dag_event *ev);

/* ---- dag_memory.c: the only allocations ---- */
bool dag_jobs_grow(struct dag *dag, uint32_t n_more_edges);
bool dag_shapes_grow(struct dag *dag);

/* ---- dag_graph.c ---- */
void dag_edges_add(struct dag *dag, uint32_t job, const uint32_t *needs, uint32_t n_needs);
/* Blocks, or unblocks, the followers of the job. */
void dag_bad_spread(struct dag *dag, uint32_t job, bool is_bad);
void dag_done_spread(struct dag *dag, uint32_t job);
bool dag_is_bad(enum dag_state state);
/* Opens the job again, with all its retries and its whole batch. */
void dag_begin_anew(struct dag *dag, uint32_t job);
void dag_paths_refresh(struct dag *dag);
uint64_t dag_duration_ms(const struct dag *dag, uint32_t job);

/* ---- dag_ready.c ---- */
/* NONE: memory ran out. */
uint32_t dag_shape_find(struct dag *dag, const struct dag_want *want);
bool dag_is_special(const struct job *job);
void dag_ready_push(struct dag *dag, uint32_t job);
void dag_ready_remove(struct dag *dag, uint32_t job);
/* The most urgent ready job that is not skipped; NONE: there is none. */
uint32_t dag_ready_top(const struct dag *dag);
/*
 * Skips the job for the rest of this step, and all jobs that want the same; if it fits, only those
 * of them that take as long.
 */
void dag_ready_skip(struct dag *dag, uint32_t job, bool fits);
void dag_ready_restore(struct dag *dag);

/* ---- dag_place.c ---- */
struct demand dag_demand(const struct dag *dag, uint32_t job);
bool dag_is_whole(const struct dag_want *want);
/* Finds a place where the job fits in `now`, and, if not NULL, in `later` too. spot may be NULL. */
bool dag_place(const struct dag *dag, const struct demand *demand, const struct room *now,
               const struct room *later, enum reach reach, struct spot *spot);
struct slack dag_slack(const struct dag *dag);
/* True: it fits nowhere. False: it may fit. */
bool dag_is_hopeless(const struct slack *slack, const struct demand *demand);
void dag_take(const struct dag *dag, const struct room *room, const struct demand *demand,
              const struct spot *spot);
void dag_give(const struct dag *dag, const struct room *room, uint32_t job);
/* Closes all places where the job could run: nothing fits there any more. */
void dag_close(const struct dag *dag, const struct room *room, const struct demand *demand);
const uint32_t *dag_devices_of(const struct dag *dag, const struct job *job);
bool dag_is_ill(const struct dag *dag, uint32_t device, uint32_t job);

/* ---- dag_plan.c ---- */
void dag_plan(struct dag *dag);
/*
 * When a job could start if no other job started before it; NEVER: not known. Changes dag->later. False: it could not
 * start at all.
 */
bool dag_forecast(const struct dag *dag, const struct demand *demand, uint64_t *start_ms,
                  struct spot *spot);
