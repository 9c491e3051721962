/* SPDX-License-Identifier: Apache-2.0
 *
 * Events in, actions out. The table at the end of this file has the handler of each event.
 */
#include "core/feed_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    SPREAD_LOG2_DEFAULT = 19,
    SPREAD_WORKER =
        128 /* least items for each worker: a thousand workers finish fewer in no time */
};

void emit(struct feed *f, enum feed_action_kind kind, uint32_t worker, uint64_t item,
          uint64_t count, uint32_t detail)
{
    ASSERT(f->out.len < f->out.cap);
    f->out.at[f->out.len++] = (struct feed_action){kind, worker, item, count, detail};
}

void wake_at(struct feed *f, uint64_t at_ms)
{
    f->wake_ms = MIN(f->wake_ms, MAX(at_ms, f->now_ms + 1));
}

void halt(struct feed *f, enum feed_halt why)
{
    if (f->end.why != HALT_NONE || f->end.is_complete)
        return;
    f->end.why = why;
    f->end.is_stopping = f->end.is_at_once = true;
    emit(f, ACT_HALT, NONE, 0, 0, why);
}

static uint64_t done_total(const struct feed_config *config)
{
    uint64_t total = 0;
    for (size_t i = 0; i < config->n_done; i++)
        total += config->done[i].count;
    return total;
}

uint32_t feed_spread_log2(uint32_t n_workers)
{
    uint32_t log2 = SPREAD_LOG2_DEFAULT;
    while (1ull << log2 < (uint64_t)SPREAD_WORKER * n_workers)
        log2++;
    return log2;
}

static uint64_t spread_of(const struct feed_config *config)
{
    uint32_t log2 = config->spread_log2;
    uint64_t spread = 1ull << (log2 > 0 ? log2 : feed_spread_log2(config->n_workers_max));
    while (config->order && spread < config->n_order)
        spread *= 2;
    return spread;
}

static void blocks_init(struct feed *f)
{
    f->window.slots_free = NONE;
    for (uint64_t i = 0; i < f->window.spread >> f->window.block_log2; i++)
        f->window.blocks[i] = (struct block){.slots = NONE};
}

/* With an order, there are slots for all items at once; the slots of done items are marked from the start. */
static void ordered_init(struct feed *f)
{
    for (size_t i = 0; f->config.order && i < f->config.n_done; i++)
        items_skip(f, f->config.done[i].first, f->config.done[i].first + f->config.done[i].count);
    if (f->config.order)
        f->window.next = f->config.n_order;
}

struct feed *feed_new(const struct feed_config *given)
{
    struct feed *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    const struct feed_config *config = &f->config;
    f->config = *given;
    f->config.n_workers_max = MAX(given->n_workers_max, given->n_workers);
    f->config.n_devices_max = MAX(given->n_devices_max, given->n_devices);
    f->config.no_reissue |= config->fixed_batches; /* a copy would be computed in another batch */
    f->rng.state = config->seed;
    f->window.spread = spread_of(config);
    f->window.mask = f->window.spread - 1;
    f->pool.free = f->pool.ready_head = f->pool.ready_tail = f->suspects.quarantine = NONE;
    f->suspects.free = f->suspects.ripe_head = f->suspects.ripe_tail = f->idle.head = f->idle.tail =
        NONE;
    f->victims.soonest[0].worker = f->victims.soonest[1].worker = NONE;
    f->suspects.cap = 64 + 4 * config->n_workers_max;
    f->out.cap = f->window.spread + 16ull * config->n_workers_max +
                 64; /* each item causes at most one action in a step */
    f->window.block_log2 = block_log2(f->window.spread);
    f->window.block_size = 1u << f->window.block_log2;
    f->window.blocks =
        malloc((f->window.spread >> f->window.block_log2) * sizeof(*f->window.blocks));
    f->window.slots = malloc(f->window.spread * sizeof(*f->window.slots));
    f->pool.chunks = malloc(f->window.spread * sizeof(*f->pool.chunks));
    f->pool.heap = malloc(f->window.spread * sizeof(*f->pool.heap));
    /* Of what follows, only workers and devices are read before they are written. An allocator that
     * clears new memory by hand, as musl's replacement in zig does, would touch all of it. */
    f->suspects.groups = malloc(f->suspects.cap * sizeof(*f->suspects.groups));
    f->fifos = malloc((size_t)config->n_workers_max * FIFO_CAP * sizeof(*f->fifos));
    f->looks.heap = malloc(config->n_workers_max * sizeof(*f->looks.heap));
    f->cooling.at = malloc(config->n_workers_max * sizeof(*f->cooling.at));
    f->victims.heap = malloc(config->n_workers_max * sizeof(*f->victims.heap));
    f->workers = calloc(config->n_workers_max, sizeof(*f->workers));
    f->devices = calloc(config->n_devices_max, sizeof(*f->devices));
    f->out.at = malloc(f->out.cap * sizeof(*f->out.at));
    if (!f->window.blocks || !f->window.slots || !f->pool.chunks || !f->pool.heap ||
        !f->suspects.groups || !f->workers || !f->fifos || !f->devices || !f->looks.heap ||
        !f->cooling.at || !f->victims.heap || !f->out.at) {
        feed_free(f);
        return NULL;
    }
    f->counts.settled = f->counts.done_before = done_total(config);
    f->wake_ms = f->cooling.look_ms = f->seats.return_ms = UINT64_MAX;
    blocks_init(f);
    seats_init(f);
    ordered_init(f);
    return f;
}

void feed_free(struct feed *f)
{
    if (!f)
        return;
    free(f->window.blocks);
    free(f->window.slots);
    free(f->pool.chunks);
    free(f->pool.heap);
    free(f->suspects.groups);
    free(f->workers);
    free(f->fifos);
    free(f->devices);
    free(f->looks.heap);
    free(f->cooling.at);
    free(f->victims.heap);
    free(f->out.at);
    free(f);
}

/* ---- events ---- */

/* A tick has no effect of its own: every event does what is due by its time. */
static void on_tick(struct feed *f, const struct feed_event *ev)
{
    (void)f, (void)ev;
}

static void on_input(struct feed *f, const struct feed_event *ev)
{
    f->window.known = MAX(f->window.known, ev->count);
    f->window.input_is_final = f->window.input_is_final || ev->flag;
    if (f->counts.failed_items > 0) /* in this session: earlier sessions judged theirs */
        failures_judge(f);
}

static void on_started(struct feed *f, const struct feed_event *ev)
{
    feed_worker_started(f, ev->worker);
}

static void on_ready(struct feed *f, const struct feed_event *ev)
{
    feed_worker_becomes_channel(f, ev->worker);
    if (f->workers[ev->worker].mode != MODE_CHANNEL)
        return;
    struct feed_worker *w = &f->workers[ev->worker];
    w->credits += ev->count;
    w->credits_peak = MAX(w->credits_peak, w->credits);
    if (ev->count > 0) {
        feed_worker_is_live(f, ev->worker);
        feed_worker_dispatch(f, ev->worker);
    }
}

static void on_keyed(struct feed *f, const struct feed_event *ev)
{
    if (f->workers[ev->worker].mode == MODE_UNKNOWN)
        f->workers[ev->worker].mode = MODE_KEYED;
}

static void on_loaded(struct feed *f, const struct feed_event *ev)
{
    feed_worker_is_live(f, ev->worker);
    feed_worker_dispatch(f, ev->worker);
}

static void on_room(struct feed *f, const struct feed_event *ev)
{
    f->workers[ev->worker].room = ev->count;
    if (f->workers[ev->worker].mode != MODE_CHANNEL)
        feed_worker_dispatch(f, ev->worker);
}

static void on_reads(struct feed *f, const struct feed_event *ev)
{
    buffered_reads(f, ev->worker);
}

static void on_answers(struct feed *f, const struct feed_event *ev)
{
    feed_worker_answered(f, ev->worker, ev->count);
}

static void on_done(struct feed *f, const struct feed_event *ev)
{
    feed_worker_result(f, ev->worker, ev->item);
}

static void on_fail(struct feed *f, const struct feed_event *ev)
{
    feed_worker_failure(f, ev->worker, ev->item, ev->flag);
}

static void on_unfit(struct feed *f, const struct feed_event *ev)
{
    feed_worker_unfit(f, ev->worker, ev->item);
}

static void on_passed(struct feed *f, const struct feed_event *ev)
{
    feed_worker_passed(f, ev->worker, ev->count);
}

static void on_oom(struct feed *f, const struct feed_event *ev)
{
    struct feed_worker *w = &f->workers[ev->worker];
    uint32_t limit = f->devices[w->device].batch, before = limit > 0 ? limit : f->config.batch;
    f->counts.ooms++;
    feed_worker_is_live(f, ev->worker);
    device_limit(f, w->device, ev->count);
    /*
     * A limit that is lowered by one each time would excuse a death for each step. Another worker of the device may
     * have lowered it before.
     */
    w->has_shrunk |= before == 0 || f->devices[w->device].batch <= before / 2 ||
                     ev->count <= w->items.in_flight / 2;
}

static void on_idle(struct feed *f, const struct feed_event *ev)
{
    struct feed_worker *w = &f->workers[ev->worker];
    if (w->mode == MODE_CHANNEL || w->items.in_flight == 0)
        return;
    uint32_t had = w->items.in_flight;
    bool input_may_come = !f->window.input_is_final && f->window.next == f->window.known;
    if (ev->flag && buffered_found(f, ev->worker))
        return;
    w->window = 2 * MAX(w->window, (uint64_t)w->items.in_flight);
    feed_worker_dispatch(f, ev->worker);
    if (w->items.in_flight == had && !input_may_come)
        feed_worker_end(f, ev->worker); /* the end of its input makes it flush */
}

static void on_rests(struct feed *f, const struct feed_event *ev)
{
    struct feed_worker *w = &f->workers[ev->worker];
    if (w->drain.settle_at_ms > 0 && w->items.in_flight == 0)
        feed_worker_settled(f, ev->worker);
}

static void on_full(struct feed *f, const struct feed_event *ev)
{
    if (f->workers[ev->worker].mode != MODE_CHANNEL)
        feed_worker_end(f, ev->worker);
}

static void on_stray(struct feed *f, const struct feed_event *ev)
{
    if (ev->flag)
        feed_worker_blame(f, ev->worker, ev->item, CAUSE_PROTOCOL);
    else
        feed_worker_out_of_step(f, ev->worker);
}

static void on_works(struct feed *f, const struct feed_event *ev)
{
    feed_worker_works(f, ev->worker);
}

static void on_closed(struct feed *f, const struct feed_event *ev)
{
    feed_worker_closed(f, ev->worker);
}

static void on_ended(struct feed *f, const struct feed_event *ev)
{
    struct feed_worker *w = &f->workers[ev->worker];
    w->has_ended = true;
    feed_worker_state_set(f, w, WORKER_ENDING);
}

static void on_gone(struct feed *f, const struct feed_event *ev)
{
    f->workers[ev->worker].time.again_ms = f->now_ms + ev->count;
    feed_worker_exited(f, ev->worker, ev->death);
}

static void on_committed(struct feed *f, const struct feed_event *ev)
{
    items_committed(f, ev->item, ev->count);
}

static void on_mem_back(struct feed *f, const struct feed_event *ev)
{
    f->workers[ev->worker].memory_is_back = true;
    f->cooling.look_ms = f->now_ms;
}

static void on_device_lost(struct feed *f, const struct feed_event *ev)
{
    uint32_t set = f->devices[ev->worker].first;
    struct feed_device *d = &f->devices[set];
    bool may_return = !d->is_benched || d->is_lost;
    if (d->is_drained) { /* its workers do not finish their items any more */
        set_drain(f, set, true);
        return;
    }
    d->return_at_ms = UINT64_MAX;
    d->is_awaited = ev->flag && may_return;
    device_lost(f, set, f->now_ms);
    no_devices_check(f); /* it may have been the last awaited set */
}

static void on_device_back(struct feed *f, const struct feed_event *ev)
{
    device_back(f, ev->worker);
}

static void on_device_up(struct feed *f, const struct feed_event *ev)
{
    device_up(f, ev->worker, (uint32_t)ev->count);
}

static void on_seat_up(struct feed *f, const struct feed_event *ev)
{
    seat_up(f, ev->worker, ev->count);
}

static void on_set_drain(struct feed *f, const struct feed_event *ev)
{
    set_drain(f, ev->worker, ev->flag);
}

static void on_await(struct feed *f, const struct feed_event *ev)
{
    f->seats.are_awaited = ev->flag;
    no_devices_check(f);
}

static void on_stop(struct feed *f, const struct feed_event *ev)
{
    f->end.is_at_once = f->end.is_at_once || ev->flag;
    if (!f->end.is_stopping && !f->end.is_complete) {
        f->end.is_stopping = true;
        f->end.why = HALT_STOPPED;
        emit(f, ACT_HALT, NONE, 0, 0, HALT_STOPPED);
    }
}

/* Events about a worker count only while its process is alive. */
static const struct handler {
    void (*handle)(struct feed *f, const struct feed_event *ev);
    bool about_worker;
} handlers[] = {
    [EV_TICK] = {on_tick, false},
    [EV_INPUT] = {on_input, false},
    [EV_STARTED] = {on_started, true},
    [EV_READY] = {on_ready, true},
    [EV_KEYED] = {on_keyed, true},
    [EV_LOADED] = {on_loaded, true},
    [EV_ROOM] = {on_room, true},
    [EV_READS] = {on_reads, true},
    [EV_ANSWERS] = {on_answers, true},
    [EV_DONE] = {on_done, true},
    [EV_FAIL] = {on_fail, true},
    [EV_UNFIT] = {on_unfit, true},
    [EV_PASSED] = {on_passed, true},
    [EV_OOM] = {on_oom, true},
    [EV_IDLE] = {on_idle, true},
    [EV_RESTS] = {on_rests, true},
    [EV_CLOSED] = {on_closed, true},
    [EV_WORKS] = {on_works, true},
    [EV_FULL] = {on_full, true},
    [EV_STRAY] = {on_stray, true},
    [EV_ENDED] = {on_ended, true},
    [EV_EXIT] = {on_gone, true},
    [EV_COMMITTED] = {on_committed, false},
    [EV_MEM_BACK] = {on_mem_back, false},
    [EV_DEVICE_LOST] = {on_device_lost, false},
    [EV_DEVICE_BACK] = {on_device_back, false},
    [EV_DEVICE_UP] = {on_device_up, false},
    [EV_SEAT_UP] = {on_seat_up, false},
    [EV_SET_DRAIN] = {on_set_drain, false},
    [EV_AWAIT] = {on_await, false},
    [EV_STOP] = {on_stop, false},
};

static bool is_heard(const struct feed *f, const struct feed_event *ev)
{
    if (!handlers[ev->kind].about_worker)
        return true;
    const struct feed_worker *w = &f->workers[ev->worker];
    /* A worker that is being ended may send messages until it is dead; only its exit counts. */
    return feed_worker_is_running(w) && (w->ended_for == CAUSE_NONE || ev->kind == EV_EXIT);
}

static void finish_if_done(struct feed *f)
{
    uint8_t level = (uint8_t)(f->end.is_stopping + f->end.is_at_once);
    bool ends = level > f->end.level; /* after that no worker is started */
    f->end.level = level;
    if (!f->end.is_complete && f->window.input_is_final && f->counts.settled >= f->window.known &&
        f->counts.committing == 0) {
        f->end.is_complete = true;
        emit(f, ACT_COMPLETE, NONE, 0, 0, 0);
        ends = true;
    }
    if (ends)
        everybody_end(f);
    if (f->seats.n_alive == 0 && f->counts.committing == 0 &&
        (f->end.is_complete || f->end.is_stopping)) {
        f->end.is_over = true;
        emit(f, ACT_OVER, NONE, 0, 0, 0);
    }
}

size_t feed_step(struct feed *f, const struct feed_event *ev, const struct feed_action **out)
{
    f->out.len = 0;
    *out = f->out.at;
    if (f->end.is_over)
        return 0;
    ASSERT(ev->now_ms >= f->now_ms);
    f->now_ms = ev->now_ms;
    if (f->now_ms >= f->wake_ms)
        f->wake_ms = UINT64_MAX;
    pool_ripen(f);
    if (is_heard(f, ev))
        handlers[ev->kind].handle(f, ev);
    limits_check(f);
    idle_feed(f);
    seats_fill(f);
    finish_if_done(f);
    return f->out.len;
}

uint64_t feed_next_ms(const struct feed *f)
{
    return MIN(f->wake_ms, looks_next_ms(f));
}

/* ---- looking in ---- */

void feed_counts(const struct feed *f, struct feed_counts *out)
{
    *out = (struct feed_counts){
        .known = f->window.known,
        .done = f->counts.done_before + f->counts.committed -
                MIN(f->config.failed_before, f->counts.done_before),
        .aside = f->counts.failed_items + f->config.failed_before,
        .in_flight = f->counts.in_flight,
        .waiting = f->pool.ready_items + f->pool.delayed_items + f->suspects.items,
        .answered = f->counts.provisional,
        .retries = f->counts.retries,
        .reissued = f->counts.reissued,
        .revoked = f->counts.revoked,
        .crashes = f->counts.crashes,
        .ooms = f->counts.ooms,
        .items_frontier = f->window.frontier,
        .items_next = f->window.next,
        .input_is_final = f->window.input_is_final,
        .is_complete = f->end.is_complete,
        .is_over = f->end.is_over,
    };
}

void feed_worker(const struct feed *f, uint32_t worker, struct feed_worker_view *out)
{
    const struct feed_worker *w = &f->workers[worker];
    *out = (struct feed_worker_view){.state = w->state,
                                     .mode = w->mode,
                                     .in_flight = w->items.in_flight,
                                     .items_done = w->items_done,
                                     .mean_ms = w->time.mean_ms,
                                     .batch = f->devices[w->device].batch,
                                     .is_settling =
                                         w->drain.settle_at_ms > 0 && w->items.in_flight == 0};
}

uint32_t feed_item_failures(const struct feed *f, uint64_t item)
{
    return is_in_window(f, item) ? slot_peek(f, item).failures : 0;
}

/* Checks the lists and counts that exist to avoid searches. */
static void lists_check(const struct feed *f)
{
    uint32_t hands = 0, idle = 0, looks = 0;
    for (uint32_t i = 0; i < f->config.n_workers; i++) {
        const struct feed_worker *w = &f->workers[i];
        struct owned at = owned_begin(f, i);
        for (uint64_t item; (item = owned_next(f, i, &at)) != UINT64_MAX;) {
            struct slot slot = slot_peek(f, item);
            ASSERT(slot.state == SLOT_SENT);
            ASSERT(slot.owner[item == w->items.copy] == i + 1);
        }
        bool is_loading = w->state == WORKER_STARTING || w->state == WORKER_LOADING;
        hands += is_loading && w->items.in_flight == 0 && !w->idle.is_in;
        idle += w->idle.is_in;
        looks += w->look.at_ms != UINT64_MAX;
        ASSERT(w->look.at_ms == UINT64_MAX || f->looks.heap[w->look.index] == i);
        ASSERT(w->state != WORKER_ABSENT || f->seats.absent_from <= i);
    }
    ASSERT(hands == f->seats.n_hands && idle == f->idle.len && looks == f->looks.len);
}

void feed_check(const struct feed *f)
{
    uint64_t low = f->config.order ? 0 : f->window.frontier, committing = 0;
    ASSERT(f->config.order || (f->window.frontier <= f->window.next &&
                               f->window.next <= f->window.frontier + f->window.spread));
    uint64_t answered = 0;
    for (uint64_t item = low; item < f->window.next; item++) {
        struct slot slot = slot_peek(f, item);
        ASSERT(slot.state != SLOT_SENT || slot.owner[0] != 0);
        ASSERT(slot.state == SLOT_SENT || (slot.owner[0] == 0 && slot.owner[1] == 0));
        ASSERT(slot.owner[0] == 0 || slot.owner[0] != slot.owner[1]);
        ASSERT(slot.failures <= f->config.retries + 1u);
        for (int i = 0; i < 2; i++) {
            uint32_t owner = slot.owner[i];
            ASSERT(owner == 0 || (f->workers[owner - 1].state >= WORKER_LOADING &&
                                  f->workers[owner - 1].state <= WORKER_ENDING));
        }
        committing += slot.state == SLOT_COMMITTING || slot.state == SLOT_ASIDE;
        answered += ((slot.flags & ANSWERED_FIRST) != 0) + ((slot.flags & ANSWERED_SECOND) != 0);
    }
    ASSERT(committing == f->counts.committing);
    ASSERT(answered == f->counts.provisional);
    uint64_t in_flight = 0, provisional = 0;
    for (uint32_t w = 0; w < f->config.n_workers; w++) {
        in_flight += f->workers[w].items.in_flight;
        provisional += f->workers[w].items.provisional;
    }
    ASSERT(in_flight == f->counts.in_flight);
    ASSERT(provisional == f->counts.provisional);
    ASSERT(f->counts.settled <= f->window.known || !f->window.input_is_final);
    lists_check(f);
}

uint64_t feed_hash(const struct feed *f)
{
    uint64_t hash = mix64(f->window.frontier + 1) ^ mix64(f->window.next + 2) ^
                    mix64(f->counts.settled + 3) ^ mix64(f->window.known + 4);
    uint64_t low = f->config.order ? 0 : f->window.frontier;
    for (uint64_t item = low; item < f->window.next; item++) {
        struct slot slot = slot_peek(f, item);
        uint64_t word = (uint64_t)slot.state << 56 | (uint64_t)slot.failures << 48 |
                        (uint64_t)slot.flags << 40 | (uint64_t)slot.copy_failed << 32 |
                        (uint64_t)slot.owner[0] << 16 | slot.owner[1];
        hash = mix64(hash ^ word ^ item);
    }
    for (uint32_t w = 0; w < f->config.n_workers; w++) {
        const struct feed_worker *worker = &f->workers[w];
        hash = mix64(hash ^ ((uint64_t)worker->state << 32 | worker->items.in_flight) ^
                     worker->items_done);
    }
    return hash;
}
