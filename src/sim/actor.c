/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated worker: it loads, takes items, gives answers, and dies at the rates of sim_faults.
 */
#include "sim/world_impl.h"

#include "base/attr.h"

/* ---- items in hand ---- */

static uint32_t hand_new(struct sim *s)
{
    uint32_t index = s->hands_free;
    if (index != HAND_NONE) {
        s->hands_free = s->hands[index].next;
        return index;
    }
    if (s->hands_used == s->hands_cap) {
        uint32_t cap = MAX(2 * s->hands_cap, 256u);
        struct hand *hands = realloc(s->hands, cap * sizeof(*hands));
        if (!hands) {
            s->out_of_memory = true;
            return HAND_NONE;
        }
        s->hands = hands;
        s->hands_cap = cap;
    }
    return s->hands_used++;
}

static void hand_add(struct sim *s, struct actor *a, uint64_t first, uint64_t count)
{
    struct hand *last = a->tail != HAND_NONE ? &s->hands[a->tail] : NULL;
    a->in_hand += count;
    if (last && last->first + last->count == first) {
        last->count += count;
        return;
    }
    uint32_t index = hand_new(s);
    if (index == HAND_NONE)
        return;
    s->hands[index] = (struct hand){first, count, HAND_NONE};
    if (a->tail != HAND_NONE)
        s->hands[a->tail].next = index;
    else
        a->head = index;
    a->tail = index;
}

static void hand_drop_first(struct sim *s, struct actor *a)
{
    uint32_t index = a->head;
    a->head = s->hands[index].next;
    if (a->head == HAND_NONE)
        a->tail = HAND_NONE;
    s->hands[index].next = s->hands_free;
    s->hands_free = index;
}

static uint64_t hand_take(struct sim *s, struct actor *a)
{
    struct hand *first = &s->hands[a->head];
    uint64_t item = first->first++;
    a->in_hand--;
    if (--first->count == 0)
        hand_drop_first(s, a);
    return item;
}

/* ---- life and death ---- */

static bool chance(struct sim *s, double p)
{
    return p > 0 && rng_unit(&s->rng) < p;
}

static bool is_poison(const struct sim *s, uint64_t item)
{
    struct rng rng = {.state = item_seed(s->config.seed ^ 0x706f69736f6eu, item)};
    return s->config.faults.poison > 0 && rng_unit(&rng) < s->config.faults.poison;
}

static void die(struct sim *s, uint32_t worker, enum feed_death death)
{
    struct actor *a = &s->actors[worker];
    if (!a->is_loaded)
        world_span(s, SPAN_LOADING, worker, a->started_us, UINT64_MAX);
    if (a->in_work > 0) { /* one span for all of them, from the mean of their starts */
        uint64_t began_us = MIN((uint64_t)(a->began_sum_us / a->in_work), s->now_us);
        world_span(s, SPAN_LOST, worker, began_us, UINT64_MAX);
        s->result.lost_us += (a->in_work - 1) * (s->now_us - began_us);
    }
    s->result.alive_us += s->now_us - a->started_us;
    a->is_alive = false;
    while (a->head != HAND_NONE)
        hand_drop_first(s, a);
    a->in_work = 0;
    a->in_hand = 0;
    a->began_sum_us = 0;
    world_plan(s, 0, (struct future){.kind = FUTURE_EXIT, .worker = worker, .detail = death});
}

void actor_spawn(struct sim *s, uint32_t worker)
{
    struct actor *a = &s->actors[worker];
    ASSERT(!a->is_alive);
    *a = (struct actor){.is_alive = true,
                        .life = a->life + 1,
                        .head = HAND_NONE,
                        .tail = HAND_NONE,
                        .started_us = s->now_us};
    uint64_t load_us = dist_us(&s->config.load, s->config.seed + 1, s->result.starts++);
    bool fails = chance(s, s->config.faults.start_fail);
    world_plan(s, fails ? (uint64_t)((double)load_us * rng_unit(&s->rng)) : load_us,
               (struct future){.kind = FUTURE_LOADED,
                               .worker = worker,
                               .life = a->life,
                               .detail = fails ? FATE_CRASH : FATE_DONE});
}

static void held_give(struct sim *s, uint32_t worker)
{
    struct actor *a = &s->actors[worker];
    uint64_t count = a->n_held;
    a->n_held = 0;
    a->heard_us = s->now_us;
    world_step(s, (struct feed_event){.kind = EV_ANSWERS, .worker = worker, .count = count});
}

/* Ends the worker if it has nothing to do and its input has ended. */
static void leave_if_done(struct sim *s, uint32_t worker)
{
    struct actor *a = &s->actors[worker];
    if (!a->is_alive || !a->is_loaded || !a->is_ending || a->in_work > 0 || a->in_hand > 0)
        return;
    if (a->n_held > 0)
        held_give(s, worker);
    if (a->is_alive)
        die(s, worker, GONE_CLEAN);
}

void actor_end(struct sim *s, uint32_t worker)
{
    s->actors[worker].is_ending = true;
    world_plan(
        s, 0,
        (struct future){.kind = FUTURE_END, .worker = worker, .life = s->actors[worker].life});
}

void actor_terminate(struct sim *s, uint32_t worker)
{
    if (s->actors[worker].is_alive)
        die(s, worker, GONE_ENDED);
}

/* ---- work ---- */

static void work_begin(struct sim *s, uint32_t worker)
{
    struct actor *a = &s->actors[worker];
    const struct sim_faults *faults = &s->config.faults;
    uint64_t item = hand_take(s, a);
    double us = (double)dist_us(&s->config.service, s->config.seed, item);
    enum fate fate = FATE_DONE;
    if (s->config.slowness)
        us *= s->config.slowness[s->device_of[worker]];
    if (chance(s, faults->crash) || is_poison(s, item)) {
        fate = FATE_CRASH;
        us *= rng_unit(&s->rng);
    } else if (chance(s, faults->fail)) {
        fate = FATE_FAILED;
    }
    a->in_work++;
    a->began_sum_us += (double)s->now_us;
    world_plan(s, (uint64_t)us,
               (struct future){.kind = FUTURE_FINISH,
                               .worker = worker,
                               .life = a->life,
                               .item = item,
                               .count = s->now_us,
                               .detail = fate});
}

/*
 * A filter that reads in blocks begins no item of a block before the block is complete, or the
 * input has ended.
 */
static bool has_read(const struct sim *s, struct actor *a)
{
    if (a->n_read == 0 && (a->is_ending || a->in_hand >= s->config.block_items))
        a->n_read = s->config.block_items > 0 ? MIN(a->in_hand, (uint64_t)s->config.block_items)
                                              : a->in_hand;
    return a->n_read > 0;
}

static void work_fill(struct sim *s, uint32_t worker)
{
    struct actor *a = &s->actors[worker];
    while (a->is_alive && a->is_loaded && a->in_work < s->concurrency && a->head != HAND_NONE &&
           has_read(s, a)) {
        a->n_read--;
        work_begin(s, worker);
    }
}

static bool buffers(const struct sim *s)
{
    return s->config.block_items > 1 || s->config.hold_items > 1;
}

/*
 * A worker that buffers may wait for more items while it has items in hand, and the feeder may wait
 * for their answers; so a long silence must be noticed.
 */
static void silence_watch(struct sim *s, uint32_t worker)
{
    struct actor *a = &s->actors[worker];
    a->heard_us = s->now_us;
    if (!buffers(s) || a->is_watched)
        return;
    a->is_watched = true;
    world_plan(s, SILENCE_MS * UINT64_C(1000),
               (struct future){.kind = FUTURE_SILENCE, .worker = worker, .life = a->life});
}

void actor_receive(struct sim *s, uint32_t worker, uint64_t first, uint64_t count)
{
    struct actor *a = &s->actors[worker];
    if (!a->is_alive)
        return;
    a->room -= MIN(a->room, count);
    hand_add(s, a, first, count);
    silence_watch(s, worker);
    if (buffers(s))
        world_plan(s, 0, (struct future){.kind = FUTURE_ROOM, .worker = worker, .life = a->life});
    work_fill(s, worker);
}

static void loaded(struct sim *s, const struct future *f)
{
    struct actor *a = &s->actors[f->worker];
    if (f->detail == FATE_CRASH) {
        die(s, f->worker, GONE_CRASH);
        return;
    }
    a->is_loaded = true;
    world_span(s, SPAN_LOADING, f->worker, a->started_us, UINT64_MAX);
    world_step(s, (struct feed_event){.kind = EV_STARTED, .worker = f->worker});
    if (s->config.kind == SIM_CHANNEL) {
        world_step(s, (struct feed_event){.kind = EV_READY,
                                          .worker = f->worker,
                                          .count = s->concurrency + s->config.ahead});
    } else {
        world_step(s, (struct feed_event){
                          .kind = EV_ROOM, .worker = f->worker, .count = a->room = FILTER_ROOM});
        world_step(s, (struct feed_event){.kind = EV_READS, .worker = f->worker});
    }
    work_fill(s, f->worker);
    leave_if_done(s, f->worker);
}

/*
 * Tells the feeder that the worker has answered all items and waits for more, as `muster map`
 * would.
 */
static void rest_tell(struct sim *s, uint32_t worker)
{
    const struct actor *a = &s->actors[worker];
    struct feed_worker_view view;
    feed_worker(s->feed, worker, &view);
    if (view.is_settling && a->is_alive && a->in_work + a->in_hand + a->n_held == 0)
        world_step(s, (struct feed_event){.kind = EV_RESTS, .worker = worker});
}

static void answer_filter(struct sim *s, const struct future *f)
{
    struct actor *a = &s->actors[f->worker];
    world_span(s, SPAN_ITEM, f->worker, f->count, f->item);
    if (++a->n_held < s->config.hold_items)
        return;
    held_give(s, f->worker);
    rest_tell(s, f->worker);
    if (!a->is_alive || a->room > FILTER_ROOM / 2 || buffers(s))
        return;
    a->room = FILTER_ROOM - MIN(a->in_hand, (uint64_t)FILTER_ROOM);
    world_step(s, (struct feed_event){.kind = EV_ROOM, .worker = f->worker, .count = a->room});
}

static void answer_channel(struct sim *s, const struct future *f)
{
    s->was_dropped = f->detail == FATE_FAILED;
    world_step(s, (struct feed_event){.kind = f->detail == FATE_FAILED ? EV_FAIL : EV_DONE,
                                      .worker = f->worker,
                                      .item = f->item,
                                      .flag = true});
    world_span(s, s->was_dropped ? SPAN_LOST : SPAN_ITEM, f->worker, f->count, f->item);
    struct future request = {
        .kind = FUTURE_REQUEST, .worker = f->worker, .life = f->life, .count = 1};
    if (s->config.turnaround_us > 0)
        world_plan(s, s->config.turnaround_us, request);
    else
        actor_future(s, &request);
}

static void finish(struct sim *s, const struct future *f)
{
    struct actor *a = &s->actors[f->worker];
    if (f->detail == FATE_CRASH) {
        die(s, f->worker, GONE_CRASH);
        return;
    }
    a->in_work--;
    a->began_sum_us -= (double)f->count;
    work_fill(s, f->worker);
    if (s->config.kind == SIM_CHANNEL)
        answer_channel(s, f);
    else
        answer_filter(s, f);
    leave_if_done(s, f->worker);
}

static void room(struct sim *s, const struct future *f)
{
    struct actor *a = &s->actors[f->worker];
    if (!a->is_loaded)
        return;
    a->room = FILTER_ROOM;
    world_step(s, (struct feed_event){.kind = EV_ROOM, .worker = f->worker, .count = a->room});
}

static void silence(struct sim *s, const struct future *f)
{
    struct actor *a = &s->actors[f->worker];
    a->is_watched = false;
    if (a->is_ending || a->in_work + a->in_hand + a->n_held == 0)
        return;
    bool waits = a->is_loaded && a->in_work == 0;
    if (waits && s->now_us - a->heard_us >= SILENCE_MS * UINT64_C(1000))
        world_step(s, (struct feed_event){.kind = EV_IDLE, .worker = f->worker, .flag = true});
    if (!a->is_alive || a->life != f->life || a->is_watched)
        return;
    a->is_watched = true;
    world_plan(s, LOOK_MS * UINT64_C(1000), *f);
}

/* The worker reads the end of its input. */
static void input_ended(struct sim *s, const struct future *f)
{
    work_fill(s, f->worker);
    leave_if_done(s, f->worker);
}

static void request(struct sim *s, const struct future *f)
{
    world_step(s, (struct feed_event){.kind = EV_READY, .worker = f->worker, .count = f->count});
}

static void gone(struct sim *s, const struct future *f)
{
    world_step(s, (struct feed_event){.kind = EV_EXIT, .worker = f->worker, .death = f->detail});
    world_plan(s, s->config.mem_back_ms * 1000,
               (struct future){.kind = FUTURE_MEM_BACK, .worker = f->worker});
}

/* Events that were planned for an earlier life of the worker are dropped, except for its exit. */
void actor_future(struct sim *s, const struct future *f)
{
    static void (*const handlers[])(struct sim * s, const struct future *f) = {
        [FUTURE_LOADED] = loaded,   [FUTURE_FINISH] = finish, [FUTURE_REQUEST] = request,
        [FUTURE_END] = input_ended, [FUTURE_ROOM] = room,     [FUTURE_SILENCE] = silence,
    };
    if (f->kind == FUTURE_EXIT)
        gone(s, f);
    else if (s->actors[f->worker].is_alive && s->actors[f->worker].life == f->life)
        handlers[f->kind](s, f);
}
