/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated machine's state, shared by world.c (time, the feeder's actions) and actor.c
 * (workers).
 */
#pragma once

#include "sim/heap.h"
#include "sim/world.h"

enum future_kind {
    FUTURE_LOADED,  /* a worker is up and asks for work */
    FUTURE_FINISH,  /* item: which; count: when it began, in us; detail: enum fate */
    FUTURE_REQUEST, /* count: credits */
    FUTURE_END,     /* the worker's input has ended */
    FUTURE_ROOM,    /* a filter's pipe is empty again */
    FUTURE_SILENCE, /* a check whether a filter waits for more items is due */
    FUTURE_EXIT,    /* detail: enum feed_death */
    FUTURE_MEM_BACK,
    FUTURE_DEVICE_LOST,
};

enum fate {
    FATE_DONE,
    FATE_FAILED,
    FATE_CRASH
};

/*
 * Consecutive items that were sent to a worker and are not begun. The lists of these share one
 * pool.
 */
struct hand {
    uint64_t first, count;
    uint32_t next;
};

struct actor {
    bool is_alive, is_loaded, is_ending;
    uint32_t life;
    uint32_t in_work;    /* items */
    uint64_t in_hand;    /* items sent and not begun */
    uint32_t head, tail; /* the worker's list of struct hand; HAND_NONE: empty */
    uint64_t room;       /* filter: lines it can take, as the feeder was told */
    uint64_t n_read;     /* filter: items of a block it read and has not begun */
    uint64_t n_held;     /* filter: answers it has not given yet */
    uint64_t heard_us;   /* filter: when items or answers last passed */
    bool is_watched;     /* a FUTURE_SILENCE is planned */
    uint64_t started_us;
    /*
     * The sum of the starts of the items in work, from which a death takes its lost time; a double,
     * because the sum is too large for an integer.
     */
    double began_sum_us;
};

enum {
    HAND_NONE = UINT32_MAX,
    FILTER_ROOM = 512, /* lines in a filter's pipe */
    SILENCE_MS = 200,  /* after this silence a filter is checked for waiting */
    LOOK_MS = 100      /* the time between later checks */
};

struct sim {
    struct sim_config config;
    struct feed_config feed_config;
    struct feed *feed;
    struct rng rng;
    struct future_heap heap;
    uint64_t now_us;
    uint32_t n_workers, concurrency;
    uint32_t *device_of, *order;
    struct actor *actors;
    struct hand *hands;
    uint32_t hands_cap, hands_used, hands_free;

    /* Events that follow at once from the feeder's actions; the feeder gets them after its step. */
    struct feed_event *queue;
    size_t n_queue, queue_cap;
    bool was_dropped; /* the last result was a failure, or another copy was first */
    bool is_complete, is_over, out_of_memory;
    struct sim_result result;
};

/* world.c */
void world_step(struct sim *s, struct feed_event event);
void world_plan(struct sim *s, uint64_t delay_us, struct future future);
void world_span(struct sim *s, enum sim_span_kind kind, uint32_t worker, uint64_t from_us,
                uint64_t item);

/* actor.c: requests to a worker, and what a worker does by itself */
void actor_spawn(struct sim *s, uint32_t worker);
void actor_receive(struct sim *s, uint32_t worker, uint64_t first, uint64_t count);
void actor_end(struct sim *s, uint32_t worker);
void actor_terminate(struct sim *s, uint32_t worker);
void actor_future(struct sim *s, const struct future *future);
