/* SPDX-License-Identifier: Apache-2.0
 *
 * The real feeder in a simulated world: virtual time, a heap of future events, one PRNG. Workers are
 * filters or channel workers; they are slow, fail, crash, crash on one particular item, run out of
 * memory above a batch size, print stray lines, or never start. All rates are drawn from the seed.
 *
 * Safety is checked after every step (feed_check, and no item committed twice), liveness at the
 * end: every item is committed or set aside, and everybody has gone.
 *
 *   sim_feed [--seeds N] [--seed S] [--trace]
 */
#include <string.h>

#include "base/xalloc.h"
#include "core/feed.h"

enum {
    EVENTS_MAX = 1 << 16,
    STEPS_MAX = 3000000,
    WORKERS_MAX = 16,
    IN_HAND_MAX = 4096
};

enum future_kind {
    F_STARTED,
    F_READY,
    F_FINISH,
    F_EXIT,
    F_COMMITTED,
    F_MEM,
    F_TICK,
    F_INPUT,
    F_ROOM,
    F_QUIET
};

struct future {
    uint64_t at_ms, sequence;
    enum future_kind kind;
    uint32_t worker, life;
    uint64_t item, count;
    enum feed_death death;
};

struct actor {
    bool alive, channel, ending, buffered, finishing;
    uint32_t life;
    uint64_t in_hand[IN_HAND_MAX];
    uint32_t n_in_hand;
    uint32_t lines_held; /* a filter that buffers its output */
    double speed;
    uint64_t credits_given;
};

struct world {
    struct rng rng;
    struct feed *feed;
    struct feed_config config;
    uint32_t device_of[WORKERS_MAX];
    uint64_t now_ms, sequence, n_items;
    struct future *heap;
    uint32_t heap_len;
    struct actor actors[WORKERS_MAX];
    uint8_t *outcome; /* 0 open, 1 committed, 2 aside */
    bool trace, over, complete, halted;
    double p_fail, p_crash, p_stray, p_no_start, heavy;
    uint64_t poison, mean_ms;
    uint32_t oom_above, concurrency;
    uint64_t steps;
};

static bool before(const struct future *a, const struct future *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->sequence < b->sequence;
}

static void later(struct world *w, uint64_t delay_ms, struct future f)
{
    f.at_ms = w->now_ms + delay_ms;
    f.sequence = w->sequence++;
    ASSERT(w->heap_len < EVENTS_MAX);
    uint32_t at = w->heap_len++;
    for (; at > 0 && before(&f, &w->heap[(at - 1) / 2]); at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = f;
}

static struct future soonest(struct world *w)
{
    struct future top = w->heap[0], last = w->heap[--w->heap_len];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= w->heap_len)
            break;
        if (child + 1 < w->heap_len && before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (before(&last, &w->heap[child]))
            break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return top;
}

static bool chance(struct world *w, double p)
{
    return rng_unit(&w->rng) < p;
}

static uint64_t service_ms(struct world *w, const struct actor *a)
{
    double t = (double)w->mean_ms * a->speed * (0.5 + rng_unit(&w->rng));
    if (chance(w, w->heavy))
        t *= 20;
    return (uint64_t)t;
}

static void act(struct world *w, const struct feed_action *action);

static void step(struct world *w, struct feed_event ev)
{
    const struct feed_action *actions;
    struct feed_action copy[1024];
    ev.now_ms = w->now_ms;
    size_t n = feed_step(w->feed, &ev, &actions);
    ASSERT(n <= countof(copy));
    memcpy(copy, actions, n * sizeof(*copy));
    feed_check(w->feed);
    w->steps++;
    for (size_t i = 0; i < n; i++)
        act(w, &copy[i]);
}

static void die(struct world *w, uint32_t worker, enum feed_death death)
{
    struct actor *a = &w->actors[worker];
    a->alive = false;
    later(w, 1 + rng_below(&w->rng, 20),
          (struct future){.kind = F_EXIT, .worker = worker, .life = a->life, .death = death});
}

static void work_next(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    later(w, service_ms(w, a),
          (struct future){.kind = F_FINISH, .worker = worker, .life = a->life});
}

static void receive(struct world *w, const struct feed_action *action)
{
    struct actor *a = &w->actors[action->worker];
    if (!a->alive)
        return;
    bool was_idle = a->n_in_hand == 0;
    ASSERT(a->n_in_hand + action->count <= IN_HAND_MAX);
    for (uint64_t i = 0; i < action->count; i++) {
        if (w->outcome[action->item + i] != 0 && action->item + i < w->n_items)
            BUG("item %lu sent after it was settled", action->item + i);
        a->in_hand[a->n_in_hand++] = action->item + i;
    }
    if (a->channel && w->oom_above > 0 && a->n_in_hand > w->oom_above) {
        die(w, action->worker, GONE_OOM);
        return;
    }
    if (!a->channel)
        later(w, 0, (struct future){.kind = F_ROOM, .worker = action->worker, .life = a->life});
    if (was_idle)
        work_next(w, action->worker);
}

static void settle(struct world *w, uint64_t item, uint8_t how)
{
    if (w->outcome[item] != 0)
        BUG("item %lu settled twice", item);
    w->outcome[item] = how;
}

static void act(struct world *w, const struct feed_action *action)
{
    struct actor *a = action->worker < WORKERS_MAX ? &w->actors[action->worker] : NULL;
    if (w->trace)
        printf("%8lu %2d worker %2d item %6lu count %4lu detail %u\n", w->now_ms, action->kind,
               (int)action->worker, action->item, action->count, action->detail);
    switch (action->kind) {
    case ACT_SPAWN:
        ASSERT(!a->alive);
        *a = (struct actor){.alive = true,
                            .life = a->life + 1,
                            .channel = a->channel,
                            .speed = a->speed,
                            .buffered = a->buffered};
        if (chance(w, w->p_no_start))
            die(w, action->worker, chance(w, 0.5) ? GONE_NOT_STARTED : GONE_CRASH);
        else
            later(w, 1 + rng_below(&w->rng, 500),
                  (struct future){.kind = F_STARTED, .worker = action->worker, .life = a->life});
        break;
    case ACT_SEND:
        receive(w, action);
        break;
    case ACT_END:
        a->ending = true;
        if (a->alive && a->n_in_hand == 0)
            later(w, 0,
                  (struct future){.kind = F_FINISH, .worker = action->worker, .life = a->life});
        break;
    case ACT_TERMINATE:
        if (a->alive)
            die(w, action->worker, GONE_ENDED);
        break;
    case ACT_COMMIT:
        for (uint64_t i = 0; i < action->count; i++)
            settle(w, action->item + i, 1);
        later(w, rng_below(&w->rng, 30),
              (struct future){.kind = F_COMMITTED, .item = action->item, .count = action->count});
        break;
    case ACT_SET_ASIDE:
        settle(w, action->item, 2);
        later(w, rng_below(&w->rng, 30),
              (struct future){.kind = F_COMMITTED, .item = action->item, .count = 1});
        break;
    case ACT_COMPLETE:
        w->complete = true;
        break;
    case ACT_HALT:
        w->halted = true;
        break;
    case ACT_OVER:
        w->over = true;
        break;
    case ACT_BATCH:
    case ACT_DROP:
    case ACT_REVOKE:
    case ACT_BENCH:
    case ACT_NOTE:
        break;
    }
}

static void answer(struct world *w, uint32_t worker, uint64_t lines)
{
    struct actor *a = &w->actors[worker];
    if (a->buffered && !a->finishing) {
        a->lines_held += (uint32_t)lines;
        if (a->lines_held < 64)
            return;
        lines = a->lines_held;
    }
    a->lines_held = 0;
    if (chance(w, w->p_stray))
        lines++;
    step(w, (struct feed_event){.kind = EV_ANSWERS, .worker = worker, .count = lines});
}

static void finish_item(struct world *w, uint32_t worker)
{
    struct actor *a = &w->actors[worker];
    if (a->n_in_hand == 0) {
        if (a->ending && a->alive) {
            a->finishing = true;
            if (a->lines_held > 0)
                answer(w, worker, 0);
            if (a->alive)
                die(w, worker, GONE_CLEAN);
        }
        return;
    }
    uint64_t item = a->in_hand[0];
    if (item == w->poison || chance(w, w->p_crash)) {
        die(w, worker, GONE_CRASH);
        return;
    }
    memmove(a->in_hand, a->in_hand + 1, --a->n_in_hand * sizeof(*a->in_hand));
    uint32_t life = a->life;
    if (!a->channel)
        answer(w, worker, 1);
    else if (chance(w, w->p_fail))
        step(w, (struct feed_event){.kind = EV_FAIL, .worker = worker, .item = item, .flag = true});
    else
        step(w, (struct feed_event){.kind = EV_DONE, .worker = worker, .item = item});
    if (a->channel && a->alive && a->life == life)
        step(w, (struct feed_event){.kind = EV_READY, .worker = worker, .count = 1});
    if (a->alive && a->life == life) {
        if (a->n_in_hand > 0 || a->ending)
            work_next(w, worker);
        else if (a->buffered)
            later(w, 300, (struct future){.kind = F_QUIET, .worker = worker, .life = life});
    }
}

static void happen(struct world *w, struct future f)
{
    struct actor *a = &w->actors[f.worker];
    bool stale = f.life != a->life || !a->alive;
    switch (f.kind) {
    case F_STARTED:
        if (stale)
            return;
        step(w, (struct feed_event){.kind = EV_STARTED, .worker = f.worker});
        if (a->channel)
            step(w, (struct feed_event){
                        .kind = EV_READY, .worker = f.worker, .count = w->concurrency});
        else
            step(w, (struct feed_event){.kind = EV_ROOM, .worker = f.worker, .count = 500});
        return;
    case F_ROOM:
        if (!stale && a->n_in_hand < IN_HAND_MAX / 2)
            step(w, (struct feed_event){.kind = EV_ROOM, .worker = f.worker, .count = 500});
        return;
    case F_QUIET:
        if (!stale && a->n_in_hand == 0 && a->lines_held > 0)
            step(w, (struct feed_event){.kind = EV_HUNGRY, .worker = f.worker});
        return;
    case F_FINISH:
        if (!stale)
            finish_item(w, f.worker);
        return;
    case F_EXIT:
        if (f.life != a->life)
            return;
        step(w, (struct feed_event){.kind = EV_EXIT, .worker = f.worker, .death = f.death});
        later(w, rng_below(&w->rng, 50),
              (struct future){.kind = F_MEM, .worker = w->device_of[f.worker]});
        return;
    case F_MEM:
        step(w, (struct feed_event){.kind = EV_MEM_BACK, .worker = f.worker});
        return;
    case F_COMMITTED:
        step(w, (struct feed_event){.kind = EV_COMMITTED, .item = f.item, .count = f.count});
        return;
    case F_INPUT:
        step(w, (struct feed_event){
                    .kind = EV_INPUT, .count = f.count, .flag = f.count == w->n_items});
        if (f.count < w->n_items)
            later(w, 5,
                  (struct future){.kind = F_INPUT,
                                  .count = f.count + 1 + rng_below(&w->rng, w->n_items - f.count)});
        return;
    case F_READY:
    case F_TICK:
        step(w, (struct feed_event){.kind = EV_TICK});
        return;
    }
}

static void world_draw(struct world *w, uint64_t seed)
{
    w->rng.state = seed;
    bool calm = chance(w, 0.2);
    w->n_items = chance(w, 0.1) ? rng_below(&w->rng, 4) : 1 + rng_below(&w->rng, 600);
    w->config.n_workers = 1 + (uint32_t)rng_below(&w->rng, 8);
    w->config.n_devices = w->config.n_workers;
    if (chance(w, 0.3))
        w->config.n_devices = (w->config.n_workers + 1) / 2;
    for (uint32_t i = 0; i < w->config.n_workers; i++)
        w->device_of[i] = i % w->config.n_devices;
    w->config.device_of = w->device_of;
    w->config.spread_log2 = 5 + (uint32_t)rng_below(&w->rng, 6);
    w->config.retries = (uint32_t)rng_below(&w->rng, 4);
    w->config.batch = chance(w, 0.3) ? 1 + (uint32_t)rng_below(&w->rng, 12) : 0;
    w->config.fixed_batches = w->config.batch > 0 && chance(w, 0.3);
    w->config.no_reissue = chance(w, 0.3);
    w->config.loading_max = chance(w, 0.3) ? 1 : 0;
    w->config.item_limit_ms = chance(w, 0.2) ? 4000 : 0;
    w->config.seed = seed;
    w->mean_ms = 1 + rng_below(&w->rng, 50);
    w->heavy = chance(w, 0.3) ? 0.02 : 0;
    w->concurrency = 1 + (uint32_t)rng_below(&w->rng, 40);
    w->p_fail = calm || chance(w, 0.5) ? 0 : 0.05;
    w->p_crash = calm || chance(w, 0.5) ? 0 : 0.01;
    w->p_stray = calm || chance(w, 0.9) ? 0 : 0.001;
    w->p_no_start = calm || chance(w, 0.7) ? 0 : 0.1;
    w->oom_above = calm || chance(w, 0.7) ? 0 : 1 + (uint32_t)rng_below(&w->rng, 8);
    w->poison = calm || chance(w, 0.6) ? UINT64_MAX : rng_below(&w->rng, w->n_items + 1);
    bool all_channel = chance(w, 0.5), any_buffered = chance(w, 0.3);
    for (uint32_t i = 0; i < w->config.n_workers; i++) {
        w->actors[i].channel = all_channel;
        w->actors[i].buffered = !all_channel && any_buffered;
        w->actors[i].speed = chance(w, 0.2) ? 6.0 : 1.0;
    }
}

static bool run(uint64_t seed, bool trace)
{
    struct world *w = xcalloc(1, sizeof(*w));
    w->trace = trace;
    w->heap = xmalloc(EVENTS_MAX * sizeof(*w->heap));
    world_draw(w, seed);
    w->outcome = xcalloc(w->n_items + 1, 1);
    w->feed = feed_new(&w->config);
    later(w, 0, (struct future){.kind = F_INPUT, .count = rng_below(&w->rng, w->n_items + 1)});
    while (!w->over && w->steps < STEPS_MAX) {
        uint64_t wake_ms = feed_next_ms(w->feed);
        if (w->heap_len == 0 && wake_ms == UINT64_MAX)
            break;
        if (w->heap_len == 0 || wake_ms < w->heap[0].at_ms) {
            w->now_ms = MAX(w->now_ms, wake_ms);
            step(w, (struct feed_event){.kind = EV_TICK});
            continue;
        }
        struct future f = soonest(w);
        w->now_ms = f.at_ms;
        happen(w, f);
    }
    uint64_t open = 0;
    for (uint64_t i = 0; i < w->n_items; i++)
        open += w->outcome[i] == 0;
    bool alive = w->over && (w->halted || open == 0);
    if (!alive)
        printf(
            "FAIL seed=%lu liveness: %lu of %lu items open, over %d, halted %d, at %lu ms, %lu steps\n"
            "replay: sim_feed --seed %lu --trace\n",
            seed, open, w->n_items, w->over, w->halted, w->now_ms, w->steps, seed);
    feed_free(w->feed);
    free(w->heap);
    free(w->outcome);
    free(w);
    return alive;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 2000, first = 1;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seeds") && i + 1 < argc) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
            first = strtoull(argv[++i], NULL, 10);
            seeds = 1;
        } else if (!strcmp(argv[i], "--trace")) {
            trace = true;
        }
    }
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        fflush(stdout);
        if (getenv("SIM_VERBOSE"))
            fprintf(stderr, "seed %lu\n", seed);
        if (!run(seed, trace))
            return 1;
    }
    printf("%lu seeds: every item settled once, everybody gone\n", seeds);
    return 0;
}
