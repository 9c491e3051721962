/* SPDX-License-Identifier: Apache-2.0
 *
 * A world that means ill, around the real feeder. Workers are filters (that flush, that hold answers back, that
 * read their input in blocks, that want whole batches), filters with keys, or channel workers; they are slow, heavy-tailed, stall for a while or
 * for good, fail, crash at the start, on one particular item, after so many items, run out of memory above
 * a batch size (and die of it, or say so), leave early with status 0, print stray lines, answer when they
 * were told to end, answer twice, answer for others' items. Records are unfit, devices are lost and come back, also
 * one of several that a worker needs, the run is
 * stopped, further seats come and others are given back, a host freezes for a while, the disk fills, muster is killed at any step and goes on with what was durable and with another
 * number of devices. Facts come twice or late where a kernel could do that. All rates are drawn from the
 * seed, so that some worlds have one kind of fault, some all, some none.
 *
 * A world goes through sessions, each with a feeder of its own; in the last the faults stop, and whatever
 * is left must be settled within a bounded number of steps.
 */
#pragma once

#include "base/attr.h"
#include "core/feed.h"
#include "sim/dist.h"
#include "sim/heap.h"

enum {
    WORKERS_MAX = 16,
    SET_MAX = 3, /* devices that a worker needs */
    DEVICES_MAX = SET_MAX * WORKERS_MAX,
    DONE_MAX = 700,
    IN_HAND_MAX = 4096,
    SESSIONS_MAX = 4,
    AT_ONCE_MAX = 10000,      /* events without a moment between them */
    STEPS_MAX = 60000,        /* of a session with faults: then the faults stop */
    STEPS_HEALED_MAX = 60000, /* after that everything must be settled */
    /* Where nothing goes wrong, from an item's end to its commit at most; and if rest is not shown. */
    KEPT_AFTER_MS = 10000,
    RETURN_LEAST_MS = 5000, /* a device that is back must have been well for this time */
    KEPT_BLINDLY_MS = 25000,
    FREEZE_MS = 120000, /* of a host: by then others have done what it holds */
};

/* How a run of the simulator ends; also its exit status. */
enum {
    RUN_OK = 0,
    RUN_STUCK = 128,
    RUN_UNSAFE = 129,
    RUN_DIFFERENT = 130
};

enum future_kind {
    F_STARTED,
    F_FINISH, /* with the item in hand; or to see whether there is one */
    F_EXIT,   /* detail: enum feed_death */
    F_EXIT_AGAIN,
    F_COMMITTED,
    F_LOOKED_AT, /* what its process left: it is a result, or not */
    F_DURABLE,   /* the disk has it: survives everything from now on */
    F_MEM,
    F_INPUT,
    F_ROOM,
    F_QUIET, /* its shell looks whether it says nothing */
    F_LATE,  /* a word said before the signal was felt */
    F_LOST, /* a device; count 1: with its host, which is asked for again; 2: the host is given up */
    F_BACK,   /* all devices of a lost one's set are well again, their memory is free */
    F_STOP,   /* flag in count */
    F_OOM,    /* told, and survived: it goes on with count at once */
    F_ARRIVE, /* a set of devices with two seats; detail 1: the last that is awaited */
    F_DRAIN,  /* the set of a device is given back; count: enum feed_event's flag */
    F_FREEZE, /* a host: nothing is heard of its workers */
    F_THAW,
    F_UNFIT, /* the item's record was looked at only when there was room for it */
    F_ECHO,  /* a fact that was told before, or means nothing */
    F_KINDS
};

enum actor_kind {
    A_FILTER,
    A_BUFFERED, /* gives its answers by 64, or at its end */
    A_BLOCKED,  /* reads its input by 32 lines, or to its end; holds answers back as well */
    A_BATCHED,  /* works on whole batches only, or on what there is at its end */
    A_KEYED,    /* a filter whose answers say what they are for */
    A_CHANNEL,
    A_SHARD /* one item a life; what it made is looked at when its process has ended */
};

struct actor {
    enum actor_kind kind;
    bool alive, ending, finishing, hangs, looks_quiet, has_answered, has_ended;
    uint32_t life, n_in_hand, lines_held, answered;
    uint32_t n_read; /* of a block, those that it has not come to */
    uint64_t in_hand[IN_HAND_MAX];
    double speed;
    /* What the feeder was told, or has said itself: the oracle holds it to that. */
    bool may_get, has_asked, is_loading, is_written_off, is_gone;
    bool has_process; /* by what the feeder was told */
    uint64_t credits, batch, spawned_ms;
    uint32_t n_held;
};

/* How often what goes wrong; 0 everywhere once the faults have stopped. */
struct rates {
    double fail, crash, stray, no_start, hang, stall, late, early, echo;
    uint32_t crash_after; /* answers of one life; 0 = never */
};

struct item {
    uint8_t outcome; /* of this session's feeder: 0 open, 1 committed, 2 aside */
    bool is_durable, is_unfit;
    bool is_lost;       /* settled when the disk was full */
    bool no_retry;      /* its worker said so */
    uint64_t worked_ms; /* when it was computed last */
    uint32_t worked;    /* bit i: worker i has computed it in this life */
    uint8_t holders[2]; /* workers + 1 */
};

struct world {
    uint64_t seed, digest; /* of all that was decided */
    struct rng rng;
    struct feed *feed;
    struct feed_config config;
    uint32_t session, device_of[WORKERS_MAX];
    uint32_t n_workers, n_devices;  /* that have come so far */
    uint32_t first_of[DEVICES_MAX]; /* a set is known by its first device */
    uint32_t n_hosts, host_of[DEVICES_MAX];
    struct {
        bool is_drawn;  /* a host freezes in this world, and nothing else goes wrong */
        bool is_judged; /* others can do all that the frozen one holds */
        uint32_t host;
        uint64_t until_ms;
    } frost;
    struct item_interval done[DONE_MAX];
    uint32_t *order;

    struct future_heap heap;
    uint64_t now_ms, steps, session_steps;
    struct rates rates;
    struct dist service;
    uint64_t poison;   /* the item that kills, or none */
    uint64_t hopeless; /* the one that fails each time, or none */
    uint32_t oom_above, concurrency;
    bool commits_at_once, is_healed, trace;
    bool shows_rest;                /* EV_RESTS is told */
    bool is_steady;                 /* nothing goes wrong, and items take about the same time */
    uint64_t disk_full_at, kill_at; /* writes, steps of this session; UINT64_MAX never */
    uint64_t writes, strays;
    bool disk_is_full;

    struct actor actors[WORKERS_MAX];
    struct item *items;
    uint64_t n_items, known, frontier; /* known and settled as the feeder was told */
    bool device_is_benched[DEVICES_MAX], device_is_lost[DEVICES_MAX];
    bool set_is_lost[DEVICES_MAX];    /* benched for its loss */
    bool set_is_awaited[DEVICES_MAX]; /* lost with its host, which is asked for again */
    bool set_is_drained[DEVICES_MAX]; /* given back */
    bool set_is_vacated[DEVICES_MAX], set_may_be_ended[DEVICES_MAX];
    bool seats_are_awaited;
    uint64_t well_since_ms[DEVICES_MAX],
        returned_ms[DEVICES_MAX]; /* of sets; UINT64_MAX: not well */
    uint32_t n_loading;
    uint64_t next_start_ms; /* by config.stagger_ms */
    bool is_over, is_complete, is_halted, was_killed;
    bool input_is_final, must_halt; /* must_halt: in this step, for --max-failures */
    enum feed_halt halt;

    struct feed_event *journal; /* all that this session's feeder was told */
    size_t n_journal, journal_cap;
    struct feed_event *queue; /* outcomes that are known at once */
    size_t n_queue, queue_cap;
};

/* adversary_draw.c: everything that the seed decides beforehand */
void world_draw(struct world *w, uint64_t seed);
/* The next session: what is durable is done; other devices, other troubles; none if it is the last. */
void session_draw(struct world *w, bool is_last);
/* What workers stand on: n_sets sets, each of so many devices; device d belongs to set d % n_sets. */
void sets_make(struct world *w, uint32_t n_sets, uint32_t devices_per_set);
/* No device is lost, none was given back. */
void sets_reset(struct world *w);
bool chance(struct world *w, double p);
uint32_t host_of_worker(const struct world *w, uint32_t worker);

/* adversary.c: time, steps, sessions */
int world_run(uint64_t seed, bool trace, bool replay, uint64_t *digest);
void step(struct world *w, struct feed_event event);
/* A further set of devices, and seats on it, come up one after the other; `tell` tells the feeder. */
void set_arrive(struct world *w, uint32_t n_devices, uint32_t n_seats,
                void (*tell)(void *context, struct feed_event event), void *context);
void later(struct world *w, uint64_t delay_ms, struct future future);
/* An event that is told when this step is over. */
void soon(struct world *w, struct feed_event event);
void world_heal(struct world *w);

/* adversary_actor.c: what workers do */
void actor_spawn(struct world *w, uint32_t worker);
void actor_receive(struct world *w, const struct feed_action *action);
void actor_end(struct world *w, uint32_t worker);
void actor_terminate(struct world *w, uint32_t worker);
void actor_finish(struct world *w, uint32_t worker);
void actor_die(struct world *w, uint32_t worker, enum feed_death death);
void happen(struct world *w, const struct future *future);

/* oracle.c: what must hold whatever happens */
void oracle_event(struct world *w, const struct feed_event *event);
void oracle_action(struct world *w, const struct feed_action *action);
void oracle_step_over(struct world *w);
void oracle_durable(struct world *w, uint64_t first, uint64_t count);
/* Says what is wrong, with seed and command, and ends the program. */
NORETURN void unsafe(const struct world *w, const char *fmt, ...) PRINTF(2, 3);
/* The command that runs this seed again, and where it was. */
void failure_print(const struct world *w, const char *kind, const char *what);
/* So that a broken assertion of the core prints the same line. */
void failure_watch(const struct world *w);
void trace_event(const struct world *w, const struct feed_event *event);
void trace_action(const struct world *w, const struct feed_action *action);
