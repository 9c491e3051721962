/* SPDX-License-Identifier: Apache-2.0
 *
 * Events in, actions out. The table at the end of this file says which event goes where.
 */
#include "core/feed_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    SPREAD_LOG2_DEFAULT = 19,
    SPREAD_WORKER = 128 /* items for each, at least: thousands go through that many in no time */
};

void emit(struct feed *f, enum feed_action_kind kind, uint32_t worker, uint64_t item,
          uint64_t count, uint32_t detail)
{
    ASSERT(f->n_actions < f->actions_cap);
    f->actions[f->n_actions++] = (struct feed_action){kind, worker, item, count, detail};
}

void wake_at(struct feed *f, uint64_t at_ms)
{
    f->wake_ms = MIN(f->wake_ms, MAX(at_ms, f->now_ms + 1));
}

void halt(struct feed *f, enum feed_halt why)
{
    if (f->halt != HALT_NONE || f->is_complete)
        return;
    f->halt = why;
    f->is_stopping = f->is_stopping_now = true;
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
    uint64_t spread = 1ull << (log2 > 0 ? log2 : feed_spread_log2(config->n_workers));
    while (config->order && spread < config->n_order)
        spread *= 2;
    return spread;
}

static void seats_init(struct feed *f)
{
    for (uint32_t d = 0; d < f->config.n_devices; d++) {
        uint32_t first = f->config.first_of ? f->config.first_of[d] : d;
        f->devices[d] = (struct feed_device){.first = first, .first_worker = NONE};
        f->n_sets += first == d;
    }
    for (uint32_t i = f->config.n_workers; i-- > 0;) {
        struct feed_worker *w = &f->workers[i];
        w->device = f->config.device_of ? f->config.device_of[i] : i;
        ASSERT(f->devices[w->device].first == w->device);
        w->next_on_device = f->devices[w->device].first_worker;
        f->devices[w->device].first_worker = i;
        w->fifo = f->fifos + (size_t)i * FIFO_CAP;
        w->group = w->head = w->tail = NONE;
        w->blame = w->copy = w->look_ms = UINT64_MAX;
        w->seat_since_ms = w->refill_ms = w->shortest_ms = UINT64_MAX;
        w->window = 1;
    }
    f->n_absent = f->config.n_workers;
    f->n_sets_alive = f->n_sets;
}

static void blocks_init(struct feed *f)
{
    f->slots_free = NONE;
    for (uint64_t i = 0; i < f->spread >> f->block_log2; i++)
        f->blocks[i] = (struct block){.slots = NONE};
}

/* With an order, slots stand for all items at once; those that are done say so from the start. */
static void ordered_init(struct feed *f)
{
    for (size_t i = 0; f->config.order && i < f->config.n_done; i++)
        items_skip(f, f->config.done[i].first, f->config.done[i].first + f->config.done[i].count);
    if (f->config.order)
        f->next = f->config.n_order;
}

struct feed *feed_new(const struct feed_config *config)
{
    struct feed *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->config = *config;
    f->config.no_reissue |= config->fixed_batches; /* a copy would be computed in other company */
    f->rng.state = config->seed;
    f->spread = spread_of(config);
    f->mask = f->spread - 1;
    f->pool_free = f->ready_head = f->ready_tail = f->quarantine = NONE;
    f->groups_free = f->ripe_head = f->ripe_tail = f->idle_head = f->idle_tail = NONE;
    f->groups_cap = 64 + 4 * config->n_workers;
    f->actions_cap = f->spread + 16ull * config->n_workers + 64; /* an item has one fate a step */
    f->block_log2 = block_log2(f->spread);
    f->block_size = 1u << f->block_log2;
    f->blocks = malloc((f->spread >> f->block_log2) * sizeof(*f->blocks));
    f->slots = malloc(f->spread * sizeof(*f->slots));
    f->pool = malloc(f->spread * sizeof(*f->pool));
    f->heap = malloc(f->spread * sizeof(*f->heap));
    f->groups = calloc(f->groups_cap, sizeof(*f->groups));
    f->workers = calloc(config->n_workers, sizeof(*f->workers));
    f->fifos = calloc((size_t)config->n_workers * FIFO_CAP, sizeof(*f->fifos));
    f->devices = calloc(config->n_devices, sizeof(*f->devices));
    f->looks = calloc(config->n_workers, sizeof(*f->looks));
    f->cooling = calloc(config->n_workers, sizeof(*f->cooling));
    f->victims = calloc(config->n_workers, sizeof(*f->victims));
    f->actions = malloc(f->actions_cap * sizeof(*f->actions));
    if (!f->blocks || !f->slots || !f->pool || !f->heap || !f->groups || !f->workers || !f->fifos ||
        !f->devices || !f->looks || !f->cooling || !f->victims || !f->actions) {
        feed_free(f);
        return NULL;
    }
    f->settled = f->done_before = done_total(config);
    f->wake_ms = f->cooling_at_ms = UINT64_MAX;
    blocks_init(f);
    seats_init(f);
    ordered_init(f);
    return f;
}

void feed_free(struct feed *f)
{
    if (!f)
        return;
    free(f->blocks);
    free(f->slots);
    free(f->pool);
    free(f->heap);
    free(f->groups);
    free(f->workers);
    free(f->fifos);
    free(f->devices);
    free(f->looks);
    free(f->cooling);
    free(f->victims);
    free(f->actions);
    free(f);
}

/* ---- events ---- */

/* What there is to do when it is due is done by any event. */
static void on_tick(struct feed *f, const struct feed_event *ev)
{
    (void)f, (void)ev;
}

static void on_input(struct feed *f, const struct feed_event *ev)
{
    f->known = MAX(f->known, ev->count);
    f->input_is_final = f->input_is_final || ev->flag;
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
    uint32_t before = f->devices[w->device].batch;
    f->n_ooms++;
    feed_worker_is_live(f, ev->worker);
    device_shrink(f, w->device, MAX(ev->count, (uint64_t)1));
    uint32_t after = f->devices[w->device].batch;
    w->has_shrunk |= ev->count > 1 && (before == 0 || after < before);
}

static void on_hungry(struct feed *f, const struct feed_event *ev)
{
    struct feed_worker *w = &f->workers[ev->worker];
    if (w->mode == MODE_CHANNEL || w->in_flight == 0)
        return;
    uint32_t had = w->in_flight;
    bool input_may_come = !f->input_is_final && f->next == f->known;
    if (ev->flag && buffered_found(f, ev->worker))
        return;
    w->window = 2 * MAX(w->window, (uint64_t)w->in_flight);
    feed_worker_dispatch(f, ev->worker);
    if (w->in_flight == had && !input_may_come)
        feed_worker_end(f, ev->worker); /* the end of its input makes it flush */
}

static void on_rests(struct feed *f, const struct feed_event *ev)
{
    struct feed_worker *w = &f->workers[ev->worker];
    if (w->settle_at_ms > 0 && w->in_flight == 0)
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

static void on_ended(struct feed *f, const struct feed_event *ev)
{
    struct feed_worker *w = &f->workers[ev->worker];
    w->has_ended = true;
    feed_worker_state_set(f, w, WORKER_ENDING);
}

static void on_gone(struct feed *f, const struct feed_event *ev)
{
    feed_worker_exited(f, ev->worker, ev->death);
}

static void on_committed(struct feed *f, const struct feed_event *ev)
{
    items_committed(f, ev->item, ev->count);
}

static void on_mem_back(struct feed *f, const struct feed_event *ev)
{
    f->workers[ev->worker].memory_is_back = true;
    f->cooling_at_ms = f->now_ms;
}

static void on_device_lost(struct feed *f, const struct feed_event *ev)
{
    device_bench(f, f->devices[ev->worker].first, CAUSE_LOST);
}

static void on_stop(struct feed *f, const struct feed_event *ev)
{
    f->is_stopping_now = f->is_stopping_now || ev->flag;
    if (!f->is_stopping && !f->is_complete) {
        f->is_stopping = true;
        f->halt = HALT_STOPPED;
        emit(f, ACT_HALT, NONE, 0, 0, HALT_STOPPED);
    }
}

/* Events about a worker count only while its process is alive. */
static const struct handler {
    void (*handle)(struct feed *f, const struct feed_event *ev);
    bool about_worker;
} handlers[] = {
    [EV_TICK] = {on_tick, false},         [EV_INPUT] = {on_input, false},
    [EV_STARTED] = {on_started, true},    [EV_READY] = {on_ready, true},
    [EV_KEYED] = {on_keyed, true},        [EV_LOADED] = {on_loaded, true},
    [EV_ROOM] = {on_room, true},          [EV_READS] = {on_reads, true},
    [EV_ANSWERS] = {on_answers, true},    [EV_DONE] = {on_done, true},
    [EV_FAIL] = {on_fail, true},          [EV_UNFIT] = {on_unfit, true},
    [EV_PASSED] = {on_passed, true},      [EV_OOM] = {on_oom, true},
    [EV_HUNGRY] = {on_hungry, true},      [EV_RESTS] = {on_rests, true},
    [EV_WORKS] = {on_works, true},        [EV_FULL] = {on_full, true},
    [EV_STRAY] = {on_stray, true},        [EV_ENDED] = {on_ended, true},
    [EV_EXIT] = {on_gone, true},          [EV_COMMITTED] = {on_committed, false},
    [EV_MEM_BACK] = {on_mem_back, false}, [EV_DEVICE_LOST] = {on_device_lost, false},
    [EV_STOP] = {on_stop, false},
};

static bool is_heard(const struct feed *f, const struct feed_event *ev)
{
    if (!handlers[ev->kind].about_worker)
        return true;
    const struct feed_worker *w = &f->workers[ev->worker];
    /* One that was written off may still talk until it is dead; only its exit counts. */
    return feed_worker_is_running(w) && (w->ended_for == CAUSE_NONE || ev->kind == EV_EXIT);
}

static void finish_if_done(struct feed *f)
{
    uint8_t level = (uint8_t)(f->is_stopping + f->is_stopping_now);
    bool ends = level > f->ended_level; /* nobody is started after that */
    f->ended_level = level;
    if (!f->is_complete && f->input_is_final && f->settled >= f->known && f->n_committing == 0) {
        f->is_complete = true;
        emit(f, ACT_COMPLETE, NONE, 0, 0, 0);
        ends = true;
    }
    if (ends)
        everybody_end(f);
    if (f->n_alive == 0 && f->n_committing == 0 && (f->is_complete || f->is_stopping)) {
        f->is_over = true;
        emit(f, ACT_OVER, NONE, 0, 0, 0);
    }
}

size_t feed_step(struct feed *f, const struct feed_event *ev, const struct feed_action **out)
{
    f->n_actions = 0;
    *out = f->actions;
    if (f->is_over)
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
    return f->n_actions;
}

uint64_t feed_next_ms(const struct feed *f)
{
    return MIN(f->wake_ms, looks_next_ms(f));
}

/* ---- looking in ---- */

void feed_counts(const struct feed *f, struct feed_counts *out)
{
    *out = (struct feed_counts){
        .known = f->known,
        .done = f->done_before + f->committed - MIN(f->config.failed_before, f->done_before),
        .aside = f->failed_items + f->config.failed_before,
        .in_flight = f->n_in_flight,
        .waiting = f->ready_items + f->delayed_items + f->group_items,
        .answered = f->n_provisional,
        .retries = f->n_retries,
        .reissued = f->n_reissued,
        .revoked = f->n_revoked,
        .crashes = f->n_crashes,
        .ooms = f->n_ooms,
        .items_frontier = f->frontier,
        .items_next = f->next,
        .input_is_final = f->input_is_final,
        .is_complete = f->is_complete,
        .is_over = f->is_over,
    };
}

void feed_worker(const struct feed *f, uint32_t worker, struct feed_worker_view *out)
{
    const struct feed_worker *w = &f->workers[worker];
    *out = (struct feed_worker_view){.state = w->state,
                                     .mode = w->mode,
                                     .in_flight = w->in_flight,
                                     .items_done = w->items_done,
                                     .mean_ms = w->mean_ms,
                                     .batch = f->devices[w->device].batch,
                                     .is_settling = w->settle_at_ms > 0 && w->in_flight == 0};
}

uint32_t feed_item_failures(const struct feed *f, uint64_t item)
{
    return is_in_window(f, item) ? slot_peek(f, item).failures : 0;
}

/* What is kept so that it need not be looked for. */
static void lists_check(const struct feed *f)
{
    uint32_t hands = 0, idle = 0, looks = 0;
    for (uint32_t i = 0; i < f->config.n_workers; i++) {
        const struct feed_worker *w = &f->workers[i];
        struct owned at = owned_begin(f, i);
        for (uint64_t item; (item = owned_next(f, i, &at)) != UINT64_MAX;) {
            struct slot slot = slot_peek(f, item);
            ASSERT(slot.state == SLOT_SENT);
            ASSERT(slot.owner[item == w->copy] == i + 1);
        }
        bool is_loading = w->state == WORKER_STARTING || w->state == WORKER_LOADING;
        hands += is_loading && w->in_flight == 0 && !w->is_idle;
        idle += w->is_idle;
        looks += w->look_ms != UINT64_MAX;
        ASSERT(w->look_ms == UINT64_MAX || f->looks[w->look_index] == i);
        ASSERT(w->state != WORKER_ABSENT || f->absent_from <= i);
    }
    ASSERT(hands == f->n_hands && idle == f->idle_len && looks == f->looks_len);
}

void feed_check(const struct feed *f)
{
    uint64_t low = f->config.order ? 0 : f->frontier, committing = 0;
    ASSERT(f->config.order || (f->frontier <= f->next && f->next <= f->frontier + f->spread));
    uint64_t answered = 0;
    for (uint64_t item = low; item < f->next; item++) {
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
    ASSERT(committing == f->n_committing);
    ASSERT(answered == f->n_provisional);
    uint64_t in_flight = 0, provisional = 0;
    for (uint32_t w = 0; w < f->config.n_workers; w++) {
        in_flight += f->workers[w].in_flight;
        provisional += f->workers[w].provisional;
    }
    ASSERT(in_flight == f->n_in_flight);
    ASSERT(provisional == f->n_provisional);
    ASSERT(f->settled <= f->known || !f->input_is_final);
    lists_check(f);
}

uint64_t feed_hash(const struct feed *f)
{
    uint64_t hash =
        mix64(f->frontier + 1) ^ mix64(f->next + 2) ^ mix64(f->settled + 3) ^ mix64(f->known + 4);
    uint64_t low = f->config.order ? 0 : f->frontier;
    for (uint64_t item = low; item < f->next; item++) {
        struct slot slot = slot_peek(f, item);
        uint64_t word = (uint64_t)slot.state << 56 | (uint64_t)slot.failures << 48 |
                        (uint64_t)slot.flags << 40 | (uint64_t)slot.copy_failed << 32 |
                        (uint64_t)slot.owner[0] << 16 | slot.owner[1];
        hash = mix64(hash ^ word ^ item);
    }
    for (uint32_t w = 0; w < f->config.n_workers; w++) {
        const struct feed_worker *worker = &f->workers[w];
        hash =
            mix64(hash ^ ((uint64_t)worker->state << 32 | worker->in_flight) ^ worker->items_done);
    }
    return hash;
}
