/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder decides: which items go to which worker, what becomes of a dead worker's items, when
 * to try again, when an item is set aside, when the run is over. Events are facts, actions are
 * wishes whose outcome comes back only as further events. No clock, no allocation after feed_new,
 * no system call, no luck but the seed: the same object runs in `muster map` and in the simulator.
 *
 * Items are numbers 0 … known-1. Those between the lowest that is not yet committed (the frontier)
 * and frontier + spread have their place in a ring; nothing is dispatched further ahead. That bounds
 * memory, fragments, and the wait of ordered output behind a straggler.
 *
 * The life of an item:
 *
 *   fresh ── send ──> SENT ── answered ──> ANSWERED ── confirmed ──> COMMITTING ── committed ──> DONE
 *                      │                    (filters only)                             ^
 *                      └─ worker died, failed, revoked ─> WAITING (retry pool) ──> …   │
 *                                                └─ retries used up ─> ASIDE ──────────┘
 *
 * A worker is a place (a seat) that is filled by one process after the other.
 */
#pragma once

#include "base/attr.h"
#include "base/rng.h"

#include <stdbool.h>

#define FEED_EVENTS(X)                                                                            \
    X(TICK)      /* time has passed */                                                            \
    X(INPUT)     /* items 0 … count-1 are known; flag: that is all */                           \
    X(STARTED)   /* the worker's process runs */                                                  \
    X(READY)     /* channel: count more credits (0 counts too); makes it a channel worker */      \
    X(KEYED)     /* the worker's answers carry keys: EV_DONE, not EV_ANSWERS */                   \
    X(LOADED)    /* the model is in memory */                                                     \
    X(ROOM)      /* filter: about count items fit into its stdin now */                           \
    X(READS)     /* filter: has begun to read its stdin; whatever it loads is loaded */           \
    X(ANSWERS)   /* filter: count answers, in the order of the items sent */                      \
    X(DONE)      /* a result for `item` alone */                                                  \
    X(FAIL)      /* `item` failed; flag: trying again may help; of a filter, EV_PASSED follows */ \
    X(UNFIT)     /* `item` was not written: its record cannot be given to any worker */           \
    X(PASSED)    /* filter: the next count items in its order are unfit ones */                   \
    X(OOM)       /* out of memory at batch `count`; it keeps its items, or dies of it */          \
    X(HUNGRY)    /* filter: silent, has read all it was given; flag: waits for more */            \
    X(RESTS)     /* filter: all is answered and it waits for more: nothing else can come */       \
    X(CLOSED)    /* it has closed its input with items in hand */                                 \
    X(WORKS)     /* filter: it is at work, or gone: an answer more may come */                    \
    X(FULL)      /* the same at the byte limit: let it have the end of its input */               \
    X(STRAY)     /* it broke its rule, and is not believed any more; flag: over `item` */         \
    X(ENDED)     /* the process is gone and did well; whether it made its result is being seen */ \
    X(EXIT)      /* the process is gone, and all it printed has been seen; death says why */      \
    X(COMMITTED) /* items item … item+count-1 are durable, as results or as set aside */        \
    X(MEM_BACK)  /* what the worker's last process held of its devices' memory is free */         \
    X(DEVICE_LOST) /* fell off the bus, or is ill */                                              \
    X(DEVICE_BACK) /* all devices of the set whose first is `worker` are well again */            \
    X(STOP)        /* flag false: finish what is in flight; true: now */

enum feed_event_kind {
#define X(kind) EV_##kind,
    FEED_EVENTS(X)
#undef X
};

/* What ended a worker, as far as the feeder cares (core/verdict.h tells more). */
enum feed_death {
    GONE_CLEAN,       /* status 0 */
    GONE_CRASH,       /* any other status, or a signal */
    GONE_OOM,         /* device or host memory */
    GONE_DEVICE_LOST, /* not its fault */
    GONE_ENDED,       /* we ended it (time limit, revoked, stop) */
    GONE_NOT_STARTED, /* could not be executed at all */
};

struct feed_event {
    enum feed_event_kind kind;
    uint64_t now_ms; /* monotonic; never smaller than in the event before */
    uint32_t worker; /* or the device for EV_DEVICE_LOST and EV_DEVICE_BACK */
    uint64_t item, count;
    bool flag;
    enum feed_death death;
};

#define FEED_ACTIONS(X)                                                                            \
    X(SPAWN)     /* fill the seat; count: batch to announce, 0 = none */                           \
    X(SEND)      /* item … item+count-1 to the worker; attempt in `detail` */                    \
    X(END)       /* no more work: close its input, tell it to stop; it may finish what it has */   \
    X(TERMINATE) /* end it: TERM, grace, KILL; `detail` says why */                                \
    X(BATCH)     /* tell a channel worker: at most count at once */                                \
    X(COMMIT)    /* make the worker's results for item … durable; answered by EV_COMMITTED */    \
    X(DROP)      /* the result for item just given lost against another copy */                    \
    X(REVOKE)    /* forget the answers of this worker that were not committed */                   \
    X(SET_ASIDE) /* make it durable that item is given up; `detail`: enum feed_cause */            \
    X(BENCH)  /* no more workers on the set whose first device is `worker`; `detail`: its cause */ \
    X(RETURN) /* the set whose first device is `worker` gets workers again */                      \
    X(NOTE)   /* tell the user; `detail`: enum feed_note */                                        \
    X(COMPLETE) /* every item is durable or set aside; workers may still be ending */              \
    X(HALT)     /* the run is given up early; `detail`: enum feed_halt */                          \
    X(OVER)     /* nothing is in flight, nobody is alive: the last action */

enum feed_action_kind {
#define X(kind) ACT_##kind,
    FEED_ACTIONS(X)
#undef X
};

enum feed_cause {
    CAUSE_NONE,
    CAUSE_FAILED,   /* the worker said so */
    CAUSE_CRASH,    /* it killed its worker, alone */
    CAUSE_OOM,      /* out of memory, alone */
    CAUSE_TIMEOUT,  /* over the limit for one item */
    CAUSE_START,    /* the worker was not up in time */
    CAUSE_PROTOCOL, /* answers that do not match, messages that cannot be read */
    CAUSE_UNFIT,    /* its record is malformed */
    CAUSE_LOST,     /* the device is gone */
    CAUSE_RESTARTS, /* it died too often without a result */
    CAUSE_LOSER,    /* its items were answered elsewhere */
    CAUSE_LINGERS,  /* it has done all it was given, and does not end */
    CAUSE_STOP,
};

enum feed_note {
    NOTE_NONE,
    NOTE_SILENT,   /* far slower than ever before: count = ms since its last word */
    NOTE_REISSUED, /* item was given to a second worker */
    NOTE_FOREIGN,  /* a result for an item that the worker does not have */
    NOTE_HALVED,   /* a group of suspects was split: count = its size */
};

enum feed_halt {
    HALT_NONE,
    HALT_NO_RESULT,  /* workers die before their first result on every set of devices */
    HALT_UNFIT,      /* of many records not one could be given to a worker */
    HALT_FAILURES,   /* --max-failures */
    HALT_NO_DEVICES, /* all benched */
    HALT_MISMATCH,   /* filters whose answers cannot be matched to items */
    HALT_STOPPED,    /* EV_STOP */
};

struct feed_action {
    enum feed_action_kind kind;
    uint32_t worker;
    uint64_t item, count;
    uint32_t detail;
};

struct item_interval {
    uint64_t first, count;
};

struct feed_config {
    uint32_t n_workers, n_devices;
    /* [n_devices]: a worker that needs several devices stands on a set of them, and cannot go on without
     * any; this names the first device of each one's set. NULL: sets of one. Copied. */
    const uint32_t *first_of;
    const uint32_t *device_of; /* [n_workers]: the first device of its set; copied */
    uint32_t spread_log2;      /* 0 = feed_spread_log2(n_workers) */
    uint32_t retries;          /* an item runs at most 1 + retries times for its own faults */
    uint32_t batch;            /* whole batches of N items; 0 = windows by time */
    bool fixed_batches;        /* batch k is items kN … kN+N-1, whoever computes it */
    bool no_reissue;
    uint32_t loading_max; /* workers that load at one time; 0 = all */
    uint64_t stagger_ms;  /* from the start of one worker to that of the next, at least */
    uint64_t item_limit_ms, start_limit_ms, silence_limit_ms; /* 0 = none */
    uint64_t end_limit_ms; /* from ACT_END, or its last answer after that, to its exit; 0 = none */
    uint64_t failures_max; /* items set aside before the run is given up; 0 = no limit */
    uint32_t failures_percent; /* of the items settled so far (from 100 on); 0 = no limit */
    uint64_t seed;
    uint64_t failed_before; /* set aside by earlier sessions of this run */

    /* What earlier sessions settled: ascending, disjoint, not adjacent. Borrowed until feed_free. */
    const struct item_interval *done;
    size_t n_done;
    /* Dispatch order for sizes known in advance: all n items, longest first. Borrowed. NULL: as they
     * come. With it, spread covers everything and EV_INPUT must name all items at once. */
    const uint32_t *order;
    uint64_t n_order;
};

struct feed;

/* The usual spread: 2^19 items, or 128 for each of very many workers. */
uint32_t feed_spread_log2(uint32_t n_workers);

/* NULL only when memory ran out. Allocates all it will ever use. */
struct feed *feed_new(const struct feed_config *config);
void feed_free(struct feed *feed);

/*
 * Apply one event. *out is valid until the next call; returns how many actions. They must be carried
 * out in order. Events about a process that the feeder has already written off are ignored.
 */
size_t feed_step(struct feed *feed, const struct feed_event *event, const struct feed_action **out);

/* When the feeder wants an EV_TICK at the latest; UINT64_MAX: not needed. */
uint64_t feed_next_ms(const struct feed *feed);

/* Aborts, saying which, if an invariant is broken. For tests and the simulator; O(spread). */
void feed_check(const struct feed *feed);
/* A digest of the state: equal states, equal digests. */
uint64_t feed_hash(const struct feed *feed);

struct feed_counts {
    uint64_t known, done, aside, in_flight, waiting, answered;
    uint64_t retries, reissued, revoked, crashes, ooms;
    uint64_t items_frontier, items_next;
    bool input_is_final, is_complete, is_over;
};
void feed_counts(const struct feed *feed, struct feed_counts *out);

enum worker_state {
    WORKER_ABSENT,   /* nobody there; may be started */
    WORKER_STARTING, /* asked for */
    WORKER_LOADING,  /* runs, has not given anything yet */
    WORKER_LIVE,
    WORKER_ENDING,  /* gets no more; its exit is awaited */
    WORKER_COOLING, /* dead; its device's memory or a pause is awaited */
    WORKER_BENCHED,
};
enum worker_mode {
    MODE_UNKNOWN,
    MODE_FILTER,
    MODE_KEYED,
    MODE_CHANNEL
};

struct feed_worker_view {
    enum worker_state state;
    enum worker_mode mode;
    uint32_t in_flight;
    uint64_t items_done; /* of this seat, over all its lives */
    double mean_ms;      /* recent time an item; 0 unknown */
    uint32_t batch;      /* limit now; 0 none */
    bool is_settling;    /* EV_RESTS would spare it a pause */
};
void feed_worker(const struct feed *feed, uint32_t worker, struct feed_worker_view *out);
/* Charged attempts of an item so far (0 = none failed); for the envelope's "attempt" = this + 1. */
uint32_t feed_item_failures(const struct feed *feed, uint64_t item);
