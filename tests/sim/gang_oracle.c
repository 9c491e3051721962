/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/gang_oracle.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "commit.h"

#define NEVER UINT64_MAX

/* ---- saying so ---- */

void oracle_found(const struct oracle *o, int what, const char *fmt, ...)
{
    char words[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof(words), fmt, args);
    va_end(args);
    printf("FAIL seed=%lu commit=%s %s: %s, at step %lu\n"
           "replay: tools/sim gang --seed %lu --trace\n",
           o->seed, SIM_COMMIT, what == FOUND_STUCK ? "liveness" : "safety", words, o->n_steps,
           o->seed);
    fflush(stdout);
    _exit(what);
}

#define MUST(o, condition, ...)                           \
    do {                                                  \
        if (!(condition))                                 \
            oracle_found((o), FOUND_UNSAFE, __VA_ARGS__); \
    } while (0)

static const struct oracle *watched;

static void on_abort(int number)
{
    signal(number, SIG_DFL);
    oracle_found(watched, FOUND_UNSAFE, "a broken invariant (above)");
}

void oracle_init(struct oracle *o, const struct gang_config *config, uint64_t seed)
{
    *o = (struct oracle){
        .config = *config, .seed = seed, .stride = 1, .gathers = true, .enough_ms = NEVER};
    watched = o;
    signal(SIGABRT, on_abort);
}

/* ---- facts ---- */

static uint32_t alive_on(const struct oracle *o, const struct oracle_node *node)
{
    uint32_t n_alive = 0;
    for (uint32_t i = 0; node->is_member && i < node->n_ranks; i++)
        n_alive += o->ranks[node->first_rank + i] == RANK_ALIVE;
    return n_alive;
}

static uint32_t ranks_in(const struct oracle *o, enum rank_state state)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->world_size; i++)
        n += o->ranks[i] == state;
    return n;
}

uint32_t oracle_alive(const struct oracle *o)
{
    return ranks_in(o, RANK_ALIVE);
}

static uint32_t nodes_up(const struct oracle *o)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < WORLD_NODES; i++)
        n += o->nodes[i].is_up;
    return n;
}

static uint32_t node_of(const struct oracle *o, uint32_t rank)
{
    uint32_t i = 0;
    while (!o->nodes[i].is_member || rank < o->nodes[i].first_rank ||
           rank >= o->nodes[i].first_rank + o->nodes[i].n_ranks)
        i++;
    return i * o->stride;
}

static uint32_t first_alive(const struct oracle *o, uint32_t from)
{
    while (from < o->world_size && o->ranks[from] != RANK_ALIVE)
        from++;
    return from;
}

/* The generation works, and nobody has told it to end. */
static bool is_at_work(const struct oracle *o)
{
    return !o->gathers && !o->has_failed && o->stop == 0;
}

static void failure_note(struct oracle *o, enum gang_cause cause, uint32_t rank, int status)
{
    if (is_at_work(o) && !o->failure.cause)
        o->failure = (struct gang_failure){cause,  rank,     node_of(o, rank), o->n_generations - 1,
                                           status, o->now_ms};
}

static void enough_note(struct oracle *o)
{
    if (o->gathers && o->enough_ms == NEVER && nodes_up(o) >= o->config.n_nodes_min)
        o->enough_ms = o->now_ms;
}

static void node_gone_note(struct oracle *o, struct oracle_node *node, uint64_t gone_ms)
{
    node->is_up = false;
    if (alive_on(o, node) == 0)
        return;
    node->gone_ms = MAX(node->gone_ms, gone_ms);
    failure_note(o, GANG_LOST, first_alive(o, node->first_rank), 0);
    for (uint32_t i = 0; i < node->n_ranks; i++)
        if (o->ranks[node->first_rank + i] == RANK_ALIVE)
            o->ranks[node->first_rank + i] = RANK_LOST;
}

static void exit_note(struct oracle *o, const struct gang_event *ev)
{
    if (ev->generation + 1 != o->n_generations || ev->rank >= o->world_size ||
        o->ranks[ev->rank] != RANK_ALIVE)
        return;
    o->ranks[ev->rank] = ev->status == 0 ? RANK_WELL : RANK_BAD;
    if (ev->status != 0) {
        if (is_at_work(o) && !o->failure.cause)
            o->is_final = ev->flag;
        failure_note(o, GANG_STATUS, ev->rank, ev->status);
    } else if (o->first_well_ms == NEVER)
        o->first_well_ms = o->now_ms;
}

static void hang_note(struct oracle *o, const struct gang_event *ev)
{
    if (ev->generation + 1 == o->n_generations && ev->rank < o->world_size &&
        o->ranks[ev->rank] == RANK_ALIVE)
        failure_note(o, GANG_HUNG, ev->rank, ev->status);
}

static uint64_t linger_end(const struct oracle *o)
{
    bool is_limited = o->config.linger_ms > 0 && o->first_well_ms != NEVER;
    return is_limited ? o->first_well_ms + o->config.linger_ms : NEVER;
}

void oracle_event(struct oracle *o, const struct gang_event *ev)
{
    struct oracle_node *node = &o->nodes[ev->node / o->stride];
    if (o->n_steps++ == 0)
        o->since_ms = o->pause_end_ms = ev->now_ms;
    o->now_ms = ev->now_ms;
    o->n_started = 0;
    if (o->is_over)
        return;
    if (ev->kind == GEV_NODE_UP) {
        node->is_up = true;
        node->count = ev->count;
    } else if (ev->kind == GEV_NODE_GONE) {
        node_gone_note(o, node, ev->gone_ms);
    } else if (ev->kind == GEV_NODE_EMPTY) {
        node->gone_ms = 0;
    } else if (ev->kind == GEV_EXIT) {
        exit_note(o, ev);
    } else if (ev->kind == GEV_HANG) {
        hang_note(o, ev);
    } else if (ev->kind == GEV_STOP) {
        o->stop = MAX(o->stop, ev->flag ? 2u : 1u);
    }
    enough_note(o);
    if (!o->gathers && oracle_alive(o) > 0 && o->now_ms >= linger_end(o))
        failure_note(o, GANG_LINGERS, first_alive(o, 0), 0);
}

/* ---- what they ask for ---- */

static uint32_t nodes_awaited(const struct oracle *o)
{
    uint32_t n = 0, n_wanted = o->config.n_nodes_awaited;
    for (uint32_t i = 0; i < WORLD_NODES; i++)
        n += o->nodes[i].count > 0; /* it was there */
    n = MAX(n, n_wanted > 0 ? n_wanted : o->config.n_nodes_max);
    return MIN(n, o->config.n_nodes_max);
}

/* Until when ranks may live on nodes that are gone. */
static uint64_t ranks_may_live_ms(const struct oracle *o)
{
    uint64_t at_ms = 0;
    for (uint32_t i = 0; i < WORLD_NODES; i++)
        at_ms = MAX(at_ms, o->nodes[i].gone_ms);
    return at_ms;
}

/* When the gathering ends if no event comes. */
static uint64_t gather_end(const struct oracle *o)
{
    uint64_t at_ms = o->now_ms;
    if (nodes_up(o) < o->config.n_nodes_min)
        at_ms = o->config.join_ms ? o->since_ms + o->config.join_ms : NEVER;
    else if (nodes_up(o) < nodes_awaited(o))
        at_ms = o->enough_ms + o->config.more_ms;
    return MAX(MAX(at_ms, o->pause_end_ms), ranks_may_live_ms(o));
}

static enum gang_outcome outcome_due(const struct oracle *o)
{
    if (oracle_alive(o) > 0)
        return GANG_OPEN;
    if (!o->gathers && !o->has_failed && ranks_in(o, RANK_WELL) == o->world_size)
        return GANG_WELL;
    if (o->stop > 0)
        return GANG_STOPPED;
    if (o->gathers)
        return nodes_up(o) < o->config.n_nodes_min && o->now_ms >= gather_end(o) ? GANG_TOO_FEW
                                                                                 : GANG_OPEN;
    bool is_last = o->is_final || o->n_restarts >= o->config.n_restarts;
    return o->has_failed && is_last ? GANG_FAILED : GANG_OPEN;
}

/* ---- actions ---- */

static void generation_begin(struct oracle *o)
{
    MUST(o, o->gathers && oracle_alive(o) == 0, "ranks start while others are there");
    MUST(o, nodes_up(o) >= o->config.n_nodes_min, "too few nodes start");
    MUST(o, o->now_ms >= gather_end(o), "nodes start too early");
    MUST(o, o->now_ms >= ranks_may_live_ms(o),
         "ranks start while others may be on a node that is gone");
    MUST(o, o->stop == 0, "ranks start after a stop");
    o->gathers = o->has_failed = o->is_final = false;
    o->world_size = 0;
    o->n_generations++;
    o->started_ms = o->now_ms;
    o->first_well_ms = NEVER;
    for (uint32_t i = 0; i < WORLD_NODES; i++)
        o->nodes[i].is_member = o->nodes[i].is_told_politely = o->nodes[i].is_told_at_once = false;
}

static void start_judge(struct oracle *o, const struct gang *gang, const struct gang_action *a)
{
    struct gang_member member;
    if (o->n_started == 0)
        generation_begin(o);
    struct oracle_node *node = &o->nodes[a->node / o->stride];
    MUST(o, node->is_up && !node->is_member, "node %u cannot start now", a->node);
    MUST(o, o->n_started < o->config.n_nodes_max, "node %u is one too many", a->node);
    MUST(o, gang_member(gang, a->node, &member), "node %u is no member", a->node);
    for (uint32_t i = a->node / o->stride; i < WORLD_NODES; i++)
        MUST(o, !o->nodes[i].is_member, "node %u starts after node %u", a->node, i * o->stride);
    MUST(o,
         member.group_rank == o->n_started && member.first_rank == o->world_size &&
             member.n_ranks == node->count,
         "node %u has the ranks of another", a->node);
    node->is_member = true;
    node->first_rank = o->world_size;
    node->n_ranks = node->count;
    for (uint32_t i = 0; i < node->count; i++)
        o->ranks[o->world_size++] = RANK_ALIVE;
    o->n_started++;
}

static void end_judge(struct oracle *o, const struct gang *gang, const struct gang_action *a)
{
    (void)gang;
    struct oracle_node *node = &o->nodes[a->node / o->stride];
    MUST(o, alive_on(o, node) > 0, "node %u has no ranks that can be ended", a->node);
    MUST(o, o->has_failed || o->stop > 0, "node %u is ended without a reason", a->node);
    MUST(o, !a->flag || o->stop == 2, "nobody wants node %u to be ended at once", a->node);
    MUST(o, a->flag || o->stop < 2, "node %u is to be ended at once", a->node);
    MUST(o, !node->is_told_at_once && (a->flag || !node->is_told_politely),
         "node %u is told twice to end", a->node);
    node->is_told_politely |= !a->flag;
    node->is_told_at_once |= a->flag;
}

static void fail_judge(struct oracle *o, const struct gang *gang, const struct gang_action *a)
{
    struct gang_failure found = gang_view(gang).first, want = o->failure;
    MUST(o, want.cause != GANG_NO_CAUSE, "a failure without a cause");
    MUST(o,
         found.cause == want.cause && found.rank == want.rank && found.node == want.node &&
             found.status == want.status && found.at_ms == want.at_ms &&
             found.generation == want.generation && a->node == want.node,
         "rank %u of node %u is blamed (cause %d, status %d) instead of %u of %u (%d, %d)",
         found.rank, found.node, found.cause, found.status, want.rank, want.node, want.cause,
         want.status);
    o->has_failed = true;
    o->last_failure = want;
    o->failure.cause = GANG_NO_CAUSE;
    if (o->config.healthy_ms > 0 && o->now_ms - o->started_ms >= o->config.healthy_ms)
        o->n_restarts = 0;
}

static void retry_judge(struct oracle *o, const struct gang *gang, const struct gang_action *a)
{
    (void)gang;
    uint64_t pause_ms = o->config.pause_ms;
    for (uint32_t i = 0; i < MIN(o->n_restarts, 6u); i++)
        pause_ms *= 2;
    uint64_t live_ms = ranks_may_live_ms(o);
    bool is_delayed = live_ms > o->now_ms + pause_ms;
    uint64_t told_ms = is_delayed ? live_ms - o->now_ms : pause_ms;
    MUST(o, oracle_alive(o) == 0 && !o->gathers, "a restart while ranks are there");
    MUST(o, o->has_failed && o->stop == 0, "a restart without a reason");
    MUST(o, !o->is_final, "a restart after a failure that would come again");
    MUST(o, ++o->n_restarts <= o->config.n_restarts, "a restart too many");
    MUST(o, a->pause_ms == told_ms, "a pause of %lu ms instead of %lu", a->pause_ms, told_ms);
    MUST(o, a->flag == is_delayed, "a wrong reason for a pause");
    o->gathers = true;
    o->since_ms = o->now_ms;
    o->pause_end_ms = o->now_ms + pause_ms;
    o->enough_ms = NEVER;
    enough_note(o);
}

static void over_judge(struct oracle *o, const struct gang *gang, const struct gang_action *a)
{
    (void)a;
    enum gang_outcome found = gang_view(gang).outcome, want = outcome_due(o);
    MUST(o, want != GANG_OPEN, "it is over too early");
    MUST(o, found == want, "the outcome is %d instead of %d", found, want);
    o->is_over = true;
}

void oracle_action(struct oracle *o, const struct gang *gang, const struct gang_action *action)
{
    static void (*const judges[])(struct oracle *, const struct gang *,
                                  const struct gang_action *) = {
        [GACT_START] = start_judge, [GACT_END] = end_judge,   [GACT_FAIL] = fail_judge,
        [GACT_RETRY] = retry_judge, [GACT_OVER] = over_judge,
    };
    MUST(o, !o->is_over, "something happens after the end");
    judges[action->kind](o, gang, action);
}

/* ---- after a step ---- */

/* The first nodes by their numbers are the members, and each rank has its place. */
static void members_judge(const struct oracle *o, const struct gang *gang)
{
    uint32_t n = MIN(nodes_up(o), o->config.n_nodes_max);
    MUST(o, o->n_started == n, "%u nodes start, not %u", o->n_started, n);
    for (uint32_t i = 0; i < WORLD_NODES; i++) {
        struct gang_member member;
        const struct oracle_node *node = &o->nodes[i];
        bool is_member = gang_member(gang, i * o->stride, &member);
        MUST(o, is_member == node->is_member && node->is_member == (node->is_up && n > 0),
             "node %u is a member, or should be one", i * o->stride);
        n -= node->is_member;
        for (uint32_t r = 0; node->is_member && r < node->n_ranks; r++) {
            uint32_t at, local_rank;
            gang_place(gang, node->first_rank + r, &at, &local_rank);
            MUST(o, at == i * o->stride && local_rank == r, "rank %u is in a wrong place",
                 node->first_rank + r);
        }
    }
}

static void end_is_told(const struct oracle *o)
{
    for (uint32_t i = 0; i < WORLD_NODES; i++) {
        const struct oracle_node *node = &o->nodes[i];
        bool is_told =
            o->stop == 2 ? node->is_told_at_once : node->is_told_politely || node->is_told_at_once;
        MUST(o, is_told || alive_on(o, node) == 0, "node %u is not told to end", i * o->stride);
    }
}

static enum gang_state state_due(const struct oracle *o)
{
    if (o->is_over)
        return GANG_IS_OVER;
    if (o->gathers)
        return GANG_GATHERS;
    return is_at_work(o) ? GANG_WORKS : GANG_ENDS;
}

static void view_judge(const struct oracle *o, const struct gang *gang)
{
    struct gang_view view = gang_view(gang);
    uint32_t n_members = 0;
    for (uint32_t i = 0; i < WORLD_NODES; i++)
        n_members += o->nodes[i].is_member;
    MUST(o, view.state == state_due(o), "the state is %d instead of %d", view.state, state_due(o));
    MUST(o,
         view.n_alive == oracle_alive(o) && view.n_well == ranks_in(o, RANK_WELL) &&
             view.world_size == o->world_size,
         "ranks are miscounted");
    MUST(o, view.n_members == n_members && view.n_nodes_up == nodes_up(o), "nodes are miscounted");
    MUST(o,
         view.generation == (o->n_generations ? o->n_generations - 1 : 0) &&
             view.n_restarts_used == o->n_restarts,
         "restarts are miscounted");
    MUST(o, view.first.cause == o->last_failure.cause && view.first.rank == o->last_failure.rank,
         "what failed first is forgotten");
}

static void wake_judge(const struct oracle *o, const struct gang *gang)
{
    enum gang_state state = state_due(o);
    uint64_t due_ms = state == GANG_GATHERS ? gather_end(o)
                      : state == GANG_WORKS ? linger_end(o)
                                            : NEVER;
    uint64_t wake_ms = gang_wake_ms(gang);
    if (wake_ms != due_ms || wake_ms <= o->now_ms)
        oracle_found(o, FOUND_STUCK,
                     "it is %lu, and it wants to be woken at %ld instead of %ld (-1: never)",
                     o->now_ms, (long)wake_ms, (long)due_ms);
}

void oracle_settle(struct oracle *o, const struct gang *gang)
{
    MUST(o, o->is_over || o->failure.cause == GANG_NO_CAUSE, "a failure is not noticed");
    MUST(o, o->is_over || outcome_due(o) == GANG_OPEN, "it should be over");
    MUST(o, o->is_over || o->gathers || oracle_alive(o) > 0,
         "no rank is left, and nothing follows");
    if (o->n_started > 0)
        members_judge(o, gang);
    if (o->has_failed || o->stop > 0)
        end_is_told(o);
    view_judge(o, gang);
    wake_judge(o, gang);
}
