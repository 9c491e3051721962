/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder's state, shared by its files:
 *   feed.c          events                       feed_worker.c    workers, from start to end
 *   feed_window.c   slots of items               feed_death.c     what a worker's death means
 *   feed_items.c    owners, commits              feed_limits.c    what time brings about
 *   feed_pool.c     what waits for another try   feed_reissue.c   second copies
 *   feed_groups.c   suspects                     feed_buffered.c  filters that hold answers back
 *   feed_send.c     who gets what                feed_unfit.c     records that are none
 *   feed_bench.c    devices lost and back
 *
 * With ten thousand workers a step must not look at all of them. What has to be found is kept where it
 * is found at once: an item's slot is linked into its owner's list, workers that time will do something
 * to stand in a heap, groups and idle workers in queues.
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
    ANSWERED_SECOND = 2
};

/* In the list of a worker's items; references as feed_window.c makes them, NONE at its ends. */
struct links {
    uint32_t next, prev;
};

/* One item between frontier and frontier + spread. Owners are worker + 1, 0 = nobody. */
struct slot {
    struct links links;  /* of the first owner */
    uint32_t sent_order; /* which send it went with, counted up; may wrap */
    uint16_t owner[2];
    uint8_t state, flags, failures;
    uint8_t copy_failed; /* one of its copies: there is no further one while the other is at work */
};

/* The slots of adjacent items, or, folded, what is true of all of them. */
struct block {
    struct links links;
    uint32_t slots; /* the first of them, NONE: folded */
    uint32_t sent_order;
    uint16_t owner;     /* worker + 1 */
    uint8_t state;      /* FREE, SENT, COMMITTING or DONE */
    uint8_t n_answered; /* of those sent, the first so many */
};

/* A run of items that wait for another try. Lives in the pool; lists are linked by index. */
struct chunk {
    uint64_t first;
    uint32_t count;
    uint32_t avoid_device; /* where it failed, NONE */
    uint64_t not_before_ms;
    uint32_t next;
    uint32_t group; /* it heads a group that is delayed; NONE: it stands for itself */
};

/* Items one of which killed a worker: they run together, alone on a worker, and are halved. */
struct group {
    uint32_t head; /* chunks, in item order */
    uint32_t count;
    uint32_t worker; /* NONE: waiting for one */
    uint32_t avoid_device;
    uint64_t not_before_ms;
    uint32_t next; /* of those that are free, or ripe */
};

struct sent_range {
    uint64_t first;
    uint32_t count;
};

/* A worker of whose work others might take copies. */
struct victim {
    double left_ms;
    uint32_t worker;
};

/* What a worker was given. */
struct given {
    uint32_t in_flight;   /* sent and unanswered, losers included for filters */
    uint32_t losers;      /* channel: items answered elsewhere that this one still computes */
    uint32_t provisional; /* filter: answered, not confirmed */
    uint32_t head, tail;  /* of the list of items it was given as the first, in order of sending */
    uint64_t copy;        /* the item of which it has the second copy, UINT64_MAX */
    /* what the item limit looked at last, and since when it has been the oldest in hand */
    uint64_t oldest, oldest_since_ms;
    uint32_t oldest_order;
    uint32_t fifo_head, fifo_len;
    struct sent_range *fifo; /* [FIFO_CAP] */
};

/* When it did what, and how fast it is. */
struct pace {
    uint64_t started_ms, first_answer_ms, last_progress_ms, last_send_ms, provisional_since_ms;
    uint64_t ended_ms;  /* ACT_END was given */
    uint64_t closed_ms; /* it closed its input, UINT64_MAX: it did not */
    uint64_t not_before_ms, reissue_after_ms, silence_noted_ms;
    double mean_ms, gap_max_ms;
    uint64_t burst_ms; /* the longest silence that ended with several answers at one time */
};

/* A filter that gets nothing until its answers are confirmed. */
struct drain {
    bool is_on;
    bool last_was_short;
    uint64_t settle_at_ms, since_ms, cost_ms; /* of the last drain */
};

/* A filter that buffers (feed_buffered.c): what is known of the seat, over all its workers. */
struct buffering {
    bool is_on;
    uint64_t quota;       /* items of a worker, after which its input ends; 0: not known yet */
    uint64_t load_ms;     /* until it began to read; 0: not seen yet */
    uint64_t end_ms;      /* from its last answer to its exit */
    uint64_t shortest_ms; /* of its workers, from start to end */
    uint64_t last_items, last_ms; /* of the last of them; 0: there was none */
    uint64_t seat_since_ms, gone_ms;
    uint64_t refill_ms; /* the shortest time from a death to the next start */
    uint64_t n_sent;    /* to this worker */
    bool is_probe;      /* it was ended to see what it holds back, after a time without work */
};

struct feed_worker {
    enum worker_state state;
    enum worker_mode mode;
    uint32_t device, next_on_device;
    struct {
        bool is_in; /* the queue of the idle */
        uint32_t next, prev;
    } idle;
    bool is_hand; /* counted in n_hands */
    bool memory_is_back, input_closed;
    bool has_ended;  /* by itself and well: neither limits nor orders concern it */
    bool lingers;    /* it is ended because it does not end by itself; its answers count */
    bool has_shrunk; /* it ran out of memory, and its device's batches are smaller since */
    uint32_t group;  /* suspects on this worker, NONE */
    enum feed_cause ended_for;
    uint64_t blame; /* the item that made us end it, UINT64_MAX */

    struct given items;
    uint64_t credits, credits_peak, room, window;
    struct pace time;
    struct drain drain;
    struct buffering buffering;
    uint64_t answered_in_life, items_done;
    uint32_t deaths_in_row;
    struct {
        uint64_t at_ms; /* when to look whether time has brought about anything, UINT64_MAX */
        uint32_t index; /* its position in f->looks */
    } look;
};

/* What a worker stands on: a set of devices. All is kept at the first of them, whose number is the set's. */
struct feed_device {
    uint32_t first; /* of its set; itself, if it is that */
    uint32_t start_failures;
    uint32_t first_worker; /* linked by next_on_device, NONE */
    bool is_hopeless, is_benched;
    uint64_t results;
    uint32_t batch; /* limit after running out of memory, 0 none */
    /* Lost and found again (feed_bench.c). */
    bool is_lost;         /* benched for CAUSE_LOST: may be used again */
    uint32_t n_returns;   /* how often it was used again */
    uint64_t returned_ms; /* the last time of these */
    uint64_t
        return_at_ms; /* it is well, and is used again then if it stays well; UINT64_MAX: it is not */
};

/* The items that are looked at, from the lowest unsettled one on (feed_window.c). */
struct feed_window {
    uint64_t spread, mask;
    struct block *blocks; /* [spread / block_size] */
    uint32_t block_log2, block_size;
    struct slot *slots; /* [spread], of unfolded blocks, used from the first on and used again */
    uint32_t slots_used, slots_free;
    uint64_t frontier, next, known;
    bool input_is_final;
    size_t done_cursor;
    uint64_t order_cursor;
    uint32_t sent_order;
};

/* What waits for another try (feed_pool.c). */
struct pool {
    struct chunk *chunks; /* [spread]: at worst each item waits alone */
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
    uint32_t waiting, ripe; /* for a worker; those of them that may run now */
    uint32_t ripe_head, ripe_tail;
    uint64_t items;
    uint32_t quarantine; /* the worker that runs empty in order to take a group, NONE */
};

/* How many seats are in which state, and when one may be filled. */
struct seat_counts {
    uint32_t n_loading, n_alive, n_absent, n_sets, n_sets_alive;
    uint32_t n_hands;     /* that start or load, have nothing and are not idle */
    uint32_t absent_from; /* no seat before this one is empty */
    uint64_t start_at_ms; /* no worker is started before */
    uint64_t return_ms;   /* of all sets, the first return_at_ms */
};

struct feed_tally {
    uint64_t settled, done_before, committed, failed_items, unfit;
    uint64_t retries, reissued, revoked, crashes, ooms, in_flight, provisional, committing;
    uint32_t mismatches;
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
    } idle; /* those that could take more; the longest waiting first */
    struct {
        uint32_t *heap; /* workers by look.at_ms */
        uint32_t len;
    } looks;
    struct {
        uint32_t *at; /* workers whose seat may be filled again when time and memory allow */
        uint32_t len;
        uint64_t look_ms; /* when to look at them, UINT64_MAX: not before something happens */
    } cooling;
    struct {
        struct victim *heap; /* whose work will last longest, as of as_of_ms */
        uint32_t len;
        uint64_t as_of_ms, oldest_ms; /* since when the most silent of them is */
        bool are_old;                 /* there may be more by now */
    } victims;
    struct seat_counts seats;
    struct feed_tally counts;

    struct {
        bool is_stopping, is_at_once, is_complete, is_over;
        uint8_t level; /* what everybody_end was last called for */
        enum feed_halt why;
    } end;
    struct {
        struct feed_action *at;
        size_t len, cap;
    } out; /* of the step that is being made */
};

/* feed.c */
void emit(struct feed *f, enum feed_action_kind kind, uint32_t worker, uint64_t item,
          uint64_t count, uint32_t detail);
void wake_at(struct feed *f, uint64_t at_ms);
void halt(struct feed *f, enum feed_halt why);

/* feed_window.c */
uint32_t block_log2(uint64_t spread);
/* Nothing from this item on may be sent now. */
uint64_t window_end(const struct feed *f);
/* Unfolds the item's block; to look only, slot_peek. */
struct slot *slot_of(struct feed *f, uint64_t item);
struct slot slot_peek(const struct feed *f, uint64_t item);
/* What a worker owns, in the order of sending; last the second copy that it has, if any. */
struct owned {
    uint32_t next;         /* reference, NONE: at the end */
    struct sent_range run; /* to be given one by one */
    bool copy_is_next;
};
struct owned owned_begin(const struct feed *f, uint32_t worker);
/* One item or a folded block, count 0 at the end. Those given before may be disowned meanwhile. */
struct sent_range owned_run(const struct feed *f, uint32_t worker, struct owned *at);
/* The next item, UINT64_MAX at the end. */
uint64_t owned_next(const struct feed *f, uint32_t worker, struct owned *at);
/* The last that is not answered and that nobody else has, UINT64_MAX. */
uint64_t owned_last_alone(const struct feed *f, uint32_t worker);
void owned_link(struct feed *f, uint32_t worker, uint64_t item);
void owned_unlink(struct feed *f, uint32_t worker, uint64_t item);
/*
 * The same for all items of a block, if the items given begin with one that is folded and like that.
 * They return how many items it was done to, 0: it is to be done to each by its slot.
 */
uint32_t block_send(struct feed *f, uint32_t worker, struct sent_range items);
uint32_t block_answer(struct feed *f, uint32_t worker, struct sent_range items);
uint32_t block_win(struct feed *f, uint32_t worker, struct sent_range items);
uint32_t block_done(struct feed *f, struct sent_range items);
/* first … end-1 were done by an earlier session. */
void items_skip(struct feed *f, uint64_t first, uint64_t end);
/* Over what is done, as far as it goes. */
void frontier_advance(struct feed *f);
/* To an item further on, when there is nothing between frontier and next. */
void frontier_jump(struct feed *f, uint64_t item);

/* feed_items.c */
bool is_in_window(const struct feed *f, uint64_t item);
/* Take up to `max` items that were never sent, as one run; count 0 when there are none now. */
struct sent_range fresh_take(struct feed *f, uint64_t max);
bool fresh_is_there(struct feed *f);
/* --fixed-batches: how many items from this one on may share its batch. */
uint64_t batch_left(const struct feed *f, uint64_t item);
uint64_t unsettled(const struct feed *f);
/* Its answers are matched by their order: what it was sent stands in its fifo. */
bool answers_in_order(const struct feed_worker *w);
void items_sent(struct feed *f, uint32_t worker, struct sent_range range);
/* Which of the item's owners is it? -1: none. */
int owner_index(const struct slot *slot, uint32_t worker);
bool item_is_owned(struct feed *f, uint32_t worker, uint64_t item);
/* Take `worker` off the owners. True if nobody owns the item now (it is WAITING then). */
bool item_disown(struct feed *f, uint32_t worker, uint64_t item);
/* The worker's result for the item counts: start its commit. False if another copy was first. */
bool item_win(struct feed *f, uint32_t worker, uint64_t item);
/* Take it off all its owners, to be set aside. False if `worker` is none of them. */
bool item_withdraw(struct feed *f, uint32_t worker, uint64_t item);
/* One more failure of its own: try again later, or set aside. */
void item_charge(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause, bool retry);
/* One of two copies failed. Were it copied again, two workers could hand an item that always fails to and fro for ever. */
void item_copy_failed(struct feed *f, uint64_t item, bool retry);
void item_set_aside(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause);
void items_committed(struct feed *f, uint64_t first, uint64_t count);
/* What it owns waits again, nobody is charged; what another copy is left of does not. */
void owned_return(struct feed *f, uint32_t worker, bool provisional_only);
/* Has this worker answered the item that it owns, and does that await its confirmation? */
bool is_provisional(struct feed *f, uint32_t worker, uint64_t item);
/* Commit every answered item of a filter. */
void provisional_confirm(struct feed *f, uint32_t worker);
/* Forget them: they count as unanswered, and are judged with those. */
void provisional_doubt(struct feed *f, uint32_t worker);
/* Forget them: they wait again, nobody is charged. */
void provisional_revoke(struct feed *f, uint32_t worker);

/* feed_pool.c */
void pool_add(struct feed *f, struct sent_range range, uint64_t not_before_ms,
              uint32_t avoid_device);
/* Up to max items that may be tried now, rather not such as failed on `device`. */
struct sent_range pool_take(struct feed *f, uint64_t max, uint32_t device);
void pool_ripen(struct feed *f);
uint32_t chunk_new(struct feed *f, struct chunk chunk);
void chunk_free(struct feed *f, uint32_t index);
/* In the heap of what is delayed. */
void delayed_push(struct feed *f, uint32_t index);
/* Is a device to be avoided by what failed on it and may run from not_before_ms on? */
bool is_avoided(struct feed *f, uint32_t avoid_device, uint64_t not_before_ms, uint32_t device);

/* feed_groups.c */
void group_ripen(struct feed *f, uint32_t index);
/* Two halves of what was in a dead worker's hand, as groups of suspects. */
void suspects_add(struct feed *f, const struct sent_range *ranges, size_t n_ranges,
                  uint32_t avoid_device, uint64_t not_before_ms);
bool suspects_assign(struct feed *f, uint32_t worker);
struct sent_range suspects_take(struct feed *f, uint32_t worker, uint64_t max);
/* Of what was sent, this was not read. */
void suspects_put_back(struct feed *f, uint32_t worker, struct sent_range range);
/* The worker is dead or done with its group: nothing more of it is to be sent. */
void suspects_release(struct feed *f, uint32_t worker);
/* Is there a group that this worker may take now? */
bool suspects_are_waiting(struct feed *f, uint32_t worker);

/* feed_send.c */
void feed_worker_dispatch(struct feed *f, uint32_t worker);
void idle_feed(struct feed *f);
void idle_push(struct feed *f, uint32_t worker);
bool work_is_there(struct feed *f);
/* The limit on items at once: --batch, or less after running out of memory; 0 none. */
uint32_t batch_now(const struct feed *f, const struct feed_worker *w);
void window_learn(struct feed *f, uint32_t worker, uint64_t count);
void send_to(struct feed *f, uint32_t worker, struct sent_range range);
/* A worker without work looks again. */
void idle_look(struct feed *f, uint32_t worker);

/* feed_buffered.c */
/* It has begun to read. */
void buffered_reads(struct feed *f, uint32_t worker);
/* A filter waits for input with items unanswered. True: its input was ended for it. */
bool buffered_found(struct feed *f, uint32_t worker);
/* Has its life lasted long enough? */
bool buffered_is_due(const struct feed *f, const struct feed_worker *w);
/* Of a life with a quota: how many items at one time, and how many it may still be sent. */
uint64_t buffered_window(const struct feed *f, const struct feed_worker *w);
uint64_t buffered_left(const struct feed_worker *w);
/* End its input if it has got what it should; `share`: nobody gets more at the end of the data. */
void buffered_end_if_full(struct feed *f, uint32_t worker, uint64_t share);
/* After a life that ended well. */
void buffered_learn(struct feed *f, uint32_t worker);

/* feed_reissue.c */
/* A second copy of what will be finished last, if that is worth it. */
bool reissue(struct feed *f, uint32_t worker);

/* feed_worker.c */
bool feed_worker_is_running(const struct feed_worker *w);
void feed_worker_state_set(struct feed *f, struct feed_worker *w, enum worker_state state);
/* After any change to what n_hands counts. */
void hand_touch(struct feed *f, struct feed_worker *w);
void seats_fill(struct feed *f);
/* The seat may be filled when its memory is back and its pause is over. */
void cooling_add(struct feed *f, uint32_t worker);
void feed_worker_started(struct feed *f, uint32_t worker);
/* It gave a sign of being ready for work. */
void feed_worker_is_live(struct feed *f, uint32_t worker);
void feed_worker_becomes_channel(struct feed *f, uint32_t worker);
void feed_worker_answered(struct feed *f, uint32_t worker, uint64_t count);
/* A filter whose answers are all in: confirm when nothing more came for a while. */
void feed_worker_settle(struct feed *f, uint32_t worker);
/* Nothing more can come, or nothing came for long enough. */
void feed_worker_settled(struct feed *f, uint32_t worker);
/* It is seen at work though it has answered all: one of its lines may be no answer. */
void feed_worker_works(struct feed *f, uint32_t worker);
void feed_worker_out_of_step(struct feed *f, uint32_t worker);
/* It is ended because of this item, which is charged; the others that it has are not. */
void feed_worker_blame(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause);
void feed_worker_result(struct feed *f, uint32_t worker, uint64_t item);
void feed_worker_failure(struct feed *f, uint32_t worker, uint64_t item, bool retry);
void batch_settle(struct feed *f, uint32_t worker);
/* Off the head of what a filter was sent: a run of at most `max` items. */
struct sent_range fifo_take(struct feed_worker *w, uint64_t max);
void feed_worker_end(struct feed *f, uint32_t worker);
void feed_worker_terminate(struct feed *f, uint32_t worker, enum feed_cause cause);
void everybody_end(struct feed *f);

/* feed_unfit.c */
void feed_worker_unfit(struct feed *f, uint32_t worker, uint64_t item);
void feed_worker_passed(struct feed *f, uint32_t worker, uint64_t count);

/* feed_bench.c */
/* The set gets no more workers; those it has are ended. */
void device_bench(struct feed *f, uint32_t device, enum feed_cause cause);
/* The same for a lost set. seen_since_ms: when the process that tells of the loss was started. */
void device_lost(struct feed *f, uint32_t device, uint64_t seen_since_ms);
/* A lost set is well again: it is used again if it stays so. */
void device_back(struct feed *f, uint32_t device);
/* Uses again the sets whose time has come. */
void returns_check(struct feed *f);

/* feed_death.c */
void feed_worker_exited(struct feed *f, uint32_t worker, enum feed_death death);
void device_shrink(struct feed *f, uint32_t device, uint64_t batch_failed);

/* feed_limits.c */
/* Look at this worker then, at the latest. */
void look_at(struct feed *f, uint32_t worker, uint64_t at_ms);
/* When the first is to be looked at, UINT64_MAX. */
uint64_t looks_next_ms(const struct feed *f);
/* It reads no more: it is out of step unless it ends soon. */
void feed_worker_closed(struct feed *f, uint32_t worker);
/* Look at all those whose time has come. */
void limits_check(struct feed *f);
/* Something was sent: see to it that its worker is looked at in time, whatever else happens. */
void limits_arm(struct feed *f, uint32_t worker);
