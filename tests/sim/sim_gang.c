/* SPDX-License-Identifier: Apache-2.0
 *
 * The real gang in a world that means ill, seed by seed. Nodes come, go and come back, also with other counts of
 * places; ranks end well, fail, or hang until they are ended, in any order; they end slowly, and their ends are told
 * late, twice, or for a generation of before; some are said to stand still; somebody stops the gang; ticks are early and late. All rates are drawn
 * from the seed, so that some worlds have one kind of trouble, some all, some none. After a while trouble ceases, and
 * the gang must be over soon. gang_oracle.h judges each step. Every fiftieth seed is run twice and must decide the same.
 *
 *   sim_gang [--seeds N] [--first S] [--seed S] [--trace]
 *
 * The exit status says what broke: 129 safety, 128 liveness, 130 determinism.
 */
#include <string.h>

#include "base/rng.h"
#include "commit.h"
#include "sim/gang_oracle.h"

#define NEVER UINT64_MAX

enum {
    LATE_MAX = 32,          /* facts told once more */
    STEPS_MAX = 2000,       /* of a world with trouble: then it ceases */
    STEPS_CALM_MAX = 20000, /* after that it must be over */
    STEPS_OVER = 4,         /* further events, which change nothing */
    RUN_MAX_MS = 1000,
    GRACE_MAX_MS = 400,
    GONE_STATUS = 137
};

/* Probabilities, and times on the average. */
struct rates {
    double fail, hang, ends_well, echo, late_tick, early_tick, noise, other_count, gone_for_good;
    uint64_t node_up_ms, node_down_ms, run_ms;
    uint32_t places_max;
};

struct world {
    struct rng rng;
    struct rates rates;
    struct oracle oracle;
    struct gang *gang;
    uint64_t now_ms, digest;
    bool is_calm, trace;
    uint32_t n_nodes;
    uint64_t toggle_ms[WORLD_NODES]; /* when a node comes or goes */
    uint64_t exit_ms[WORLD_RANKS];
    uint8_t status[WORLD_RANKS];
    uint64_t tick_ms, stop_ms, calm_ms;
    bool stop_is_at_once;
    uint32_t n_late;
    struct gang_event late[LATE_MAX];
};

static bool chance(struct world *w, double p)
{
    return p > 0 && rng_unit(&w->rng) < p;
}

static uint32_t below(struct world *w, uint64_t bound)
{
    return bound > 0 ? (uint32_t)rng_below(&w->rng, bound) : 0;
}

static double some(struct world *w, double share_of_worlds, double rate)
{
    return chance(w, share_of_worlds) ? rate * rng_unit(&w->rng) : 0;
}

/* Around a mean. */
static uint64_t span_ms(struct world *w, uint64_t mean_ms)
{
    return below(w, 2 * mean_ms + 1);
}

/* ---- what the seed decides beforehand ---- */

static uint64_t limit_draw(struct world *w, double share_of_worlds, uint32_t max_ms)
{
    return chance(w, share_of_worlds) ? 1 + below(w, max_ms) : 0;
}

static struct gang_config config_draw(struct world *w)
{
    struct gang_config config = {
        .n_restarts = below(w, 5),
        .pause_ms = limit_draw(w, 0.6, 300),
        .healthy_ms = limit_draw(w, 0.5, RUN_MAX_MS),
        .more_ms = limit_draw(w, 0.6, 500),
        .join_ms = limit_draw(w, 0.5, 800),
        .linger_ms = limit_draw(w, 0.4, 500),
    };
    config.n_nodes_min = 1 + below(w, w->n_nodes);
    config.n_nodes_max =
        chance(w, 0.5) ? config.n_nodes_min : config.n_nodes_min + below(w, WORLD_NODES);
    if (chance(w, 0.05)) { /* so many restarts that the pause does not grow any more */
        config.n_restarts = 7 + below(w, 8);
        config.pause_ms = MIN(config.pause_ms, 10u);
        w->rates.fail = 0.9;
    }
    if (chance(w, 0.03)) { /* more than there will ever be */
        config.n_nodes_max = config.n_nodes_min = w->n_nodes + 1;
        config.join_ms = 1 + below(w, 500);
    }
    if (chance(w, 0.3))
        config.n_nodes_awaited =
            config.n_nodes_min + below(w, config.n_nodes_max - config.n_nodes_min + 1);
    return config;
}

static struct rates rates_draw(struct world *w)
{
    return (struct rates){
        .fail = some(w, 0.6, 0.4),
        .hang = some(w, 0.4, 0.3),
        .ends_well = some(w, 0.4, 1),
        .echo = some(w, 0.4, 0.5),
        .late_tick = some(w, 0.4, 0.5),
        .early_tick = some(w, 0.4, 0.1),
        .noise = some(w, 0.4, 0.2),
        .other_count = some(w, 0.4, 0.5),
        .gone_for_good = some(w, 0.2, 0.3),
        .node_up_ms = chance(w, 0.5) ? 50 + below(w, 5000) : NEVER / 4,
        .node_down_ms = 1 + below(w, 500),
        .run_ms = 1 + below(w, RUN_MAX_MS),
        .places_max = chance(w, 0.03) ? WORLD_PLACES : 1 + below(w, 4),
    };
}

static uint64_t node_stays_ms(struct world *w)
{
    return w->rates.node_up_ms > NEVER / 8 ? NEVER : w->now_ms + span_ms(w, w->rates.node_up_ms);
}

static void world_draw(struct world *w, uint64_t seed)
{
    static const uint32_t strides[] = {1, 1, 1, 3, 7, GANG_NODES_MAX / WORLD_NODES};
    w->rng.state = mix64(seed);
    w->n_nodes = 1 + below(w, chance(w, 0.5) ? WORLD_NODES : 3);
    w->rates = rates_draw(w);
    struct gang_config config = config_draw(w);
    oracle_init(&w->oracle, &config, seed);
    w->oracle.stride = strides[below(w, chance(w, 0.9) ? 5 : countof(strides))];
    w->gang = gang_new(&config);
    ASSERT(w->gang);
    w->now_ms = below(w, 2) * 1000;
    for (uint32_t i = 0; i < WORLD_NODES; i++)
        w->toggle_ms[i] =
            i < w->n_nodes ? w->now_ms + below(w, chance(w, 0.8) ? 200 : 2000) : NEVER;
    w->calm_ms = w->now_ms + 100 + below(w, 10000);
    w->stop_ms = chance(w, 0.3) ? w->now_ms + below(w, 3000) : NEVER;
    w->stop_is_at_once = chance(w, 0.3);
}

/* ---- what the gang does to the world ---- */

static void rank_begin(struct world *w, uint32_t rank)
{
    uint64_t run_ms = span_ms(w, w->rates.run_ms);
    if (w->is_calm && w->oracle.config.linger_ms > 0) /* nobody is much later than another */
        run_ms = below(w, MIN(w->oracle.config.linger_ms, run_ms + 1));
    bool hangs = !w->is_calm && chance(w, w->rates.hang);
    w->exit_ms[rank] = hangs ? NEVER : w->now_ms + run_ms;
    w->status[rank] =
        !w->is_calm && chance(w, w->rates.fail) ? (uint8_t)(1 + below(w, UINT8_MAX)) : 0;
}

static void rank_end(struct world *w, uint32_t rank, bool at_once)
{
    uint64_t at_ms = w->now_ms + below(w, at_once ? 5 : GRACE_MAX_MS);
    if (at_ms >= w->exit_ms[rank])
        return;
    w->exit_ms[rank] = at_ms;
    w->status[rank] = chance(w, w->rates.ends_well) ? 0 : at_once ? GONE_STATUS : 143;
}

static void carry_out(struct world *w, const struct gang_action *a)
{
    const struct oracle_node *node = &w->oracle.nodes[a->node / w->oracle.stride];
    if (a->kind != GACT_START && a->kind != GACT_END)
        return;
    for (uint32_t rank = node->first_rank; rank < node->first_rank + node->n_ranks; rank++) {
        if (a->kind == GACT_START)
            rank_begin(w, rank);
        else if (w->oracle.ranks[rank] == RANK_ALIVE)
            rank_end(w, rank, a->flag);
    }
}

/* ---- a step ---- */

static void event_trace(const struct world *w, const struct gang_event *ev)
{
    static const char *const names[] = {
#define X(kind) [GEV_##kind] = #kind,
        GANG_EVENTS(X)
#undef X
    };
    printf("%6lu %9lu > %-10s", w->oracle.n_steps, w->now_ms, names[ev->kind]);
    if (ev->kind == GEV_NODE_UP || ev->kind == GEV_NODE_GONE || ev->kind == GEV_NODE_EMPTY)
        printf(" node %u, %u places", ev->node, ev->count);
    if (ev->gone_ms > 0)
        printf(", ranks may live until %lu", ev->gone_ms);
    if (ev->kind == GEV_EXIT || ev->kind == GEV_HANG)
        printf(" rank %u of generation %u, status %d", ev->rank, ev->generation, ev->status);
    printf("%s\n", ev->flag ? " at once" : "");
}

static void action_trace(const struct world *w, const struct gang_action *a)
{
    static const char *const names[] = {
#define X(kind) [GACT_##kind] = #kind,
        GANG_ACTIONS(X)
#undef X
    };
    printf("%6lu %9lu <   %-7s", w->oracle.n_steps, w->now_ms, names[a->kind]);
    if (a->kind == GACT_RETRY)
        printf(" after %lu ms", a->pause_ms);
    else if (a->kind == GACT_OVER)
        printf(" outcome %d", gang_view(w->gang).outcome);
    else
        printf(" node %u", a->node);
    printf("%s\n", a->flag ? " at once" : "");
}

static void tell(struct world *w, struct gang_event ev)
{
    const struct gang_action *actions;
    ev.now_ms = w->now_ms;
    oracle_event(&w->oracle, &ev);
    if (w->trace)
        event_trace(w, &ev);
    size_t n_actions = gang_step(w->gang, &ev, &actions);
    gang_check(w->gang);
    for (size_t i = 0; i < n_actions; i++) {
        const struct gang_action *a = &actions[i];
        w->digest =
            mix64(w->digest ^ a->pause_ms ^ ((uint64_t)a->kind << 40 | a->node) ^ w->now_ms);
        if (w->trace)
            action_trace(w, a);
        oracle_action(&w->oracle, w->gang, a);
        carry_out(w, a);
    }
    oracle_settle(&w->oracle, w->gang);
    w->tick_ms = gang_wake_ms(w->gang);
    if (w->tick_ms != NEVER && !w->is_calm && chance(w, w->rates.late_tick))
        w->tick_ms += below(w, 300);
    if (!w->is_calm && chance(w, w->rates.early_tick))
        w->tick_ms = MIN(w->tick_ms, w->now_ms + below(w, 50));
}

/* ---- facts ---- */

static uint32_t generation(const struct world *w)
{
    return w->oracle.n_generations - 1;
}

/* Tells something once more, some time later. */
static void late_add(struct world *w, struct gang_event ev)
{
    ev.now_ms = w->now_ms + below(w, 600);
    if (w->n_late < LATE_MAX)
        w->late[w->n_late++] = ev;
}

static uint32_t places_draw(struct world *w, uint32_t before)
{
    bool is_other = before == 0 || chance(w, w->rates.other_count);
    return is_other ? 1 + below(w, w->rates.places_max) : before;
}

/* Another generation would end as this one. */
static bool is_final(int status)
{
    return status % 32 == 3;
}

static void rank_exits(struct world *w, uint32_t rank)
{
    struct gang_event ev = {.kind = GEV_EXIT,
                            .rank = rank,
                            .generation = generation(w),
                            .status = w->status[rank],
                            .flag = is_final(w->status[rank])};
    w->exit_ms[rank] = NEVER;
    if (chance(w, w->rates.echo)) {
        struct gang_event again = ev;
        again.status = chance(w, 0.5) ? ev.status : (int)below(w, 2);
        late_add(w, again);
    }
    tell(w, ev);
}

static void node_toggles(struct world *w, uint32_t index)
{
    const struct oracle_node *node = &w->oracle.nodes[index];
    struct gang_event ev = {.kind = node->is_up ? GEV_NODE_GONE : GEV_NODE_UP,
                            .node = index * w->oracle.stride,
                            .count = node->is_up ? 0 : places_draw(w, node->count)};
    for (uint32_t i = 0; node->is_up && node->is_member && i < node->n_ranks; i++) {
        uint32_t rank = node->first_rank + i;
        if (w->oracle.ranks[rank] == RANK_ALIVE && chance(w, w->rates.echo))
            late_add(w, (struct gang_event){.kind = GEV_EXIT,
                                            .rank = rank,
                                            .generation = generation(w),
                                            .status = w->status[rank]});
        w->exit_ms[rank] = NEVER;
    }
    bool stays_away = node->is_up && !w->is_calm && chance(w, w->rates.gone_for_good);
    uint64_t back_ms = w->now_ms + 1 + span_ms(w, w->rates.node_down_ms);
    if (node->is_up && chance(w, 0.5))
        ev.gone_ms = w->now_ms + below(w, 2 * GRACE_MAX_MS);
    if (ev.gone_ms > 0 && chance(w, 0.5))
        late_add(w, (struct gang_event){.kind = GEV_NODE_EMPTY, .node = ev.node});
    w->toggle_ms[index] = !node->is_up ? (w->is_calm ? NEVER : node_stays_ms(w))
                          : stays_away ? NEVER
                                       : back_ms;
    tell(w, ev);
}

/* Something that is known already, or makes no sense. */
static struct gang_event noise_draw(struct world *w)
{
    uint32_t index = below(w, w->n_nodes), number = index * w->oracle.stride;
    const struct oracle_node *node = &w->oracle.nodes[index];
    uint32_t n_ranks = w->oracle.world_size;
    const struct gang_event events[] = {
        {.kind = node->is_up ? GEV_NODE_UP : GEV_NODE_GONE,
         .node = number,
         .count = node->is_up ? places_draw(w, node->count) : 0},
        {.kind = GEV_EXIT, .rank = n_ranks + below(w, 3), .generation = generation(w)},
        {.kind = GEV_EXIT,
         .rank = below(w, n_ranks + 1),
         .generation = generation(w) + (chance(w, 0.5) ? 1 : UINT32_MAX),
         .status = (int)below(w, 2)},
        {.kind = GEV_HANG,
         .rank = below(w, n_ranks + 1),
         .generation = generation(w) - (chance(w, 0.2) ? 1 : 0),
         .status = 124},
        {.kind = GEV_TICK},
    };
    return events[below(w, countof(events))];
}

static void stop_is_told(struct world *w, uint32_t index)
{
    (void)index;
    bool at_once = w->stop_is_at_once;
    w->stop_is_at_once = chance(w, 0.5);
    w->stop_ms = chance(w, 0.5) ? w->now_ms + below(w, GRACE_MAX_MS) : NEVER;
    tell(w, (struct gang_event){.kind = GEV_STOP, .flag = at_once});
}

static void late_is_told(struct world *w, uint32_t index)
{
    struct gang_event ev = w->late[index];
    w->late[index] = w->late[--w->n_late];
    tell(w, ev);
}

static void time_passes(struct world *w, uint32_t index)
{
    (void)index;
    tell(w, (struct gang_event){.kind = GEV_TICK});
}

/* From now on nodes stay, or come back, and ranks end well in good time. */
static void calm_begins(struct world *w, uint32_t index)
{
    (void)index;
    w->is_calm = true;
    w->calm_ms = w->stop_ms = NEVER;
    for (uint32_t i = 0; i < w->n_nodes; i++)
        w->toggle_ms[i] = w->oracle.nodes[i].is_up ? NEVER : w->now_ms + below(w, 300);
    for (uint32_t rank = 0; rank < w->oracle.world_size; rank++)
        if (w->oracle.ranks[rank] == RANK_ALIVE && w->exit_ms[rank] == NEVER)
            rank_begin(w, rank);
    w->tick_ms = gang_wake_ms(w->gang);
}

/* ---- a world ---- */

/* What comes next: the earliest, and of several at one time any. */
struct next {
    uint64_t at_ms;
    uint32_t n_equal, index;
    void (*happens)(struct world *w, uint32_t index);
};

static void consider(struct world *w, struct next *next, uint64_t at_ms, uint32_t index,
                     void (*happens)(struct world *, uint32_t))
{
    at_ms = at_ms == NEVER ? NEVER : MAX(at_ms, w->now_ms); /* what is overdue happens now */
    if (at_ms > next->at_ms || at_ms == NEVER)
        return;
    next->n_equal = at_ms < next->at_ms ? 1 : next->n_equal + 1;
    bool is_chosen = below(w, next->n_equal) == 0;
    next->at_ms = at_ms;
    if (is_chosen) {
        next->index = index;
        next->happens = happens;
    }
}

static struct next next_find(struct world *w)
{
    struct next next = {.at_ms = NEVER};
    consider(w, &next, w->tick_ms, 0, time_passes);
    consider(w, &next, w->stop_ms, 0, stop_is_told);
    consider(w, &next, w->calm_ms, 0, calm_begins);
    for (uint32_t i = 0; i < w->n_nodes; i++)
        consider(w, &next, w->toggle_ms[i], i, node_toggles);
    for (uint32_t i = 0; i < w->n_late; i++)
        consider(w, &next, w->late[i].now_ms, i, late_is_told);
    for (uint32_t i = 0; i < w->oracle.world_size; i++)
        if (w->oracle.ranks[i] == RANK_ALIVE)
            consider(w, &next, w->exit_ms[i], i, rank_exits);
    return next;
}

static void world_step(struct world *w)
{
    if (!w->is_calm && chance(w, w->rates.noise)) {
        tell(w, noise_draw(w));
        return;
    }
    struct next next = next_find(w);
    if (!next.happens)
        oracle_found(&w->oracle, FOUND_STUCK, "it waits for nothing");
    w->now_ms = next.at_ms;
    next.happens(w, next.index);
}

/* When it is over, nothing that is still told matters. */
static void world_goes_on(struct world *w)
{
    for (uint32_t i = 0; i < STEPS_OVER; i++) {
        w->now_ms += below(w, 1000);
        tell(w, noise_draw(w));
    }
    tell(w, (struct gang_event){.kind = GEV_STOP, .flag = true});
}

static uint64_t world_run(uint64_t seed, bool trace)
{
    struct world world = {.trace = trace}, *w = &world;
    world_draw(w, seed);
    for (uint64_t limit = STEPS_MAX; !w->oracle.is_over;) {
        if (w->oracle.n_steps >= limit && w->is_calm)
            oracle_found(&w->oracle, FOUND_STUCK, "it does not come to an end");
        if (w->oracle.n_steps >= limit)
            calm_begins(w, 0);
        if (w->is_calm && limit == STEPS_MAX)
            limit = w->oracle.n_steps + STEPS_CALM_MAX;
        world_step(w);
    }
    world_goes_on(w);
    gang_free(w->gang);
    return w->digest;
}

static int seed_run(uint64_t seed, bool trace)
{
    uint64_t digest = world_run(seed, trace);
    if (seed % 50 != 0 || digest == world_run(seed, false))
        return FOUND_NOTHING;
    printf("FAIL seed=%lu commit=%s determinism: the second time it went another way\n", seed,
           SIM_COMMIT);
    return FOUND_DIFFERENT;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 2000, first = 1;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--trace"))
            trace = true;
        else if (!strcmp(argv[i], "--seeds"))
            seeds = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--first") || !strcmp(argv[i], "--seed"))
            first = strtoull(value, NULL, 10);
        if (!strcmp(argv[i], "--seed"))
            seeds = 1;
    }
    int found = FOUND_NOTHING;
    for (uint64_t i = 0; found == FOUND_NOTHING && i < seeds; i++)
        found = seed_run(first + i, trace);
    if (found == FOUND_NOTHING)
        printf("%lu seeds: every gang came to its right end\n", seeds);
    return found;
}
