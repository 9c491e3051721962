/* SPDX-License-Identifier: Apache-2.0
 *
 * What the workers of the adverse world do, and what their shell makes of it for the feeder.
 */
#include <string.h>

#include "sim/adversary.h"

enum {
    BLOCK_LINES = 32,
    HOPELESS_TIMES = 10
};

static uint32_t below(struct world *w, uint64_t bound)
{
    return (uint32_t)rng_below(&w->rng, bound);
}

static void plan(struct world *w, uint32_t worker, enum future_kind kind, uint64_t delay_ms)
{
    later(w, delay_ms,
          (struct future){.kind = kind, .worker = worker, .life = w->actors[worker].life});
}

void actor_die(struct world *w, uint32_t worker, enum feed_death death)
{
    struct actor *a = &w->actors[worker];
    a->alive = false;
    later(w, 1 + below(w, 20),
          (struct future){.kind = F_EXIT, .worker = worker, .life = a->life, .detail = death});
}

void actor_spawn(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    for (uint64_t i = 0; i < w->n_items; i++)
        w->items[i].worked &= ~(1u << worker);
    *a = (struct actor){.alive = true,
                        .may_get = true,
                        .is_loading = true,
                        .has_process = a->has_process,
                        .spawned_ms = a->spawned_ms,
                        .life = a->life + 1,
                        .kind = a->kind,
                        .speed = a->speed};
    if (chance(w, w->rates.no_start))
        actor_die(w, worker, chance(w, 0.5) ? GONE_NOT_STARTED : GONE_CRASH);
    else
        plan(w, worker, F_STARTED, 1 + below(w, w->is_steady ? 20 : 500));
}

void actor_end(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    if (a->has_ended)
        return;
    a->ending = true;
    bool waits = a->n_in_hand == 0 || a->kind == A_BATCHED ||
                 (a->kind == A_BLOCKED && a->n_read == 0 && a->n_in_hand < BLOCK_LINES);
    if (a->alive && waits)
        plan(w, worker, F_FINISH, 0);
}

void actor_terminate(struct world *w, uint32_t worker)
{
    if (!w->actors[worker].alive)
        return;
    if (w->actors[worker].has_ended)
        unsafe(w, "worker %u was to be ended, but it had ended well", worker);
    actor_die(w, worker, GONE_ENDED);
    if (chance(w, w->rates.late))
        plan(w, worker, F_LATE, 0);
}

/* ---- work ---- */

/* It looks at its work when it is through with what it does now. */
static bool may_work(const struct world *w, const struct actor *a)
{
    if (a->kind == A_BLOCKED && !a->ending)
        return a->n_read > 0 || a->n_in_hand >= BLOCK_LINES;
    if (a->kind == A_BATCHED && !a->ending)
        return a->n_in_hand >= w->config.batch;
    return a->n_in_hand > 0;
}

static void work_next(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    uint64_t item = a->n_in_hand > 0 ? a->in_hand[0] : 0;
    double ms = (double)dist_us(&w->service, w->seed, item) / 1000 * a->speed;
    ms *= item == w->hopeless ? HOPELESS_TIMES : 1; /* it fails after a limit of its own */
    if (chance(w, w->rates.stall))
        ms += 500 + below(w, 8000);
    plan(w, worker, F_FINISH, (uint64_t)ms);
}

/* Its shell sees that it reads and says nothing. */
static void quiet_look(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    if (!a->looks_quiet)
        plan(w, worker, F_QUIET, 100);
    a->looks_quiet = true;
}

static uint64_t hand_take(struct actor *a, uint32_t at)
{
    uint64_t item = a->in_hand[at];
    memmove(a->in_hand + at, a->in_hand + at + 1, (--a->n_in_hand - at) * sizeof(*a->in_hand));
    return item;
}

/* A filter's unfit items keep their place in its order until all before them are answered. */
static void unfit_pass(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    uint32_t life = a->life;
    while (a->alive && a->life == life && a->kind < A_KEYED && a->n_in_hand > 0 &&
           w->items[a->in_hand[0]].is_unfit) {
        hand_take(a, 0);
        step(w, (struct feed_event){.kind = EV_PASSED, .worker = worker, .count = 1});
    }
}

void actor_receive(struct world *w, const struct feed_action *action)
{
    struct actor *a = &w->actors[action->worker];
    bool was_idle = a->n_in_hand == 0;
    if (!a->alive)
        return;
    ASSERT(a->n_in_hand + action->count <= IN_HAND_MAX);
    for (uint64_t i = action->item; i < action->item + action->count; i++) {
        bool is_late = w->items[i].is_unfit && a->kind >= A_KEYED && chance(w, 0.5);
        if (is_late)
            later(w, below(w, 20),
                  (struct future){
                      .kind = F_UNFIT, .worker = action->worker, .life = a->life, .item = i});
        else if (w->items[i].is_unfit)
            soon(w, (struct feed_event){.kind = EV_UNFIT, .worker = action->worker, .item = i});
        if (!w->items[i].is_unfit || a->kind < A_KEYED)
            a->in_hand[a->n_in_hand++] = i;
    }
    if (w->oom_above > 0 && a->n_in_hand > w->oom_above && a->kind == A_CHANNEL) {
        if (chance(w, 0.5)) {
            actor_die(w, action->worker, GONE_OOM);
            return;
        }
        later(w, 1,
              (struct future){.kind = F_OOM,
                              .worker = action->worker,
                              .life = a->life,
                              .count = 1 + below(w, (uint32_t)a->n_in_hand - 1)});
    }
    if (a->kind < A_CHANNEL)
        plan(w, action->worker, F_ROOM, 0);
    bool fills_block = a->kind == A_BLOCKED && a->n_read == 0 && a->n_in_hand >= BLOCK_LINES &&
                       a->n_in_hand - action->count < BLOCK_LINES;
    if (fills_block || a->kind == A_BATCHED || (was_idle && a->kind != A_BLOCKED))
        work_next(w, action->worker);
    quiet_look(w, action->worker);
}

static void answer_lines(struct world *w, uint32_t worker, uint64_t lines)
{
    struct actor *a = &w->actors[worker];
    lines += a->lines_held;
    a->lines_held = (uint32_t)lines;
    bool holds = a->kind == A_BUFFERED || a->kind == A_BLOCKED;
    if (holds && !a->finishing && lines < 64)
        return;
    a->lines_held = 0;
    a->has_answered = true;
    if (chance(w, w->rates.stray)) {
        w->strays++;
        if (chance(w, 0.5)) { /* its shell sees that it cannot be an answer */
            step(w, (struct feed_event){.kind = EV_STRAY, .worker = worker});
            return;
        }
        lines++;
    }
    step(w, (struct feed_event){.kind = EV_ANSWERS, .worker = worker, .count = lines});
}

/* A line that is an answer, but a failed one: the lines before it are told first. */
static void fail_in_order(struct world *w, uint32_t worker, uint64_t item)
{
    struct actor *a = &w->actors[worker];
    uint32_t life = a->life;
    if (a->lines_held > 0) {
        uint32_t lines = a->lines_held;
        a->lines_held = 0;
        step(w, (struct feed_event){.kind = EV_ANSWERS, .worker = worker, .count = lines});
    }
    a->has_answered = true;
    if (a->alive && a->life == life)
        step(w, (struct feed_event){
                    .kind = EV_FAIL, .worker = worker, .item = item, .flag = chance(w, 0.9)});
    if (a->alive && a->life == life)
        step(w, (struct feed_event){.kind = EV_PASSED, .worker = worker, .count = 1});
}

/* A message that cannot be read, or a line without an end; at times it is known over which item. */
static void babble(struct world *w, uint32_t worker, uint64_t item)
{
    w->actors[worker].has_answered = true;
    step(w, (struct feed_event){
                .kind = EV_STRAY, .worker = worker, .item = item, .flag = chance(w, 0.5)});
}

static void leave(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    if (!a->ending || !a->alive)
        return;
    a->finishing = true;
    if (a->lines_held > 0)
        answer_lines(w, worker, 0);
    bool lingers = a->kind != A_SHARD && chance(w, w->rates.hang);
    if (a->alive && !lingers)
        actor_die(w, worker, GONE_CLEAN);
}

/* Its shell sees that it waits for more and has nothing in hand, where the kernel shows it. */
static void rest_tell(struct world *w, uint32_t worker)
{
    const struct actor *a = &w->actors[worker];
    if (a->kind < A_KEYED && a->n_in_hand == 0 && a->lines_held == 0 && !a->hangs && w->shows_rest)
        step(w, (struct feed_event){.kind = EV_RESTS, .worker = worker});
}

/* Seen at its next item, or at one that it has answered with too many lines. */
static void work_tell(struct world *w, uint32_t worker)
{
    const struct actor *a = &w->actors[worker];
    if (a->alive && a->kind < A_KEYED && w->shows_rest && w->steps % 3 == 0)
        step(w, (struct feed_event){.kind = EV_WORKS, .worker = worker});
}

/* To look at what it made may take longer than the limit on an item. */
static void end_well(struct world *w, uint32_t worker, uint64_t item)
{
    struct actor *a = &w->actors[worker];
    a->has_ended = true;
    later(w, 1 + below(w, 9000),
          (struct future){.kind = F_LOOKED_AT, .worker = worker, .life = a->life, .item = item});
    step(w, (struct feed_event){.kind = EV_ENDED, .worker = worker});
}

static void on_looked_at(struct world *w, const struct future *f)
{
    if (!chance(w, w->rates.fail))
        step(w, (struct feed_event){.kind = EV_DONE, .worker = f->worker, .item = f->item});
    actor_die(w, f->worker, GONE_CLEAN);
}

static void answer(struct world *w, uint32_t worker, uint64_t item)
{
    struct actor *a = &w->actors[worker];
    uint32_t life = a->life;
    a->answered++;
    w->items[item].worked |= 1u << worker;
    w->items[item].worked_ms = w->now_ms;
    if (a->kind == A_SHARD) {
        end_well(w, worker, item);
        return;
    }
    a->has_answered = a->has_answered || a->kind >= A_KEYED;
    if (a->kind == A_CHANNEL && chance(w, 10 * w->rates.stray))
        babble(w, worker, item);
    else if (a->kind < A_KEYED && w->strays == 0 && chance(w, w->rates.fail)) /* in step */
        fail_in_order(w, worker, item);
    else if (a->kind < A_KEYED)
        answer_lines(w, worker, 1);
    else if (a->kind == A_CHANNEL && (item == w->hopeless || chance(w, w->rates.fail)))
        step(w, (struct feed_event){.kind = EV_FAIL,
                                    .worker = worker,
                                    .item = item,
                                    .flag = item == w->hopeless || chance(w, 0.9)});
    else
        step(w, (struct feed_event){.kind = EV_DONE, .worker = worker, .item = item});
    if (a->kind == A_CHANNEL && a->alive && a->life == life)
        step(w, (struct feed_event){.kind = EV_READY, .worker = worker, .count = 1});
    if (!a->alive || a->life != life)
        return;
    unfit_pass(w, worker);
    bool waits = a->kind == A_BLOCKED ? !may_work(w, a) : a->n_in_hand == 0;
    if (a->alive && (a->ending || !waits))
        work_next(w, worker);
    else if (a->alive && a->life == life)
        rest_tell(w, worker);
    if (a->alive && a->life == life && !waits)
        work_tell(w, worker);
}

/* What befalls it instead of an answer. */
static bool is_struck(struct world *w, uint32_t worker, uint64_t item)
{
    struct actor *a = &w->actors[worker];
    bool is_worn = w->rates.crash_after > 0 && a->answered >= w->rates.crash_after;
    /* Before its first word it may be loading, as far as anyone can tell. */
    if ((a->has_answered || w->config.start_limit_ms > 0) && chance(w, w->rates.hang)) {
        a->hangs = true;
        return true;
    }
    if (item == w->poison || is_worn || chance(w, w->rates.crash))
        actor_die(w, worker, GONE_CRASH);
    else if (chance(w, w->rates.early))
        actor_die(w, worker, GONE_CLEAN);
    else
        return false;
    return true;
}

void actor_finish(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    if (a->has_ended)
        return;
    unfit_pass(w, worker);
    if (a->n_in_hand == 0) {
        leave(w, worker);
        return;
    }
    if (a->hangs || !a->alive || !may_work(w, a))
        return;
    /* Answers that say what they are for come in any order. */
    uint32_t at = a->kind >= A_KEYED ? below(w, MIN(a->n_in_hand, 4u)) : 0;
    if (is_struck(w, worker, a->in_hand[at]))
        return;
    if (a->kind == A_BLOCKED && a->n_read == 0)
        a->n_read = MIN(a->n_in_hand, (uint32_t)BLOCK_LINES);
    a->n_read -= a->n_read > 0;
    answer(w, worker, hand_take(a, at));
}

/* ---- what was planned comes about ---- */

static void on_started(struct world *w, const struct future *f)
{
    struct actor *a = &w->actors[f->worker];
    step(w, (struct feed_event){.kind = EV_STARTED, .worker = f->worker});
    if (a->kind == A_KEYED)
        step(w, (struct feed_event){.kind = EV_KEYED, .worker = f->worker});
    if (a->kind < A_CHANNEL && w->shows_rest)
        step(w, (struct feed_event){.kind = EV_READS, .worker = f->worker});
    if (chance(w, 0.2))
        step(w, (struct feed_event){.kind = EV_LOADED, .worker = f->worker});
    if (a->kind == A_CHANNEL) {
        if (chance(w, 0.3)) /* it might be a filter, until it asks: then that item was not taken */
            step(w, (struct feed_event){.kind = EV_ROOM, .worker = f->worker, .count = 500});
        a->n_in_hand = 0;
        step(w,
             (struct feed_event){.kind = EV_READY, .worker = f->worker, .count = w->concurrency});
    } else if (a->kind == A_SHARD) {
        step(w, (struct feed_event){.kind = EV_READY, .worker = f->worker, .count = 1});
    } else {
        step(w, (struct feed_event){.kind = EV_ROOM, .worker = f->worker, .count = 500});
    }
}

static void on_room(struct world *w, const struct future *f)
{
    unfit_pass(w, f->worker);
    if (w->actors[f->worker].alive && w->actors[f->worker].n_in_hand < IN_HAND_MAX / 2)
        step(w, (struct feed_event){.kind = EV_ROOM, .worker = f->worker, .count = 500});
}

static void on_quiet(struct world *w, const struct future *f)
{
    struct actor *a = &w->actors[f->worker];
    if (a->ending)
        return;
    a->looks_quiet = false;
    if (!may_work(w, a) && (a->n_in_hand > 0 || a->lines_held > 0))
        step(w, (struct feed_event){.kind = chance(w, 0.1) ? EV_FULL : EV_IDLE,
                                    .worker = f->worker,
                                    .flag = w->is_steady || chance(w, 0.5)});
    if (a->alive && a->life == f->life && (a->n_in_hand > 0 || a->lines_held > 0))
        quiet_look(w, f->worker);
}

static void on_late(struct world *w, const struct future *f)
{
    struct actor *a = &w->actors[f->worker];
    if (f->life != a->life || a->n_in_hand == 0 || w->items[a->in_hand[0]].is_unfit)
        return;
    w->items[a->in_hand[0]].worked |= 1u << f->worker;
    step(w, (struct feed_event){.kind = a->kind < A_KEYED ? EV_ANSWERS : EV_DONE,
                                .worker = f->worker,
                                .item = a->in_hand[0],
                                .count = 1});
}

static void on_finish(struct world *w, const struct future *f)
{
    actor_finish(w, f->worker);
}

static void on_oom(struct world *w, const struct future *f)
{
    step(w, (struct feed_event){.kind = EV_OOM, .worker = f->worker, .count = f->count});
}

static void on_unfit(struct world *w, const struct future *f)
{
    step(w, (struct feed_event){.kind = EV_UNFIT, .worker = f->worker, .item = f->item});
}

static void on_exit_fact(struct world *w, const struct future *f)
{
    if (f->life != w->actors[f->worker].life)
        return;
    /* Its last words may tell of a lost device; whether that is true, nobody knows. */
    bool tells_of_loss = f->detail == GONE_CRASH && !w->is_healed && chance(w, 0.02);
    step(w, (struct feed_event){.kind = EV_EXIT,
                                .worker = f->worker,
                                .death = tells_of_loss ? GONE_DEVICE_LOST : f->detail});
    later(w, below(w, 50), (struct future){.kind = F_MEM, .worker = f->worker});
    if (tells_of_loss)
        later(w, below(w, 300), (struct future){.kind = F_BACK, .worker = w->device_of[f->worker]});
    if (chance(w, w->rates.echo))
        later(w, 0, (struct future){.kind = F_EXIT_AGAIN, .worker = f->worker, .life = f->life});
}

static void on_exit_again(struct world *w, const struct future *f)
{
    if (f->life == w->actors[f->worker].life)
        step(w, (struct feed_event){.kind = EV_EXIT, .worker = f->worker, .death = GONE_CRASH});
}

static void on_committed(struct world *w, const struct future *f)
{
    step(w, (struct feed_event){.kind = EV_COMMITTED, .item = f->item, .count = f->count});
}

static void on_durable(struct world *w, const struct future *f)
{
    oracle_durable(w, f->item, f->count);
}

static void on_mem(struct world *w, const struct future *f)
{
    step(w, (struct feed_event){.kind = EV_MEM_BACK, .worker = f->worker});
}

static void on_input(struct world *w, const struct future *f)
{
    bool is_all = f->count == w->n_items;
    step(w, (struct feed_event){.kind = EV_INPUT, .count = f->count, .flag = is_all});
    if (!is_all)
        later(w, 5,
              (struct future){.kind = F_INPUT,
                              .count = f->count + 1 + below(w, w->n_items - f->count)});
}

/* Its host comes back, or is given up. What becomes of it is drawn apart, so that all else is as without hosts. */
static void host_await(struct world *w, const struct future *f)
{
    struct rng hosts = {.state = item_seed(w->seed, w->now_ms + f->worker)};
    bool is_given_up = rng_below(&hosts, 4) == 0;
    later(w, rng_below(&hosts, 60000),
          is_given_up ? (struct future){.kind = F_LOST, .worker = f->worker, .count = 2}
                      : (struct future){.kind = F_BACK, .worker = f->worker});
}

static void on_lost(struct world *w, const struct future *f)
{
    bool with_host = f->count == 1;
    step(w, (struct feed_event){.kind = EV_DEVICE_LOST, .worker = f->worker, .flag = with_host});
    if (with_host)
        host_await(w, f);
    else if (chance(w, 0.5))
        later(w, below(w, 300), (struct future){.kind = F_BACK, .worker = f->worker});
}

static void on_back(struct world *w, const struct future *f)
{
    for (uint32_t worker = 0; worker < w->n_workers; worker++)
        if (w->device_of[worker] == w->first_of[f->worker])
            step(w, (struct feed_event){.kind = EV_MEM_BACK, .worker = worker});
    step(w, (struct feed_event){.kind = EV_DEVICE_BACK, .worker = w->first_of[f->worker]});
    if (chance(w, 0.3))
        later(w, below(w, 300), (struct future){.kind = F_LOST, .worker = f->worker});
}

static void tell_step(void *context, struct feed_event event)
{
    step(context, event);
}

void set_arrive(struct world *w, uint32_t n_devices, uint32_t n_seats,
                void (*tell)(void *context, struct feed_event event), void *context)
{
    uint32_t first = w->n_devices;
    for (uint32_t i = 0; i < n_devices; i++) {
        w->host_of[w->n_devices] = first % MAX(w->n_hosts, 1u);
        w->first_of[w->n_devices++] = first;
        tell(context, (struct feed_event){
                          .kind = EV_DEVICE_UP, .worker = first, .count = w->host_of[first]});
    }
    for (uint32_t i = 0; i < n_seats; i++) {
        w->device_of[w->n_workers++] = first;
        tell(context, (struct feed_event){.kind = EV_SEAT_UP, .worker = first});
    }
}

static void on_arrive(struct world *w, const struct future *f)
{
    uint32_t n_devices = (uint32_t)f->count;
    if (w->n_devices + n_devices <= DEVICES_MAX && w->n_workers + 2 <= WORKERS_MAX)
        set_arrive(w, n_devices, 2, tell_step, w);
    if (f->detail)
        step(w, (struct feed_event){.kind = EV_AWAIT, .flag = false});
}

static void on_drain(struct world *w, const struct future *f)
{
    uint32_t set = w->first_of[f->worker % w->n_devices];
    step(w, (struct feed_event){.kind = EV_SET_DRAIN, .worker = set, .flag = f->count > 0});
}

static void on_stop(struct world *w, const struct future *f)
{
    step(w, (struct feed_event){.kind = EV_STOP, .flag = f->count > 0});
}

/*
 * Facts that were told before, or that mean nothing: nobody may be confused by them. One that hangs says
 * nothing: it would be taken to have answered what it holds, and nobody would wait for it any more.
 */
static void on_echo(struct world *w, const struct future *f)
{
    struct actor *a = &w->actors[f->worker];
    struct feed_event echoes[] = {
        {.kind = EV_TICK},
        {.kind = EV_INPUT, .count = below(w, w->known + 1)},
        {.kind = EV_MEM_BACK, .worker = f->worker},
        {.kind = EV_STARTED, .worker = f->worker},
        {.kind = EV_READY, .worker = f->worker, .count = 0},
        {.kind = EV_DONE, .worker = f->worker, .item = below(w, 2 * w->n_items + 1)},
        {.kind = EV_FAIL, .worker = f->worker, .item = w->n_items + below(w, 9), .flag = true},
    };
    bool is_plain = a->kind < A_KEYED || !a->alive || !a->answered || a->hangs;
    struct feed_event echo = echoes[below(w, is_plain ? 3 : a->kind == A_KEYED ? 4 : 7)];
    if (echo.kind == EV_DONE && echo.item < w->n_items)
        w->items[echo.item].worked |= 1u << f->worker;
    if (echo.kind != EV_DONE || echo.item >= w->n_items || !w->items[echo.item].is_unfit)
        step(w, echo);
    if (!w->is_healed)
        later(w, 1 + below(w, 500),
              (struct future){.kind = F_ECHO, .worker = below(w, w->n_workers)});
}

/* An item of which both copies are on the host must wait for it; then nothing is said about the others. */
static bool holds_both(const struct world *w, uint32_t host)
{
    for (uint64_t i = 0; i < w->n_items; i++) {
        const uint8_t *holders = w->items[i].holders;
        if (holders[0] && holders[1] && host_of_worker(w, holders[0] - 1u) == host &&
            host_of_worker(w, holders[1] - 1u) == host)
            return true;
    }
    return false;
}

static void on_freeze(struct world *w, const struct future *f)
{
    uint64_t n_open = 0;
    for (uint64_t i = 0; i < w->n_items; i++)
        n_open += w->items[i].outcome == 0;
    if (n_open > f->count) {
        later(w, 1, *f);
        return;
    }
    uint32_t host = host_of_worker(w, f->worker);
    w->frost.host = host;
    w->frost.until_ms = w->now_ms + FREEZE_MS;
    w->frost.is_judged = !holds_both(w, host);
    for (uint32_t i = 0; i < w->n_workers; i++)
        w->frost.is_judged &= w->actors[i].has_answered;
    later(w, FREEZE_MS, (struct future){.kind = F_THAW});
}

static void on_thaw(struct world *w, const struct future *f)
{
    (void)f;
    if (w->frost.is_judged && !w->is_complete)
        unsafe(w, "items waited for a host that hangs, while others were idle");
}

/* Put off until its host thaws. */
static bool is_frozen(const struct world *w, const struct future *f, bool is_alives)
{
    bool is_workers = is_alives || f->kind == F_EXIT || f->kind == F_MEM;
    return is_workers && w->now_ms < w->frost.until_ms &&
           host_of_worker(w, f->worker) == w->frost.host;
}

void happen(struct world *w, const struct future *f)
{
    static const struct handler {
        void (*happen)(struct world *w, const struct future *f);
        bool is_alives; /* void when the worker is gone */
    } handlers[F_KINDS] = {
        [F_STARTED] = {on_started, true},      [F_FINISH] = {on_finish, true},
        [F_EXIT] = {on_exit_fact, false},      [F_EXIT_AGAIN] = {on_exit_again, false},
        [F_COMMITTED] = {on_committed, false}, [F_LOOKED_AT] = {on_looked_at, true},
        [F_DURABLE] = {on_durable, false},     [F_MEM] = {on_mem, false},
        [F_INPUT] = {on_input, false},         [F_ROOM] = {on_room, true},
        [F_QUIET] = {on_quiet, true},          [F_LATE] = {on_late, false},
        [F_LOST] = {on_lost, false},           [F_BACK] = {on_back, false},
        [F_STOP] = {on_stop, false},           [F_OOM] = {on_oom, true},
        [F_ECHO] = {on_echo, false},           [F_UNFIT] = {on_unfit, true},
        [F_ARRIVE] = {on_arrive, false},       [F_DRAIN] = {on_drain, false},
        [F_FREEZE] = {on_freeze, false},       [F_THAW] = {on_thaw, false},
    };
    if (is_frozen(w, f, handlers[f->kind].is_alives)) {
        later(w, w->frost.until_ms - w->now_ms, *f);
        return;
    }
    if (handlers[f->kind].is_alives) { /* else it may be about a device */
        const struct actor *a = &w->actors[f->worker];
        if (f->life != a->life || !a->alive)
            return;
    }
    handlers[f->kind].happen(w, f);
}
