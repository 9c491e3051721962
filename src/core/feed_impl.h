/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder's state, shared by its files:
 *   feed.c          events                       feed_worker.c    workers, from start to end
 *   feed_window.c   slots of items               feed_death.c     what a worker's death means
 *   feed_items.c    owners, commits              feed_limits.c    time limits
 *   feed_pool.c     items that wait for a retry  feed_reissue.c   second copies
 *   feed_groups.c   suspects                     feed_buffered.c  filters that hold answers back
 *   feed_send.c     dispatch                     feed_unfit.c     malformed records
 *   feed_bench.c    devices lost and back         feed_seats.c     seats that come and go
 *
 * With ten thousand workers a step must not visit all of them. So an item's slot is linked into its owner's
 * list, workers with a time limit are in a heap by that time, and groups and idle workers are in queues.
 */
#pragma once

#include "core/feed.h"

enum {
    FIFO_CAP = 256,     /* ranges in flight in one filter */
    MISMATCHES_MAX = 3, /* filters out of step, after which the run is given up */
    BACKOFF_MS = 250,   /* before the first retry; doubles, at most BACKOFF_MAX_MS */
    BACKOFF_MAX_MS = 30000,
    WINDOW_TARGET_MS = 200, /* of work kept in flight in a filter */
    REISSUE_MIN_MS = 50,    /* a second copy must be worth at least this */
    NONE = UINT32_MAX,
};

enum slot_state {
    SLOT_FREE,
    SLOT_SENT,
    SLOT_WAITING,
    SLOT_COMMITTING,
    SLOT_ASIDE,
    SLOT_DONE,
};

enum slot_flags {
    ANSWERED_FIRST = 1,
    ANSWERED_SECOND = 2,
    SPARED = 4,      /* its worker died with it alone; the device, without results, was blamed */
    WHOLE_AGAIN = 8, /* its fixed batch is tried once more as a whole */
    LASTING = SPARED | WHOLE_AGAIN /* flags that stay until the item is settled */
};

/* Links in the list of a worker's items: references made by feed_window.c; NONE at the ends. */
struct links {
    uint32_t next, prev;
};

/* One item between frontier and frontier + spread. Owners are worker + 1; 0: none. */
struct slot {
    struct links links;  /* of the first owner */
    uint32_t sent_order; /* the number of the send of which it was a part; may wrap */
    uint16_t owner[2];
    uint8_t state, flags, failures;
    uint8_t
        copy_failed; /* one of its copies failed: no further copy is made while the other runs */
};

/* The slots of adjacent items or, if folded, the common state of all of them. */
struct block {
    struct links links;
    uint32_t slots; /* the first slot; NONE: folded */
    uint32_t sent_order;
    uint16_t owner;     /* worker + 1 */
    uint8_t state;      /* FREE, SENT, COMMITTING or DONE */
    uint8_t n_answered; /* how many of the sent items are answered: the first ones */
};

/* A range of items that wait for a retry. It is in the pool; lists are linked by index. */
struct chunk {
    uint64_t first;
    uint32_t count;
    uint32_t avoid_device; /* where it failed; NONE: nowhere */
    uint64_t not_before_ms;
    uint32_t next;
    uint32_t group; /* the delayed group whose first chunk it is; NONE: none */
};

/* Items one of which killed a worker: they run together, alone on a worker, and are halved. */
struct group {
    uint32_t head; /* chunks, in item order */
    uint32_t count;
    uint32_t worker; /* NONE: waiting for one */
    uint32_t avoid_device;
    uint64_t not_before_ms;
    uint32_t next; /* in the list of free, or of ripe, groups */
};

struct sent_range {
    uint64_t first;
    uint32_t count;
};

/* A worker, and how long its work will last. */
struct victim {
    double left_ms;
    uint32_t worker;
};

/* The items that a worker has. */
struct given {
    uint32_t in_flight;   /* sent and unanswered, losers included for filters */
    uint32_t losers;      /* channel: items answered elsewhere that this worker still computes */
    uint32_t provisional; /* filter: answered, not confirmed */
    uint32_t head, tail;  /* of the list of items that it owns first, in the order of sending */
    uint64_t copy;        /* the item of which it has the second copy; UINT64_MAX: none */
    /* The oldest item at the last check of the item limit, and since when it has been the oldest. */
    uint64_t oldest, oldest_since_ms;
    uint32_t oldest_order;
    uint32_t fifo_head, fifo_len;
    struct sent_range *fifo; /* [FIFO_CAP] */
};

/* Times of a worker's events, and its speed. */
struct pace {
    uint64_t started_ms, first_answer_ms, last_progress_ms, last_send_ms, provisional_since_ms;
    uint64_t ended_ms;  /* ACT_END was given */
    uint64_t closed_ms; /* when it closed its input; UINT64_MAX: not closed */
    uint64_t not_before_ms, reissue_after_ms, silence_noted_ms;
    uint64_t again_ms; /* when its process has ended for sure: its items may run again then */
    double mean_ms, gap_max_ms;
    uint64_t way_ms;   /* of the next answer's time: items and answer travel, the worker is idle */
    uint64_t burst_ms; /* the longest silence that ended with several answers at once */
};

/* A filter that gets no items until its answers are confirmed. */
struct drain {
    bool is_on;
    bool last_was_short;
    uint64_t settle_at_ms, since_ms, cost_ms; /* of the last drain */
};

/* A filter that buffers (feed_buffered.c): facts about the seat, over all its processes. */
struct buffering {
    bool is_on;
    uint64_t quota;       /* items for one process, after which its input ends; 0: not known yet */
    uint64_t load_ms;     /* from its start until it began to read; 0: not seen yet */
    uint64_t end_ms;      /* from its last answer to its exit */
    uint64_t shortest_ms; /* the shortest time from start to end of a process */
    uint64_t last_items, last_ms; /* of the last process; 0: there was none */
    uint64_t seat_since_ms, gone_ms;
    uint64_t refill_ms; /* the shortest time from an exit to the next start */
    uint64_t n_sent;    /* to this process */
    bool is_probe;      /* it was ended after a time without work, to see what it holds back */
    bool has_read;      /* its input, in this life */
};

struct feed_worker {
    enum worker_state state;
    enum worker_mode mode;
    uint32_t device, next_on_device;
    struct {
        bool is_in; /* it is in the queue of idle workers */
        uint32_t next, prev;
    } idle;
    bool is_hand; /* counted in n_hands */
    bool memory_is_back, input_closed;
    bool has_ended;  /* it ended by itself, and well: limits and orders do not apply to it */
    bool lingers;    /* it is being ended because it did not end by itself; its answers count */
    bool has_shrunk; /* it ran out of memory, and its device's batches are at most half as large */
    uint32_t group;  /* the suspects on this worker; NONE: none */
    enum feed_cause ended_for;
    uint64_t round_trip_ms;
    uint64_t blame; /* the item for which it is ended; UINT64_MAX: none */

    struct given items;
    uint64_t credits, credits_peak, room, window;
    struct pace time;
    struct drain drain;
    struct buffering buffering;
    uint64_t answered_in_life, items_done;
    uint32_t deaths_in_row;
    struct {
        uint64_t at_ms; /* when to check its time limits; UINT64_MAX: never */
        uint32_t index; /* its position in f->looks */
    } look;
};

/* A set of devices for one worker. Its state is kept at its first device, whose number is the set's number. */
struct feed_device {
    uint32_t first; /* the first device of its set, perhaps itself */
    uint32_t host;
    uint32_t start_failures;
    uint32_t first_worker; /* linked by next_on_device; NONE: none */
    bool is_hopeless, is_benched;
    bool is_drained; /* given back (feed_seats.c): never benched, never used again */
    uint64_t results;
    uint32_t batch; /* limit after running out of memory; 0: none */
    /* Loss and return (feed_bench.c). */
    bool is_lost;          /* benched for CAUSE_LOST: may be used again */
    bool is_awaited;       /* lost with its host, which is asked for again: the run waits for it */
    uint32_t n_returns;    /* how often it was used again */
    uint64_t returned_ms;  /* when it was used again last */
    uint64_t return_at_ms; /* when it is used again, if it stays well; UINT64_MAX: it is not well */
};

/* The state of items, from the lowest unsettled one on (feed_window.c). */
struct feed_window {
    uint64_t spread, mask;
    struct block *blocks; /* [spread / block_size] */
    uint32_t block_log2, block_size;
    struct slot *slots; /* [spread], of unfolded blocks; taken from the first on, and reused */
    uint32_t slots_used, slots_free;
    uint64_t frontier, next, known;
    bool input_is_final;
    size_t done_cursor;
    uint64_t order_cursor;
    uint32_t sent_order;
};

/* Items that wait for a retry (feed_pool.c). */
struct pool {
    struct chunk *chunks; /* [spread]: in the worst case each item waits alone */
    uint32_t free, used;
    uint32_t ready_head, ready_tail;
    uint64_t ready_items, delayed_items;
    uint32_t *heap; /* delayed chunks by not_before_ms */
    uint32_t heap_len;
};

/* Groups of items one of which killed a worker (feed_groups.c). */
struct suspects {
    struct group *groups;
    uint32_t cap, used, free, in_use;
    uint32_t waiting, ripe; /* waiting: for a worker; ripe: those that may run now */
    uint32_t ripe_head, ripe_tail;
    uint64_t items;
    uint32_t quarantine; /* the worker that gets no items until it can take a group; NONE: none */
};

/* How many seats are in which state, and when a worker may be started. */
struct seat_counts {
    uint32_t n_loading, n_alive, n_absent;
    uint32_t n_sets, n_sets_alive; /* without those that were given back */
    uint32_t n_draining;           /* sets that were given back and still have workers */
    bool are_awaited;              /* further seats may come */
    bool have_hosts;               /* seats are on more than one host */
    uint32_t n_hands;              /* workers that start or load, have no items and are not idle */
    uint32_t absent_from;          /* all seats before this one are filled */
    uint64_t start_at_ms;          /* no worker is started before this time */
    uint64_t return_ms;            /* the earliest return_at_ms of all sets */
};

struct feed_tally {
    uint64_t settled, done_before, committed, failed_items, unfit;
    uint64_t retries, reissued, revoked, crashes, ooms, in_flight, provisional, committing;
    uint32_t mismatches;
    uint32_t deaths_known_to_fail; /* before a first result (is_known_to_fail) */
    uint64_t results;
};

struct feed {
    struct feed_config config;
    struct rng rng;
    uint64_t now_ms, wake_ms;

    struct feed_window window;
    struct pool pool;
    struct suspects suspects;
    struct feed_worker *workers;
    struct sent_range *fifos;
    struct feed_device *devices;
    struct {
        uint32_t head, tail, len;
    } idle; /* workers that could take more items; the longest waiting first */
    struct {
        uint32_t *heap; /* workers by look.at_ms */
        uint32_t len;
    } looks;
    struct {
        uint32_t *at; /* seats that get a worker again when time and memory allow */
        uint32_t len;
        uint64_t look_ms; /* when to look at them; UINT64_MAX: only after an event */
    } cooling;
    struct {
        struct victim *heap; /* workers by how long their work will last, as of as_of_ms */
        uint32_t len;
        uint64_t as_of_ms, oldest_ms; /* oldest_ms: the last progress of the most silent one */
        bool are_old;                 /* other workers may have become candidates since */
        /* The worker that would be done with a copy first, and the first one on another host. */
        struct victim soonest[2];
    } victims;
    struct seat_counts seats;
    struct feed_tally counts;

    struct {
        bool is_stopping, is_at_once, is_complete, is_over;
        uint8_t level; /* the level of the last everybody_end */
        enum feed_halt why;
    } end;
    struct {
        struct feed_action *at;
        size_t len, cap;
    } out; /* the actions of the present step */
};

/* feed.c */
void emit(struct feed *f, enum feed_action_kind kind, uint32_t worker, uint64_t item,
          uint64_t count, uint32_t detail);
void wake_at(struct feed *f, uint64_t at_ms);
void halt(struct feed *f, enum feed_halt why);

/* feed_window.c */
uint32_t block_log2(uint64_t spread);
/* The first item that may not be sent yet. */
uint64_t window_end(const struct feed *f);
/* Unfolds the item's block; to read only, use slot_peek. */
struct slot *slot_of(struct feed *f, uint64_t item);
struct slot slot_peek(const struct feed *f, uint64_t item);
/* A walk over a worker's items, in the order of sending; its second copy, if it has one, comes last. */
struct owned {
    uint32_t next;         /* reference, NONE: at the end */
    struct sent_range run; /* items that owned_next returns one by one */
    bool copy_is_next;
};
struct owned owned_begin(const struct feed *f, uint32_t worker);
/* The next item or folded block; count 0 at the end. Items returned before may be disowned meanwhile. */
struct sent_range owned_run(const struct feed *f, uint32_t worker, struct owned *at);
/* The next item, UINT64_MAX at the end. */
uint64_t owned_next(const struct feed *f, uint32_t worker, struct owned *at);
/* The last unanswered item that no other worker has; UINT64_MAX: none. */
uint64_t owned_last_alone(const struct feed *f, uint32_t worker);
void owned_link(struct feed *f, uint32_t worker, uint64_t item);
void owned_unlink(struct feed *f, uint32_t worker, uint64_t item);
/*
 * These change all items of a block at once, if the given items begin with a folded block in the right state.
 * They return how many items were changed; 0: change each item by its slot.
 */
uint32_t block_send(struct feed *f, uint32_t worker, struct sent_range items);
uint32_t block_answer(struct feed *f, uint32_t worker, struct sent_range items);
uint32_t block_win(struct feed *f, uint32_t worker, struct sent_range items);
uint32_t block_done(struct feed *f, struct sent_range items);
/* Marks first … end-1 as done by an earlier session. */
void items_skip(struct feed *f, uint64_t first, uint64_t end);
/* Moves the frontier over done items. */
void frontier_advance(struct feed *f);
/* Moves the frontier to an item further on, if there are no items between frontier and next. */
void frontier_jump(struct feed *f, uint64_t item);

/* feed_items.c */
bool is_in_window(const struct feed *f, uint64_t item);
/* Take up to `max` items that were never sent, as one run; count 0 when there are none now. */
struct sent_range fresh_take(struct feed *f, uint64_t max);
bool fresh_is_there(struct feed *f);
/* --fixed-batches: how many items from this one on may share its batch. */
uint64_t batch_left(const struct feed *f, uint64_t item);
uint64_t unsettled(const struct feed *f);
/* True if its answers are matched by their order; its items are then in its fifo. */
bool answers_in_order(const struct feed_worker *w);
void items_sent(struct feed *f, uint32_t worker, struct sent_range range);
/* Which of the item's owners the worker is; -1: none. */
int owner_index(const struct slot *slot, uint32_t worker);
bool item_is_owned(struct feed *f, uint32_t worker, uint64_t item);
/* Removes `worker` from the owners. True if the item has no owner now; it is then WAITING. */
bool item_disown(struct feed *f, uint32_t worker, uint64_t item);
/* The worker's result for the item counts: start its commit. False if another copy was first. */
bool item_win(struct feed *f, uint32_t worker, uint64_t item);
/* Removes all owners of the item, which will be set aside. False if `worker` is not one of them. */
bool item_withdraw(struct feed *f, uint32_t worker, uint64_t item);
/* Charges one more failure to the item: it is retried later, or set aside. */
void item_charge(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause, bool retry);
/* One of two copies failed. The item is not copied again, since two workers could pass an item that always fails
 * to each other without end. */
void item_copy_failed(struct feed *f, uint64_t item, bool retry);
/* Ends the run if more items were set aside than may be. */
void failures_judge(struct feed *f);
void item_set_aside(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause);
void items_committed(struct feed *f, uint64_t first, uint64_t count);
/* The worker's items wait again, and none is charged; an item of which another copy runs does not wait. */
void owned_return(struct feed *f, uint32_t worker, bool provisional_only);
/* True if the worker has answered this item of its own, and the answer is not confirmed yet. */
bool is_provisional(struct feed *f, uint32_t worker, uint64_t item);
/* Commits every answered item of a filter. */
void provisional_confirm(struct feed *f, uint32_t worker);
/* Forgets the answers: the items count as unanswered, and are judged with those. */
void provisional_doubt(struct feed *f, uint32_t worker);
/* Forgets the answers: the items wait again, and none is charged. */
void provisional_revoke(struct feed *f, uint32_t worker);

/* feed_pool.c */
void pool_add(struct feed *f, struct sent_range range, uint64_t not_before_ms,
              uint32_t avoid_device);
/* Takes up to max items that may be tried now; prefers those that did not fail on `device`. */
struct sent_range pool_take(struct feed *f, uint64_t max, uint32_t device);
void pool_ripen(struct feed *f);
uint32_t chunk_new(struct feed *f, struct chunk chunk);
void chunk_free(struct feed *f, uint32_t index);
/* Adds a chunk to the heap of delayed ones. */
void delayed_push(struct feed *f, uint32_t index);
/* True if items that failed on avoid_device, and may run from not_before_ms on, should not run on `device` yet. */
bool is_avoided(struct feed *f, uint32_t avoid_device, uint64_t not_before_ms, uint32_t device);

/* feed_groups.c */
void group_ripen(struct feed *f, uint32_t index);
/* Makes two groups of suspects of the items that a dead worker had. */
void suspects_add(struct feed *f, const struct sent_range *ranges, size_t n_ranges,
                  uint32_t avoid_device, uint64_t not_before_ms);
bool suspects_assign(struct feed *f, uint32_t worker);
struct sent_range suspects_take(struct feed *f, uint32_t worker, uint64_t max);
/* Puts back items of the group that were sent, and not read. */
void suspects_put_back(struct feed *f, uint32_t worker, struct sent_range range);
/* The worker is dead, or has done its group: releases the group. */
void suspects_release(struct feed *f, uint32_t worker);
/* True if there is a group that this worker may take now. */
bool suspects_are_waiting(struct feed *f, uint32_t worker);

/* feed_send.c */
void feed_worker_dispatch(struct feed *f, uint32_t worker);
void idle_feed(struct feed *f);
void idle_push(struct feed *f, uint32_t worker);
void idle_remove(struct feed *f, uint32_t worker);
/* How many more items the worker takes now. */
uint64_t capacity(const struct feed *f, const struct feed_worker *w);
bool work_is_there(struct feed *f);
/* The limit on items at once: --batch, or less after running out of memory; 0: none. */
uint32_t batch_now(const struct feed *f, const struct feed_worker *w);
void window_learn(struct feed *f, uint32_t worker, uint64_t count);
void send_to(struct feed *f, uint32_t worker, struct sent_range range);
/* Looks for work for a worker without items. */
void idle_look(struct feed *f, uint32_t worker);

/* feed_buffered.c */
/* The filter has begun to read. */
void buffered_reads(struct feed *f, uint32_t worker);
/* A filter waits for input with items unanswered. True: its input was ended for that. */
bool buffered_found(struct feed *f, uint32_t worker);
/* True if this process has had its time. */
bool buffered_is_due(const struct feed *f, const struct feed_worker *w);
/* With a quota: how many items to have in flight, limited by how many it may still get. */
uint64_t buffered_window(const struct feed *f, const struct feed_worker *w);
uint64_t buffered_left(const struct feed_worker *w);
/* Ends its input if it has got its quota; `share`: the most that a worker gets at the end of the data. */
void buffered_end_if_full(struct feed *f, uint32_t worker, uint64_t share);
/* Measures, after a process that ended well. */
void buffered_learn(struct feed *f, uint32_t worker);

/* feed_reissue.c */
/* Gives the worker a second copy of the item that will be finished last, if that saves time. */
bool reissue(struct feed *f, uint32_t worker);

/* feed_worker.c */
bool feed_worker_is_running(const struct feed_worker *w);
void feed_worker_state_set(struct feed *f, struct feed_worker *w, enum worker_state state);
/* To be called after any change of what n_hands counts. */
void hand_touch(struct feed *f, struct feed_worker *w);
void seats_fill(struct feed *f);
/* The seat gets a worker when its memory is back and its pause is over. */
void cooling_add(struct feed *f, uint32_t worker);
void feed_worker_started(struct feed *f, uint32_t worker);
/* The worker gave a sign that it is ready. */
void feed_worker_is_live(struct feed *f, uint32_t worker);
void feed_worker_becomes_channel(struct feed *f, uint32_t worker);
void feed_worker_answered(struct feed *f, uint32_t worker, uint64_t count);
/* A filter has answered everything: confirms the answers when no more come for a while. */
void feed_worker_settle(struct feed *f, uint32_t worker);
/* No more answers can come, or none came for long enough. */
void feed_worker_settled(struct feed *f, uint32_t worker);
/* The filter works although it has answered everything: one of its lines may not be an answer. */
void feed_worker_works(struct feed *f, uint32_t worker);
void feed_worker_out_of_step(struct feed *f, uint32_t worker);
/* Ends the worker because of this item, which is charged; its other items are not. */
void feed_worker_blame(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause);
void feed_worker_result(struct feed *f, uint32_t worker, uint64_t item);
void feed_worker_failure(struct feed *f, uint32_t worker, uint64_t item, bool retry);
void batch_settle(struct feed *f, uint32_t worker);
/* Takes a range of at most `max` items from the head of what a filter was sent. */
struct sent_range fifo_take(struct feed_worker *w, uint64_t max);
void feed_worker_end(struct feed *f, uint32_t worker);
void feed_worker_terminate(struct feed *f, uint32_t worker, enum feed_cause cause);
void everybody_end(struct feed *f);

/* feed_unfit.c */
void feed_worker_unfit(struct feed *f, uint32_t worker, uint64_t item);
void feed_worker_passed(struct feed *f, uint32_t worker, uint64_t count);

/* feed_bench.c */
/* The set gets no more workers; its present ones are ended. */
void device_bench(struct feed *f, uint32_t device, enum feed_cause cause);
/* Ends the run early if no set is left, none may return with its host, and none may come. */
void no_devices_check(struct feed *f);
/* Benches a lost set. seen_since_ms: when the process that reports the loss was started. */
void device_lost(struct feed *f, uint32_t device, uint64_t seen_since_ms);
/* A lost set is well again; it is used again if it stays well. */
void device_back(struct feed *f, uint32_t device);
/* Uses again the sets whose time has come. */
void returns_check(struct feed *f);

/* feed_seats.c */
/* The seats and devices of the start. */
void seats_init(struct feed *f);
void device_up(struct feed *f, uint32_t first, uint32_t host);
void seat_up(struct feed *f, uint32_t device, uint64_t round_trip_ms);
/* The set gets no more workers. Its present ones finish the items that they have; `now`: they are ended. */
void set_drain(struct feed *f, uint32_t device, bool now);
/* A worker of a set that was given back is gone. */
void set_vacate(struct feed *f, uint32_t device);

/* feed_death.c */
void feed_worker_exited(struct feed *f, uint32_t worker, enum feed_death death);
/* Limits the items at once on this device. */
void device_limit(struct feed *f, uint32_t device, uint64_t batch_max);

/* feed_limits.c */
/* Makes limits_check look at this worker at that time at the latest. */
void look_at(struct feed *f, uint32_t worker, uint64_t at_ms);
/* When limits_check has to be called; UINT64_MAX: never. */
uint64_t looks_next_ms(const struct feed *f);
/* The filter has closed its input: it is out of step unless it ends soon. */
void feed_worker_closed(struct feed *f, uint32_t worker);
/* Checks the time limits of all workers whose time has come. */
void limits_check(struct feed *f);
/* Items were sent: makes sure that the worker's limits are checked in time. */
void limits_arm(struct feed *f, uint32_t worker);
