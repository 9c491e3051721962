/* SPDX-License-Identifier: Apache-2.0
 *
 * Events in, actions out. A step handles its event, then checks whether the generation has ended, and then whether a
 * time has come. Tables below have the handler of each event, and what is due in each state.
 */
#include "core/gang.h"

#include <string.h>

#include "base/attr.h"

enum {
    DOUBLINGS_MAX = 6, /* of the pause */
    WORD_BITS = 64
};
#define NEVER UINT64_MAX

/* How far the present generation has been told to end. */
enum end_level {
    NOT_ENDED,
    ENDED_POLITELY,
    ENDED_AT_ONCE
};

struct node {
    uint32_t count;      /* places, for the next generation */
    uint32_t group_rank; /* valid if the member of this group rank is this node */
    uint64_t gone_ms;    /* ranks that it had when it was gone live no longer */
    bool is_up;
};

struct member {
    uint32_t node, first_rank, n_ranks, n_left;
    uint64_t gone[GANG_NODE_RANKS_MAX / WORD_BITS]; /* a bit for each rank */
};

struct gang {
    struct gang_config config;
    struct gang_view view;
    uint64_t now_ms;
    bool has_begun; /* there was an event, and now_ms is known */
    struct node *nodes;
    uint32_t nodes_end; /* above the numbers of all nodes that ever came */
    uint32_t n_ever;    /* nodes that ever came */
    /* The present gathering. */
    uint64_t since_ms, pause_end_ms;
    uint64_t enough_ms; /* when n_nodes_min were first there */
    /* The present generation. */
    struct member *members; /* [n_nodes_max] in order of group rank */
    uint64_t started_ms;
    uint64_t first_well_ms; /* when its first rank ended well */
    enum end_level level;
    bool has_failed, is_final; /* no generation follows this failure */

    bool is_stopping;
    struct {
        struct gang_action *at;
        size_t len, cap;
    } out; /* the actions of the present step */
};

static uint64_t later(uint64_t at_ms, uint64_t by_ms)
{
    return by_ms > NEVER - at_ms ? NEVER : at_ms + by_ms;
}

static void emit(struct gang *g, struct gang_action action)
{
    ASSERT(g->out.len < g->out.cap);
    g->out.at[g->out.len++] = action;
}

struct gang *gang_new(const struct gang_config *config)
{
    uint32_t n_max = config->n_nodes_max;
    ASSERT(config->n_nodes_min >= 1 && config->n_nodes_min <= n_max && n_max <= GANG_NODES_MAX);
    ASSERT(config->n_nodes_awaited <= n_max);
    struct gang *g = calloc(1, sizeof(*g));
    if (!g)
        return NULL;
    g->config = *config;
    if (config->n_nodes_awaited == 0)
        g->config.n_nodes_awaited = n_max;
    g->nodes = calloc(GANG_NODES_MAX, sizeof(*g->nodes));
    g->members = calloc(n_max, sizeof(*g->members));
    g->out.cap = 2ull * n_max + 4; /* the end of one generation and the start of the next */
    g->out.at = calloc(g->out.cap, sizeof(*g->out.at));
    if (g->nodes && g->members && g->out.at)
        return g;
    gang_free(g);
    return NULL;
}

void gang_free(struct gang *g)
{
    if (!g)
        return;
    free(g->nodes);
    free(g->members);
    free(g->out.at);
    free(g);
}

/* ---- members and ranks ---- */

/* NULL: the node is no member. */
static struct member *member_of(const struct gang *g, uint32_t node)
{
    if (node >= g->nodes_end)
        return NULL;
    uint32_t index = g->nodes[node].group_rank;
    bool is_member = index < g->view.n_members && g->members[index].node == node;
    return is_member ? &g->members[index] : NULL;
}

static struct member *member_with(const struct gang *g, uint32_t rank)
{
    ASSERT(rank < g->view.world_size);
    uint32_t low = 0, high = g->view.n_members; /* the member is one of low … high - 1 */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (g->members[middle].first_rank <= rank)
            low = middle;
        else
            high = middle;
    }
    return &g->members[low];
}

static bool is_gone(const struct member *m, uint32_t local_rank)
{
    return m->gone[local_rank / WORD_BITS] >> local_rank % WORD_BITS & 1;
}

/* The first rank that is left, of a member that has one. */
static uint32_t first_left(const struct member *m)
{
    uint32_t local_rank = 0;
    while (is_gone(m, local_rank))
        local_rank++;
    return m->first_rank + local_rank;
}

/* ---- from one generation to the next ---- */

static bool has_enough(const struct gang *g)
{
    return g->view.n_nodes_up >= g->config.n_nodes_min;
}

/* From then on no rank lives on a node that was gone. */
static uint64_t all_gone_ms(const struct gang *g)
{
    uint64_t gone_ms = 0;
    for (uint32_t i = 0; i < g->nodes_end; i++)
        gone_ms = MAX(gone_ms, g->nodes[i].gone_ms);
    return gone_ms;
}

static void enough_note(struct gang *g)
{
    if (g->enough_ms == NEVER && has_enough(g))
        g->enough_ms = g->now_ms;
}

static void gather(struct gang *g, uint64_t pause_ms)
{
    g->view.state = GANG_GATHERS;
    g->since_ms = g->now_ms;
    g->pause_end_ms = later(g->now_ms, pause_ms);
    g->enough_ms = NEVER;
    enough_note(g);
}

static void over(struct gang *g, enum gang_outcome outcome)
{
    g->view.state = GANG_IS_OVER;
    g->view.outcome = outcome;
    emit(g, (struct gang_action){.kind = GACT_OVER});
}

static void member_add(struct gang *g, uint32_t node)
{
    uint32_t index = g->view.n_members++, count = g->nodes[node].count;
    g->nodes[node].group_rank = index;
    g->members[index] = (struct member){node, g->view.world_size, count, count, {0}};
    g->view.world_size += count;
    emit(g, (struct gang_action){.kind = GACT_START, .node = node});
}

static void start(struct gang *g)
{
    g->view.generation += g->view.world_size > 0; /* else it is the first */
    g->view.n_members = g->view.world_size = g->view.n_well = 0;
    for (uint32_t i = 0; i < g->nodes_end && g->view.n_members < g->config.n_nodes_max; i++)
        if (g->nodes[i].is_up)
            member_add(g, i);
    g->view.n_alive = g->view.world_size;
    g->view.state = GANG_WORKS;
    g->started_ms = g->now_ms;
    g->first_well_ms = NEVER;
    g->level = NOT_ENDED;
    g->has_failed = g->is_final = false;
}

static void everybody_end(struct gang *g, enum end_level level)
{
    g->view.state = GANG_ENDS;
    if (level <= g->level)
        return;
    g->level = level;
    for (uint32_t i = 0; i < g->view.n_members; i++)
        if (g->members[i].n_left > 0)
            emit(g, (struct gang_action){.kind = GACT_END,
                                         .node = g->members[i].node,
                                         .flag = level == ENDED_AT_ONCE});
}

static void fail(struct gang *g, enum gang_cause cause, uint32_t rank, int status)
{
    uint32_t node = member_with(g, rank)->node;
    g->view.first = (struct gang_failure){cause, rank, node, g->view.generation, status, g->now_ms};
    g->has_failed = true;
    if (g->config.healthy_ms > 0 && g->now_ms - g->started_ms >= g->config.healthy_ms)
        g->view.n_restarts_used = 0;
    emit(g, (struct gang_action){.kind = GACT_FAIL, .node = node});
    everybody_end(g, ENDED_POLITELY);
}

static void retry(struct gang *g)
{
    uint32_t doublings = MIN(g->view.n_restarts_used, DOUBLINGS_MAX);
    uint64_t pause_ms = MIN(g->config.pause_ms, NEVER >> DOUBLINGS_MAX) << doublings;
    bool is_delayed = all_gone_ms(g) > later(g->now_ms, pause_ms);
    g->view.n_restarts_used++;
    emit(g, (struct gang_action){.kind = GACT_RETRY,
                                 .pause_ms = is_delayed ? all_gone_ms(g) - g->now_ms : pause_ms,
                                 .flag = is_delayed});
    gather(g, pause_ms);
}

/* No rank of the generation is left. */
static void generation_end(struct gang *g)
{
    if (!g->has_failed)
        over(g, g->view.n_well == g->view.world_size ? GANG_WELL : GANG_STOPPED);
    else if (g->is_stopping)
        over(g, GANG_STOPPED);
    else if (!g->is_final && g->view.n_restarts_used < g->config.n_restarts)
        retry(g);
    else
        over(g, GANG_FAILED);
}

/* ---- events ---- */

static void on_tick(struct gang *g, const struct gang_event *ev)
{
    (void)g, (void)ev;
}

static void on_node_up(struct gang *g, const struct gang_event *ev)
{
    ASSERT(ev->node < GANG_NODES_MAX && ev->count >= 1 && ev->count <= GANG_NODE_RANKS_MAX);
    struct node *node = &g->nodes[ev->node];
    g->view.n_nodes_up += !node->is_up;
    g->n_ever += node->count == 0;
    g->nodes_end = MAX(g->nodes_end, ev->node + 1);
    node->is_up = true;
    node->count = ev->count;
    enough_note(g);
}

static void on_node_gone(struct gang *g, const struct gang_event *ev)
{
    ASSERT(ev->node < GANG_NODES_MAX);
    g->view.n_nodes_up -= g->nodes[ev->node].is_up;
    g->nodes[ev->node].is_up = false;
    struct member *m = member_of(g, ev->node);
    if (!m || m->n_left == 0)
        return;
    uint32_t first = first_left(m);
    g->nodes[ev->node].gone_ms = MAX(g->nodes[ev->node].gone_ms, ev->gone_ms);
    g->view.n_alive -= m->n_left;
    m->n_left = 0;
    memset(m->gone, 0xff, sizeof(m->gone));
    if (g->view.state == GANG_WORKS)
        fail(g, GANG_LOST, first, 0);
}

static void on_node_empty(struct gang *g, const struct gang_event *ev)
{
    ASSERT(ev->node < GANG_NODES_MAX);
    g->nodes[ev->node].gone_ms = 0;
}

static void on_rank_exit(struct gang *g, const struct gang_event *ev)
{
    if (ev->generation != g->view.generation || ev->rank >= g->view.world_size)
        return;
    struct member *m = member_with(g, ev->rank);
    uint32_t local_rank = ev->rank - m->first_rank;
    if (is_gone(m, local_rank))
        return;
    m->gone[local_rank / WORD_BITS] |= 1ull << local_rank % WORD_BITS;
    m->n_left--;
    g->view.n_alive--;
    g->view.n_well += ev->status == 0;
    if (ev->status == 0) {
        g->first_well_ms = MIN(g->first_well_ms, g->now_ms);
    } else if (g->view.state == GANG_WORKS) {
        g->is_final = ev->flag;
        fail(g, GANG_STATUS, ev->rank, ev->status);
    }
}

static void on_hang(struct gang *g, const struct gang_event *ev)
{
    if (g->view.state != GANG_WORKS || ev->generation != g->view.generation ||
        ev->rank >= g->view.world_size)
        return;
    const struct member *m = member_with(g, ev->rank);
    if (!is_gone(m, ev->rank - m->first_rank))
        fail(g, GANG_HUNG, ev->rank, ev->status);
}

static void on_stop(struct gang *g, const struct gang_event *ev)
{
    g->is_stopping = true;
    if (g->view.state == GANG_GATHERS)
        over(g, GANG_STOPPED);
    else
        everybody_end(g, ev->flag ? ENDED_AT_ONCE : ENDED_POLITELY);
}

static void (*const handlers[])(struct gang *g, const struct gang_event *ev) = {
    [GEV_TICK] = on_tick,           [GEV_NODE_UP] = on_node_up,
    [GEV_NODE_GONE] = on_node_gone, [GEV_NODE_EMPTY] = on_node_empty,
    [GEV_EXIT] = on_rank_exit,      [GEV_HANG] = on_hang,
    [GEV_STOP] = on_stop,
};

/* ---- times ---- */

static uint32_t awaited(const struct gang *g)
{
    return MIN(MAX(g->config.n_nodes_awaited, g->n_ever), g->config.n_nodes_max);
}

static uint64_t gathers_until(const struct gang *g)
{
    uint64_t at_ms = 0;
    if (!has_enough(g))
        at_ms = g->config.join_ms > 0 ? later(g->since_ms, g->config.join_ms) : NEVER;
    else if (g->view.n_nodes_up < awaited(g))
        at_ms = later(g->enough_ms, g->config.more_ms);
    return MAX(MAX(at_ms, g->pause_end_ms), all_gone_ms(g));
}

static void gathers_due(struct gang *g)
{
    if (has_enough(g))
        start(g);
    else
        over(g, GANG_TOO_FEW);
}

static uint64_t works_until(const struct gang *g)
{
    bool is_limited = g->config.linger_ms > 0 && g->view.n_well > 0;
    return is_limited ? later(g->first_well_ms, g->config.linger_ms) : NEVER;
}

static void works_due(struct gang *g)
{
    const struct member *m = g->members;
    while (m->n_left == 0)
        m++;
    fail(g, GANG_LINGERS, first_left(m), 0);
}

/* Until when a state lasts if no event comes, and what happens then. Other states last until an event. */
static const struct {
    uint64_t (*until_ms)(const struct gang *g);
    void (*due)(struct gang *g);
} states[GANG_IS_OVER + 1] = {
    [GANG_GATHERS] = {gathers_until, gathers_due},
    [GANG_WORKS] = {works_until, works_due},
};

uint64_t gang_wake_ms(const struct gang *g)
{
    if (!g->has_begun)
        return 0;
    return states[g->view.state].until_ms ? states[g->view.state].until_ms(g) : NEVER;
}

size_t gang_step(struct gang *g, const struct gang_event *ev, const struct gang_action **actions)
{
    g->out.len = 0;
    *actions = g->out.at;
    if (g->view.state == GANG_IS_OVER)
        return 0;
    ASSERT(ev->now_ms >= g->now_ms);
    g->now_ms = ev->now_ms;
    if (!g->has_begun)
        gather(g, 0);
    g->has_begun = true;
    handlers[ev->kind](g, ev);
    if ((g->view.state == GANG_WORKS || g->view.state == GANG_ENDS) && g->view.n_alive == 0)
        generation_end(g);
    if (g->now_ms >= gang_wake_ms(g))
        states[g->view.state].due(g);
    return g->out.len;
}

/* ---- looking in ---- */

struct gang_view gang_view(const struct gang *g)
{
    return g->view;
}

bool gang_member(const struct gang *g, uint32_t node, struct gang_member *out)
{
    const struct member *m = member_of(g, node);
    if (!m)
        return false;
    *out = (struct gang_member){(uint32_t)(m - g->members), m->first_rank, m->n_ranks};
    return true;
}

void gang_place(const struct gang *g, uint32_t rank, uint32_t *node, uint32_t *local_rank)
{
    const struct member *m = member_with(g, rank);
    *node = m->node;
    *local_rank = rank - m->first_rank;
}

bool gang_awaits(const struct gang *g, uint32_t rank)
{
    const struct member *m = member_with(g, rank);
    return !is_gone(m, rank - m->first_rank);
}

static uint32_t left_count(const struct member *m)
{
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < m->n_ranks; i++)
        n_left += !is_gone(m, i);
    return n_left;
}

void gang_check(const struct gang *g)
{
    const struct gang_view *view = &g->view;
    uint32_t n_up = 0, n_alive = 0, n_ranks = 0;
    for (uint32_t i = 0; i < g->nodes_end; i++)
        n_up += g->nodes[i].is_up;
    for (const struct member *m = g->members; m < g->members + view->n_members; m++) {
        ASSERT(m == g->members || m->node > m[-1].node);
        ASSERT(m->first_rank == n_ranks && m->n_left == left_count(m));
        ASSERT(m->n_left == 0 || g->nodes[m->node].is_up);
        n_ranks += m->n_ranks;
        n_alive += m->n_left;
    }
    ASSERT(n_up == view->n_nodes_up && n_alive == view->n_alive && n_ranks == view->world_size);
    ASSERT(view->n_well + n_alive <= n_ranks);
    ASSERT((n_alive > 0) == (view->state == GANG_WORKS || view->state == GANG_ENDS));
    ASSERT((view->state == GANG_IS_OVER) == (view->outcome != GANG_OPEN));
}
