/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder decides which items go to which worker, what happens to a dead worker's items, when to
 * try again, when an item is set aside, and when the run is over. Events are facts; actions are
 * requests whose outcome comes back only as further events. It has no clock, makes no allocation after
 * feed_new and no system call, and takes random numbers only from the seed: the same object code runs in
 * `muster map` and in the simulator.
 *
 * Items are numbers 0 … known-1. Those from the lowest that is not yet committed (the frontier) to
 * frontier + spread have slots in a ring; no item further ahead is dispatched. That bounds memory, the number of
 * fragments, and the wait of ordered output for a straggler.
 *
 * The life of an item:
 *
 *   fresh ── send ──> SENT ── answered ──> ANSWERED ── confirmed ──> COMMITTING ── committed ──> DONE
 *                      │                    (filters only)                             ^
 *                      └─ worker died, failed, revoked ─> WAITING (retry pool) ──> …   │
 *                                                └─ retries used up ─> ASIDE ──────────┘
 *
 * A worker is known by the number of its seat, which has one process after the other. Seats may come while the run
 * lasts, up to the number that feed_new() was given, and get the next numbers. The seats of a set of devices that is
 * given back stay empty, and their numbers are not used again.
 */
#pragma once

#include "base/attr.h"
#include "base/rng.h"

#include <stdbool.h>

#define FEED_EVENTS(X)                                                                                \
    X(TICK)    /* time has passed */                                                                  \
    X(INPUT)   /* items 0 … count-1 are known; flag: there are no more */                           \
    X(STARTED) /* the worker's process runs */                                                        \
    X(READY)   /* channel: count more credits (0 counts too); makes it a channel worker */            \
    X(KEYED)   /* the worker's answers carry keys: EV_DONE, not EV_ANSWERS */                         \
    X(LOADED)  /* the model is in memory */                                                           \
    X(ROOM)    /* filter: about count items fit into its stdin now */                                 \
    X(READS)   /* filter: has begun to read its stdin; whatever it loads is loaded */                 \
    X(ANSWERS) /* filter: count answers, in the order of the items sent */                            \
    X(DONE)    /* a result for `item` */                                                              \
    X(FAIL)    /* `item` failed; flag: a retry may help; from a filter, EV_PASSED follows */          \
    X(UNFIT)   /* `item` was not sent: its record cannot be given to any worker */                    \
    X(PASSED)  /* filter: the next count items in its order are unfit ones */                         \
    X(OOM)  /* out of memory; at most `count` at once from now on; it keeps its items, or dies */     \
    X(IDLE) /* filter: silent, and has read all its input; flag: it is known to wait for more */      \
    X(RESTS) /* filter: it has answered everything and waits for more, so no other answer can come */ \
    X(CLOSED)      /* it has closed its input with items in hand */                                   \
    X(WORKS)       /* filter: it works, or is gone: another answer may come */                        \
    X(FULL)        /* the same at the byte limit: let it have the end of its input */                 \
    X(STRAY)       /* it broke a rule, and its answers no longer count; flag: with `item` */          \
    X(ENDED)       /* the process has ended well; its result is being checked */                      \
    X(EXIT)        /* the process is gone, and all its output has been read; death says why */        \
    X(COMMITTED)   /* items item … item+count-1 are durable, as results or set aside */             \
    X(MEM_BACK)    /* what the worker's last process held of its devices' memory is free */           \
    X(DEVICE_LOST) /* fell off the bus, or is ill; flag: with its host, which is asked for again */   \
    X(DEVICE_BACK) /* all devices of the set whose first is `worker` are well again */                \
    X(DEVICE_UP)   /* the next device, on host `count`; `worker`: the first of its set */             \
    X(SEAT_UP)     /* one more seat, on the set whose first is `worker`; count: its round trip */     \
    X(SET_DRAIN) /* the set whose first is `worker` is given back; flag: its workers are ended */     \
    X(AWAIT)     /* flag: seats may still come, and a run without any waits for them */               \
    X(STOP)      /* flag false: finish what is in flight; true: now */

enum feed_event_kind {
#define X(kind) EV_##kind,
    FEED_EVENTS(X)
#undef X
};

/* Why a worker ended, as far as the feeder must know (core/verdict.h has the details). */
enum feed_death {
    GONE_CLEAN,       /* status 0 */
    GONE_CRASH,       /* any other status, or a signal */
    GONE_OOM,         /* device or host memory */
    GONE_DEVICE_LOST, /* not the worker's fault */
    GONE_ENDED,       /* we ended it (time limit, revoked, stop) */
    GONE_NOT_STARTED, /* could not be executed at all */
};

struct feed_event {
    enum feed_event_kind kind;
    uint64_t now_ms; /* monotonic; never smaller than in the previous event */
    uint32_t worker; /* or a device, for events about devices and seats */
    /* EXIT, count: on a lost host the process may live so many ms longer; its items wait until then. */
    uint64_t item, count;
    bool flag;
    enum feed_death death;
};

#define FEED_ACTIONS(X)                                                                            \
    X(SPAWN)     /* start a worker on the seat; count: batch to announce, 0 = none */              \
    X(SEND)      /* item … item+count-1 to the worker; attempt in `detail` */                    \
    X(END)       /* no more work: close its input, send stop; it may finish its items */           \
    X(TERMINATE) /* end it: TERM, grace, KILL; `detail` says why */                                \
    X(BATCH)     /* tell a channel worker: at most count at once */                                \
    X(COMMIT)    /* make the worker's results for item … durable; answered by EV_COMMITTED */    \
    X(DROP)      /* ignore the result just given for item: another copy was first */               \
    X(REVOKE)    /* forget the answers of this worker that were not committed */                   \
    X(SET_ASIDE) /* make it durable that item is given up; `detail`: enum feed_cause */            \
    X(BENCH)  /* no more workers on the set whose first device is `worker`; `detail`: its cause */ \
    X(RETURN) /* the set whose first device is `worker` gets workers again */                      \
    X(VACATED)  /* the set was given back, and its last worker is gone */                          \
    X(NOTE)     /* tell the user; `detail`: enum feed_note */                                      \
    X(COMPLETE) /* every item is durable or set aside; workers may still be ending */              \
    X(HALT)     /* the run is given up early; `detail`: enum feed_halt */                          \
    X(OVER)     /* nothing is in flight and no worker is alive: the last action */

enum feed_action_kind {
#define X(kind) ACT_##kind,
    FEED_ACTIONS(X)
#undef X
};

enum feed_cause {
    CAUSE_NONE,
    CAUSE_FAILED,   /* the worker reported a failure */
    CAUSE_CRASH,    /* alone on its worker, it killed the worker */
    CAUSE_OOM,      /* out of memory, alone on its worker */
    CAUSE_TIMEOUT,  /* over the limit for one item */
    CAUSE_START,    /* the worker was not ready in time */
    CAUSE_PROTOCOL, /* answers that do not match, messages that cannot be read */
    CAUSE_UNFIT,    /* its record is malformed */
    CAUSE_LOST,     /* the device is gone */
    CAUSE_RESTARTS, /* it died too often without a result */
    CAUSE_LOSER,    /* its items were answered elsewhere */
    CAUSE_LINGERS,  /* it has done all its items, and does not end */
    CAUSE_STOP,
};

enum feed_note {
    NOTE_NONE,
    NOTE_SILENT,   /* far slower than ever before: count = ms since its last output */
    NOTE_REISSUED, /* item was given to a second worker */
    NOTE_FOREIGN,  /* a result for an item that the worker does not have */
    NOTE_HALVED,   /* a group of suspects was split: count = its size */
};

enum feed_halt {
    HALT_NONE,
    HALT_NO_RESULT,  /* workers die before their first result on every set of devices */
    HALT_UNFIT,      /* none of many records could be given to a worker */
    HALT_FAILURES,   /* --max-failures */
    HALT_NO_DEVICES, /* all devices are benched */
    HALT_DRAINED,    /* all devices were given back */
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
    uint32_t n_workers_max, n_devices_max; /* with those that come later; 0: none come */
    /* [n_devices]: the first device of each device's set. A worker that needs several devices uses a set of
     * them, and cannot go on without one of these. NULL: sets of one. Copied. */
    const uint32_t *first_of;
    const uint32_t *device_of; /* [n_workers]: the first device of its set; copied */
    const uint32_t *host_of;   /* [n_devices]: the number of its host; copied. NULL: all on one */
    /* [n_workers]: from here to a worker and back. NULL: less than a millisecond. Copied. */
    const uint64_t *round_trip_ms;
    uint32_t spread_log2; /* 0 = feed_spread_log2(n_workers) */
    uint32_t retries;     /* an item runs at most 1 + retries times for its own faults */
    uint32_t batch;       /* whole batches of N items; 0 = windows by time */
    bool fixed_batches;   /* batch k is items kN … kN+N-1, whichever worker computes it */
    bool no_reissue;
    uint32_t loading_max; /* workers that may load at the same time; 0 = all */
    uint64_t stagger_ms;  /* shortest time from the start of one worker to that of the next */
    uint64_t item_limit_ms, start_limit_ms, silence_limit_ms; /* 0 = none */
    uint64_t end_limit_ms; /* from ACT_END, or its last answer after that, to its exit; 0 = none */
    uint64_t failures_max; /* items set aside before the run is given up; 0 = no limit */
    /*
     * The share of all items, once their number is known, and of those settled so far, if they are at least 100; 0 =
     * no limit.
     */
    uint32_t failures_percent;
    uint64_t seed;
    uint64_t failed_before; /* set aside by earlier sessions of this run */
    /* Every item that is left was set aside by an earlier session, in which others had results. */
    bool only_failed_left;
    /* Earlier sessions had results of the same command, so deaths may be due to the items that are left. */
    bool had_results;

    /* The items that earlier sessions settled: ascending, disjoint, not adjacent. Borrowed until feed_free. */
    const struct item_interval *done;
    size_t n_done;
    /* Dispatch order, if all sizes are known: all n items, longest first. Borrowed. NULL: in the order of the
     * input. With an order, spread covers all items, and EV_INPUT must name all at once. */
    const uint32_t *order;
    uint64_t n_order;
};

struct feed;

/* The default spread: 2^19 items, or 128 for each worker if that is more. */
uint32_t feed_spread_log2(uint32_t n_workers);

/* Allocates all memory that the feeder will use. NULL: memory ran out. */
struct feed *feed_new(const struct feed_config *given);
void feed_free(struct feed *feed);

/*
 * Applies one event. Returns the number of actions; *out is valid until the next call. The actions must be
 * carried out in order. Events about a process that the feeder is already ending are ignored.
 */
size_t feed_step(struct feed *feed, const struct feed_event *event, const struct feed_action **out);

/* When the feeder needs an EV_TICK at the latest; UINT64_MAX: not needed. */
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
    WORKER_ABSENT,   /* no process; one may be started */
    WORKER_STARTING, /* ACT_SPAWN was given */
    WORKER_LOADING,  /* runs, has given no sign of being ready */
    WORKER_LIVE,
    WORKER_ENDING,  /* gets no more items; its exit is awaited */
    WORKER_COOLING, /* dead; the seat waits for its device's memory, or for a pause to end */
    WORKER_BENCHED,
    WORKER_GONE, /* its set was given back: no process, and none will be started */
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
    uint64_t items_done; /* of this seat, by all its processes */
    double mean_ms;      /* recent time for an item; 0: unknown */
    uint32_t batch;      /* the present limit; 0: none */
    bool is_settling;    /* its answers wait to be confirmed; EV_RESTS would confirm them at once */
};
void feed_worker(const struct feed *feed, uint32_t worker, struct feed_worker_view *out);
/* Charged attempts of an item so far (0 = none failed); for the envelope's "attempt" = this + 1. */
uint32_t feed_item_failures(const struct feed *feed, uint64_t item);
