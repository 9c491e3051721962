/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated machine with the real feeder (core/feed), which decides as in `muster map`: days of
 * virtual time pass in seconds of real time. Workers load, work on each item for as long as a
 * distribution says, fail, crash, and lose their devices, at rates that the caller gives. It uses
 * no clock and no file, and the seed is its only randomness: the same config gives the same result.
 *
 * Virtual time is counted in microseconds; the feeder is told milliseconds, as in a real run.
 */
#pragma once

#include "core/feed.h"
#include "sim/dist.h"

enum sim_kind {
    SIM_CHANNEL, /* asks for items, by credits */
    SIM_FILTER,  /* reads lines, writes lines; one item at a time */
};

/* All 0: no faults. */
struct sim_faults {
    double fail;         /* share of item runs that the worker reports as failed; tried again */
    double crash;        /* share of item runs in which the worker dies */
    double poison;       /* share of items that kill every worker that tries them */
    double start_fail;   /* share of starts that die while they load */
    double device_hours; /* mean time until a device is lost for good; 0 = never */
};

enum sim_span_kind {
    SPAN_LOADING, /* from the start to the first request, or to an early death */
    SPAN_ITEM,    /* an item that counted */
    SPAN_LOST,    /* work for nothing: failed, killed, or another copy was first */
};

struct sim_span {
    enum sim_span_kind kind;
    uint32_t worker, device;
    uint64_t from_us, to_us;
    /*
     * UINT64_MAX: the worker was loading, or died; then the span begins at the mean of the starts
     * of all items in work.
     */
    uint64_t item;
};

struct sim_config {
    /*
     * The feeder's settings: retries, batch, limits, … The simulator fills in workers, devices,
     * seed and order. spread_log2 0: as much as the items need, at most the usual spread.
     */
    struct feed_config feed;
    enum sim_kind kind;
    uint32_t n_devices;
    uint32_t workers_per_device; /* 0 = 1; devices times this: at most SIM_WORKERS_MAX */
    uint32_t concurrency;        /* channel: items in work at the same time; 0 = 1. Workers
                                  * times this: at most SIM_SLOTS_MAX */
    uint32_t ahead;              /* channel: items sent to a worker beyond `concurrency` */
    uint32_t block_items;        /* filter: reads so many items at a time, or to the end; 0 = 1 */
    uint32_t hold_items;         /* filter: gives so many answers at a time, or at its end; 0 = 1 */
    uint64_t n_items, seed;
    struct dist service;    /* how long an item takes */
    struct dist load;       /* how long a worker takes to load; drawn anew at each start */
    const double *slowness; /* [n_devices]: an item takes this many times as long; NULL: all 1 */
    bool sizes_are_known;   /* the longest go first; at most 16 million items */
    uint64_t turnaround_us; /* from an answer to the next item's arrival, if none was in hand */
    uint64_t mem_back_ms;   /* from a worker's death until its device's memory is free again */
    struct sim_faults faults;
    uint64_t steps_max; /* steps after which the run is given up; 0 = no limit */

    void *context; /* for the two callbacks, which may be NULL */
    /*
     * Called when a span of a worker's time ends. The spans of one worker come in the order of
     * their ends.
     */
    void (*on_span)(void *context, const struct sim_span *span);
    /* Called for each step of the feeder, with its actions, before the world carries them out. */
    void (*on_step)(void *context, const struct feed *feed, const struct feed_event *event,
                    const struct feed_action *actions, size_t n_actions);
};

enum {
    SIM_WORKERS_MAX = 65534,
    SIM_SLOTS_MAX = 1 << 24,
    SIM_YEARS_MAX = 100
};

enum sim_end {
    SIM_DONE,      /* all items are settled and all workers have ended */
    SIM_HALTED,    /* the feeder gave the run up; `halt` says why */
    SIM_STEPS,     /* steps_max reached */
    SIM_YEARS,     /* SIM_YEARS_MAX of virtual time were not enough */
    SIM_STUCK,     /* nothing can happen any more: a bug */
    SIM_NO_MEMORY, /* out of memory */
};

struct sim_result {
    enum sim_end end;
    enum feed_halt halt;
    uint64_t makespan_us; /* until the last item was settled, or the run was given up */
    /* Sums over all workers. The rest of workers * makespan_us is time without work. */
    uint64_t busy_us;    /* on items that counted; of concurrent items each counts in full */
    uint64_t loading_us; /* from starts to first requests */
    uint64_t lost_us;    /* on items that did not count */
    uint64_t alive_us;   /* from starts to ends */
    uint64_t done, aside, retries, reissued, crashes, starts, devices_lost;
    uint64_t steps; /* of the feeder */
};

/* The items that one worker has in work at the same time, at least 1. */
uint32_t sim_concurrency(const struct sim_config *config);

struct sim;

/* Borrows what `config` points to until sim_free(). NULL: out of memory. */
struct sim *sim_new(const struct sim_config *config);
/* Runs to the end. To be called once. */
void sim_run(struct sim *sim, struct sim_result *out);
void sim_free(struct sim *sim);
