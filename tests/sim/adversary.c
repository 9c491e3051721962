/* SPDX-License-Identifier: Apache-2.0
 *
 * Time, steps and sessions of the adverse world.
 */
#include "sim/adversary.h"

#include <string.h>

#include "base/xalloc.h"

void later(struct world *w, uint64_t delay_ms, struct future future)
{
    future.at_us = (w->now_ms + delay_ms) * 1000;
    ASSERT(heap_push(&w->heap, &future));
}

void world_heal(struct world *w)
{
    w->is_healed = true;
    w->rates = (struct rates){0};
}

/* ---- what the feeder wants ---- */

void soon(struct world *w, struct feed_event event)
{
    if (w->n_queue == w->queue_cap) {
        w->queue_cap = MAX(2 * w->queue_cap, (size_t)64);
        w->queue = xrealloc(w->queue, w->queue_cap * sizeof(*w->queue));
    }
    w->queue[w->n_queue++] = event;
}

/* Results go to a disk that may be full from some write on; what it has survives a kill. */
static void settle(struct world *w, uint64_t item, uint64_t count)
{
    struct feed_event committed = {.kind = EV_COMMITTED, .item = item, .count = count};
    bool was_full = w->disk_is_full;
    w->disk_is_full = w->writes++ >= w->disk_full_at;
    if (!w->disk_is_full) {
        later(w, rng_below(&w->rng, 1000),
              (struct future){.kind = F_DURABLE, .item = item, .count = count});
    } else {
        for (uint64_t i = item; i < item + count; i++)
            w->items[i].is_lost = true;
        if (!was_full)
            soon(w, (struct feed_event){.kind = EV_STOP, .flag = true});
    }
    if (w->commits_at_once)
        soon(w, committed);
    else
        later(w, rng_below(&w->rng, 30),
              (struct future){.kind = F_COMMITTED, .item = item, .count = count});
}

static void act(struct world *w, const struct feed_action *action)
{
    switch (action->kind) {
    case ACT_SPAWN:
        actor_spawn(w, action->worker);
        break;
    case ACT_SEND:
        actor_receive(w, action);
        break;
    case ACT_END:
        actor_end(w, action->worker);
        break;
    case ACT_TERMINATE:
        actor_terminate(w, action->worker);
        break;
    case ACT_COMMIT:
        settle(w, action->item, action->count);
        break;
    case ACT_SET_ASIDE:
        settle(w, action->item, 1);
        break;
    case ACT_COMPLETE:
        w->is_complete = true;
        break;
    case ACT_HALT:
        w->is_halted = true;
        w->halt = action->detail;
        break;
    case ACT_OVER:
        w->is_over = true;
        break;
    case ACT_BATCH:
    case ACT_DROP:
    case ACT_REVOKE:
    case ACT_BENCH:
    case ACT_RETURN:
    case ACT_VACATED:
    case ACT_NOTE:
        break;
    }
}

static void journal_add(struct world *w, const struct feed_event *event)
{
    if (w->n_journal == w->journal_cap) {
        w->journal_cap = MAX(2 * w->journal_cap, (size_t)1024);
        w->journal = xrealloc(w->journal, w->journal_cap * sizeof(*w->journal));
    }
    w->journal[w->n_journal++] = *event;
}

static void step_one(struct world *w, struct feed_event *ev)
{
    const struct feed_action *actions;
    ev->now_ms = w->now_ms;
    w->steps++;
    w->session_steps++;
    if (w->trace)
        trace_event(w, ev);
    oracle_event(w, ev);
    journal_add(w, ev);
    size_t n = feed_step(w->feed, ev, &actions);
    /* It looks at every item in the window: the oracle sees each step, this every fourth. */
    if (w->trace || w->steps % 4 == 0)
        feed_check(w->feed);
    for (size_t i = 0; i < n; i++) {
        const struct feed_action *a = &actions[i];
        w->digest =
            mix64(w->digest ^ (uint64_t)a->kind << 48 ^ a->item << 24 ^ a->count << 8 ^ a->worker);
        if (w->trace)
            trace_action(w, a);
        oracle_action(w, a);
        act(w, a);
    }
    oracle_step_over(w);
}

void step(struct world *w, struct feed_event event)
{
    step_one(w, &event);
    /* Outcomes that are known at once wait for the end of the step, as in the shell. */
    for (size_t i = 0; i < w->n_queue; i++) {
        if (i > AT_ONCE_MAX)
            unsafe(w, "it does not come to rest");
        struct feed_event next = w->queue[i];
        step_one(w, &next);
    }
    w->n_queue = 0;
}

/* ---- sessions ---- */

/* False: nothing can happen any more, or it takes too long. */
static bool go_on(struct world *w)
{
    uint64_t wake_ms = feed_next_ms(w->feed), next_us = heap_next_us(&w->heap);
    if (w->session_steps == STEPS_MAX)
        world_heal(w);
    if (w->session_steps > STEPS_MAX + STEPS_HEALED_MAX)
        return false;
    if (wake_ms == UINT64_MAX && next_us == UINT64_MAX)
        return false;
    if (wake_ms != UINT64_MAX && (next_us == UINT64_MAX || wake_ms < next_us / 1000)) {
        w->now_ms = MAX(w->now_ms, wake_ms);
        step(w, (struct feed_event){.kind = EV_TICK});
        return true;
    }
    struct future f = heap_pop(&w->heap);
    w->session_steps++; /* also when nothing comes of it */
    w->now_ms = f.at_us / 1000;
    happen(w, &f);
    return true;
}

static void session_over(struct world *w)
{
    const struct feed_action *actions;
    struct feed_event late = {.kind = EV_TICK, .now_ms = w->now_ms};
    if (feed_step(w->feed, &late, &actions) != 0)
        unsafe(w, "it did something after it was over");
    for (uint64_t i = 0; i < w->n_items; i++) /* the ledger is flushed before muster goes */
        w->items[i].is_durable = w->items[i].outcome != 0 && !w->items[i].is_lost;
}

/* The same events must lead another feeder into the same state. */
static bool journal_agrees(struct world *w)
{
    const struct feed_action *actions;
    struct feed *feed = feed_new(&w->config);
    for (size_t i = 0; i < w->n_journal; i++)
        feed_step(feed, &w->journal[i], &actions);
    bool agrees = feed_hash(feed) == feed_hash(w->feed);
    feed_free(feed);
    if (!agrees)
        failure_print(w, "determinism", "replaying its events led elsewhere");
    return agrees;
}

static int session_run(struct world *w, bool replay)
{
    w->feed = feed_new(&w->config);
    if (w->seats_are_awaited)
        step(w, (struct feed_event){.kind = EV_AWAIT, .flag = true});
    while (!w->is_over && w->session_steps < w->kill_at)
        if (!go_on(w)) {
            failure_print(w, "liveness",
                          w->is_complete ? "complete, but never over" : "items stay open");
            feed_free(w->feed);
            return RUN_STUCK;
        }
    feed_check(w->feed);
    w->digest = mix64(w->digest ^ feed_hash(w->feed));
    int rc = replay && !journal_agrees(w) ? RUN_DIFFERENT : RUN_OK;
    if (w->is_over)
        session_over(w);
    feed_free(w->feed);
    return rc;
}

/* May the last session end so, without everything settled? */
static bool may_give_up(const struct world *w)
{
    bool has_killers = w->poison != UINT64_MAX || w->oom_above > 0;
    bool starts_failed = w->halt == HALT_NO_RESULT || w->halt == HALT_NO_DEVICES;
    bool has_limit = w->config.failures_max > 0 || w->config.failures_percent > 0;
    return (w->halt == HALT_FAILURES && has_limit) ||
           (starts_failed && (has_killers || w->config.start_limit_ms > 0));
}

static bool all_is_settled(const struct world *w)
{
    for (uint64_t i = 0; i < w->n_items; i++)
        if (!w->items[i].is_durable)
            return false;
    return true;
}

static void world_release(struct world *w)
{
    heap_release(&w->heap);
    free(w->items);
    free(w->order);
    free(w->journal);
    free(w->queue);
    free(w);
}

int world_run(uint64_t seed, bool trace, bool replay, uint64_t *digest)
{
    struct world *w = xcalloc(1, sizeof(*w));
    int rc = RUN_OK;
    w->trace = trace;
    failure_watch(w);
    world_draw(w, seed);
    do {
        w->session++;
        session_draw(w, w->session == SESSIONS_MAX);
        rc = session_run(w, replay);
    } while (rc == RUN_OK && w->session < SESSIONS_MAX && !(w->is_over && all_is_settled(w)));
    *digest = w->digest;
    /* Liveness, the last line: faults stop, and then everything is settled. */
    if (rc == RUN_OK && !all_is_settled(w) && !may_give_up(w)) {
        failure_print(w, "liveness", "it ended with open items");
        rc = RUN_STUCK;
    }
    world_release(w);
    return rc;
}
