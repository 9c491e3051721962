/* SPDX-License-Identifier: Apache-2.0
 *
 * Small worlds, exhaustively: every order in which the facts about at most three items, two workers, one of which may
 * come later, a set that is given back, and two faults can reach the feeder. Random worlds find what is deep, this leaves nothing out that is shallow.
 *
 * A schedule is a list of choices. It is run from the start, taking the first of what may happen wherever
 * the list ends; then the last choice that has another alternative is advanced, and so on (after
 * "exhaustigen" by Alex Kladov). The oracle of the adverse world judges each step.
 */
#include <string.h>

#include "base/xalloc.h"
#include "sim/adversary.h"

enum {
    DEPTH_MAX = 200,
    FACTS_MAX = 64,
    WORKERS = 2,
    ITEMS = 3,
    EARLY_TICKS = 1 /* times that a timer may be early, though other facts are there */
};

struct chooser {
    uint8_t choice[DEPTH_MAX], bound[DEPTH_MAX];
    uint32_t len, at;
};

static uint32_t choose(struct chooser *c, uint32_t bound)
{
    ASSERT(bound > 0 && bound < UINT8_MAX && c->at < DEPTH_MAX);
    if (c->at == c->len) {
        c->choice[c->len] = 0;
        c->bound[c->len++] = (uint8_t)bound;
    }
    return c->choice[c->at++];
}

static bool choose_other(struct chooser *c)
{
    while (c->len > 0 && c->choice[c->len - 1] + 1 >= c->bound[c->len - 1])
        c->len--;
    if (c->len > 0)
        c->choice[c->len - 1]++;
    c->at = 0;
    return c->len > 0;
}

/* What may happen next. */
struct fact {
    struct feed_event event;
    bool is_fault;
};

struct small {
    struct world *w;
    struct chooser chooser;
    enum actor_kind kind;
    uint32_t faults_left, ticks_left, credits, devices_each;
    uint32_t arrivals_left, drains_left;
    bool started[WORKERS], mem_awaited[WORKERS], was_stopped, is_quiet;
    struct fact facts[FACTS_MAX];
    uint32_t n_facts;
};

static void may(struct small *s, bool is_fault, struct feed_event event)
{
    if (is_fault && s->faults_left == 0)
        return;
    ASSERT(s->n_facts < FACTS_MAX);
    s->facts[s->n_facts++] = (struct fact){event, is_fault};
}

static void exits_collect(struct small *s, uint32_t worker)
{
    const struct actor *a = &s->w->actors[worker];
    struct feed_event exit = {.kind = EV_EXIT, .worker = worker};
    if (a->ending || a->is_written_off) {
        exit.death = a->is_written_off ? GONE_ENDED : GONE_CLEAN;
        if (a->is_written_off || a->n_in_hand == 0)
            may(s, false, exit);
    }
    static const enum feed_death deaths[] = {GONE_CRASH, GONE_CLEAN, GONE_OOM, GONE_DEVICE_LOST};
    for (size_t i = 0; i < countof(deaths); i++) {
        exit.death = deaths[i];
        may(s, true, exit);
    }
}

static void answers_collect(struct small *s, uint32_t worker)
{
    const struct actor *a = &s->w->actors[worker];
    if (a->n_in_hand == 0)
        return;
    if (s->kind == A_FILTER) {
        may(s, a->is_written_off,
            (struct feed_event){.kind = EV_ANSWERS, .worker = worker, .count = 1});
        return;
    }
    for (uint32_t i = 0; i < a->n_in_hand; i++) {
        struct feed_event done = {.kind = EV_DONE, .worker = worker, .item = a->in_hand[i]};
        may(s, a->is_written_off, done);
    }
    may(s, true,
        (struct feed_event){
            .kind = EV_FAIL, .worker = worker, .item = a->in_hand[0], .flag = true});
}

static void facts_collect(struct small *s)
{
    s->n_facts = 0;
    for (uint32_t worker = 0; worker < s->w->n_workers; worker++) {
        const struct actor *a = &s->w->actors[worker];
        if (a->alive && !s->started[worker] && !a->is_written_off)
            may(s, false, (struct feed_event){.kind = EV_STARTED, .worker = worker});
        else if (a->alive)
            answers_collect(s, worker);
        if (a->alive)
            exits_collect(s, worker);
        if (s->mem_awaited[worker])
            may(s, false, (struct feed_event){.kind = EV_MEM_BACK, .worker = worker});
    }
    s->is_quiet = true;
    for (uint32_t i = 0; i < s->n_facts; i++)
        s->is_quiet = s->is_quiet && s->facts[i].is_fault;
    if (feed_next_ms(s->w->feed) != UINT64_MAX && (s->is_quiet || s->ticks_left > 0))
        may(s, false, (struct feed_event){.kind = EV_TICK});
    if (!s->was_stopped) {
        may(s, true, (struct feed_event){.kind = EV_STOP, .flag = false});
        may(s, true, (struct feed_event){.kind = EV_STOP, .flag = true});
    }
    if (s->arrivals_left > 0)
        may(s, false, (struct feed_event){.kind = EV_SEAT_UP});
    for (uint32_t d = 0; d < s->w->n_devices && s->drains_left > 0; d++)
        for (int now = 0; now < 2 && s->w->first_of[d] == d; now++)
            may(s, false, (struct feed_event){.kind = EV_SET_DRAIN, .worker = d, .flag = now});
    uint32_t last = s->w->n_devices - 1;
    may(s, true, (struct feed_event){.kind = EV_DEVICE_LOST, .worker = last});
    if (s->w->device_is_lost[last])
        may(s, true, (struct feed_event){.kind = EV_DEVICE_BACK, .worker = last});
}

/* ---- doing it ---- */

static void hand_drop(struct actor *a, uint64_t item)
{
    for (uint32_t i = 0; i < a->n_in_hand; i++)
        if (a->in_hand[i] == item) {
            memmove(a->in_hand + i, a->in_hand + i + 1, (--a->n_in_hand - i) * sizeof(*a->in_hand));
            return;
        }
}

static void tell(struct small *s, struct feed_event event);

static void action_do(struct small *s, const struct feed_action *action)
{
    struct world *w = s->w;
    struct actor *a = action->worker < WORKERS ? &w->actors[action->worker] : NULL;
    if (action->kind == ACT_SPAWN) {
        a->alive = a->may_get = a->is_loading = true;
        a->ending = a->is_written_off = a->is_gone = s->started[action->worker] = false;
        a->n_in_hand = 0;
        a->credits = a->batch = 0;
        for (uint64_t i = 0; i < w->n_items; i++)
            w->items[i].worked &= ~(1u << action->worker);
    } else if (action->kind == ACT_SEND) {
        for (uint64_t i = 0; i < action->count; i++)
            a->in_hand[a->n_in_hand++] = action->item + i;
    } else if (action->kind == ACT_END) {
        a->ending = true;
    } else if (action->kind == ACT_COMMIT) {
        soon(w, (struct feed_event){
                    .kind = EV_COMMITTED, .item = action->item, .count = action->count});
    } else if (action->kind == ACT_SET_ASIDE) {
        soon(w, (struct feed_event){.kind = EV_COMMITTED, .item = action->item, .count = 1});
    } else if (action->kind == ACT_COMPLETE) {
        w->is_complete = true;
    } else if (action->kind == ACT_HALT) {
        w->is_halted = true;
    } else if (action->kind == ACT_OVER) {
        w->is_over = true;
    }
}

static void tell_one(struct small *s, struct feed_event *event)
{
    const struct feed_action *actions;
    struct world *w = s->w;
    event->now_ms = w->now_ms;
    w->steps++;
    if (w->trace)
        trace_event(w, event);
    oracle_event(w, event);
    size_t n = feed_step(w->feed, event, &actions);
    feed_check(w->feed);
    for (size_t i = 0; i < n; i++) {
        if (w->trace)
            trace_action(w, &actions[i]);
        oracle_action(w, &actions[i]);
        action_do(s, &actions[i]);
    }
    oracle_step_over(w);
}

static void tell(struct small *s, struct feed_event event)
{
    tell_one(s, &event);
    for (size_t i = 0; i < s->w->n_queue; i++) {
        struct feed_event next = s->w->queue[i];
        tell_one(s, &next);
    }
    s->w->n_queue = 0;
}

static void tell_of(void *context, struct feed_event event)
{
    tell(context, event);
}

static void seat_arrive(struct small *s)
{
    set_arrive(s->w, 1, 1, tell_of, s);
    if (--s->arrivals_left == 0)
        tell(s, (struct feed_event){.kind = EV_AWAIT, .flag = false});
}

/* What goes with the fact in the world, before and after the feeder hears of it. */
static void happen_fact(struct small *s, const struct fact *fact)
{
    struct world *w = s->w;
    struct feed_event ev = fact->event;
    struct actor *a = ev.worker < WORKERS ? &w->actors[ev.worker] : NULL;
    s->faults_left -= fact->is_fault;
    s->was_stopped |= ev.kind == EV_STOP;
    s->drains_left -= ev.kind == EV_SET_DRAIN;
    w->now_ms++;
    if (ev.kind == EV_TICK) {
        s->ticks_left -= !s->is_quiet;
        w->now_ms = MAX(w->now_ms, feed_next_ms(w->feed));
    } else if (ev.kind == EV_EXIT) {
        a->alive = false;
        s->mem_awaited[ev.worker] = true;
    } else if (ev.kind == EV_MEM_BACK) {
        s->mem_awaited[ev.worker] = false;
    } else if (ev.kind == EV_ANSWERS) {
        ev.item = a->in_hand[0];
    }
    if (ev.kind == EV_DONE || ev.kind == EV_ANSWERS || ev.kind == EV_FAIL) {
        w->items[ev.item].worked |= 1u << ev.worker;
        hand_drop(a, ev.item);
    }
    if (ev.kind == EV_SEAT_UP)
        seat_arrive(s);
    else
        tell(s, ev);
    if (ev.kind == EV_STARTED) {
        s->started[ev.worker] = true;
        bool asks = s->kind == A_CHANNEL;
        tell(s, (struct feed_event){.kind = asks ? EV_READY : EV_ROOM,
                                    .worker = ev.worker,
                                    .count = asks ? s->credits : 9});
    } else if ((ev.kind == EV_DONE || ev.kind == EV_FAIL) && a->alive) {
        tell(s, (struct feed_event){.kind = EV_READY, .worker = ev.worker, .count = 1});
    }
}

static void schedule_begin(struct small *s, uint32_t faults, uint32_t guests)
{
    struct world *w = s->w;
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct actor *a = &w->actors[i];
        a->kind = s->kind;
        a->alive = a->may_get = a->is_loading = a->is_gone = a->is_written_off = a->ending = false;
        a->n_in_hand = a->n_held = 0;
        s->started[i] = s->mem_awaited[i] = false;
    }
    sets_reset(w);
    sets_make(w, w->config.n_workers, s->devices_each);
    memset(w->items, 0, (w->n_items + 1) * sizeof(*w->items));
    s->faults_left = faults;
    s->arrivals_left = s->drains_left = guests;
    s->ticks_left = EARLY_TICKS;
    s->was_stopped = false;
    w->steps = w->known = w->frontier = w->n_loading = 0;
    w->next_start_ms = 0;
    w->now_ms = 1000;
    w->is_over = w->is_complete = w->is_halted = w->input_is_final = w->must_halt = false;
    w->feed = feed_new(&w->config);
}

static bool schedule_run(struct small *s, uint32_t faults, uint32_t guests)
{
    struct world *w = s->w;
    schedule_begin(s, faults, guests);
    if (guests > 0)
        tell(s, (struct feed_event){.kind = EV_AWAIT, .flag = true});
    tell(s, (struct feed_event){.kind = EV_INPUT, .count = w->n_items, .flag = true});
    while (!w->is_over && w->steps < DEPTH_MAX) {
        facts_collect(s);
        if (s->n_facts == 0)
            break;
        happen_fact(s, &s->facts[choose(&s->chooser, s->n_facts)]);
    }
    bool is_settled = true;
    for (uint64_t i = 0; i < w->n_items; i++)
        is_settled = is_settled && w->items[i].outcome != 0;
    feed_free(w->feed);
    return w->is_over && (is_settled || w->is_halted);
}

static void schedule_print(const struct small *s)
{
    for (uint32_t i = 0; i < s->chooser.len; i++)
        printf("%u ", s->chooser.choice[i]);
    printf("\n");
}

/* All schedules of one world. Returns how many, 0: one of them does not end. */
static uint64_t world_exhaust(struct small *s, uint32_t faults, uint32_t guests)
{
    uint64_t count = 0;
    s->chooser.len = 0;
    do {
        s->chooser.at = 0;
        count++;
        if (schedule_run(s, faults, guests))
            continue;
        s->w->trace = true;
        s->chooser.at = 0;
        schedule_run(s, faults, guests);
        failure_print(s->w, "liveness", "a schedule of a small world does not end; its choices:");
        schedule_print(s);
        return 0;
    } while (choose_other(&s->chooser));
    return count;
}

/* The last two take a minute: --all. */
int main(int argc, char **argv)
{
    bool all_of_them = argc > 1 && !strcmp(argv[1], "--all");
    static const struct small_case {
        const char *name;
        enum actor_kind kind;
        uint32_t items, workers, devices_each, faults, credits, retries;
        bool no_reissue, takes_long;
        uint32_t guests; /* seats that come, and sets that are given back */
    } cases[] = {
        {"channel, 3 items, 2 workers, 1 fault", A_CHANNEL, 3, 2, 1, 1, 1, 1, false},
        {"channel, 2 items, 2 workers, 2 faults", A_CHANNEL, 2, 2, 1, 2, 1, 1, true},
        {"channel, 3 items, 1 worker of two credits, 2 faults", A_CHANNEL, 3, 1, 1, 2, 2, 1, false},
        {"channel, 2 items, 2 workers on two devices each, 1 fault", A_CHANNEL, 2, 2, 2, 1, 1, 1,
         true},
        {"filter, 3 items, 2 workers, 1 fault", A_FILTER, 3, 2, 1, 1, 0, 1, false},
        {"filter, 3 items, 1 worker, 2 faults", A_FILTER, 3, 1, 1, 2, 0, 0, false},
        {"filter, 3 items, 1 worker on two devices, 2 faults", A_FILTER, 3, 1, 2, 2, 0, 0, false},
        {"channel, 3 items, 2 workers, 2 faults", A_CHANNEL, 3, 2, 1, 2, 1, 1, true, true},
        {"filter, 3 items, 2 workers, 2 faults", A_FILTER, 3, 2, 1, 2, 0, 1, false, true},
        {"channel, 2 items, 1 worker, another comes, 1 set is given back", A_CHANNEL, 2, 1, 1, 0, 1,
         1, false, false, 1},
        {"channel, 2 items, 1 worker, another comes, 1 set is given back, 1 fault", A_CHANNEL, 2, 1,
         1, 1, 1, 1, true, true, 1},
        {"filter, 2 items, 1 worker, another comes, 1 set is given back", A_FILTER, 2, 1, 1, 0, 0,
         1, false, false, 1},
    };
    struct small *s = xcalloc(1, sizeof(*s));
    uint64_t all = 0;
    s->w = xcalloc(1, sizeof(*s->w));
    s->w->items = xcalloc(ITEMS + 1, sizeof(*s->w->items));
    failure_watch(s->w);
    for (size_t i = 0; i < countof(cases); i++) {
        const struct small_case *c = &cases[i];
        if (c->takes_long && !all_of_them)
            continue;
        s->kind = c->kind;
        s->credits = c->credits;
        s->w->n_items = c->items;
        s->w->config = (struct feed_config){.n_workers = c->workers,
                                            .spread_log2 = 5,
                                            .retries = c->retries,
                                            .no_reissue = c->no_reissue};
        s->devices_each = c->devices_each;
        uint64_t count = world_exhaust(s, c->faults, c->guests);
        if (count == 0)
            return RUN_STUCK;
        printf("%s: %lu schedules\n", c->name, count);
        fflush(stdout);
        all += count;
    }
    printf("%lu schedules, all of them end well\n", all);
    free(s->w->items);
    free(s->w->queue);
    free(s->w);
    free(s);
    return RUN_OK;
}
