/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/plan.h"

#include "base/cleanup.h"
#include "base/xalloc.h"

/* Ranks sorted by host: the ranks of host h are of[first[h]] to of[first[h + 1] - 1]. */
struct host_ranks {
    uint32_t *of, *first;
    uint32_t n_hosts, n_most; /* n_most: ranks of the largest host */
};

static uint32_t count_of(const struct host_ranks *ranks, uint32_t host)
{
    return ranks->first[host + 1] - ranks->first[host];
}

static uint32_t rank_of(const struct host_ranks *ranks, uint32_t host, uint32_t number)
{
    return ranks->of[ranks->first[host] + number];
}

static void host_ranks_make(const uint32_t *host_of, uint32_t n_ranks, struct host_ranks *out)
{
    *out = (struct host_ranks){.of = xcalloc(n_ranks + 1, sizeof(uint32_t))};
    for (uint32_t i = 0; i < n_ranks; i++)
        out->n_hosts = MAX(out->n_hosts, host_of[i] + 1);
    out->first = xcalloc(out->n_hosts + 1, sizeof(uint32_t));
    uint32_t n = 0;
    for (uint32_t host = 0; host < out->n_hosts; host++) {
        out->first[host] = n;
        for (uint32_t i = 0; i < n_ranks; i++)
            if (host_of[i] == host)
                out->of[n++] = i;
        out->first[host + 1] = n;
        out->n_most = MAX(out->n_most, count_of(out, host));
    }
}

static void pair_add(struct pair_plan *plan, uint32_t round, uint32_t a, uint32_t b)
{
    if (plan->len % 64 == 0)
        plan->at = xrealloc(plan->at, (plan->len + 64) * sizeof(*plan->at));
    plan->at[plan->len++] = (struct plan_pair){.round = round, .a = MIN(a, b), .b = MAX(a, b)};
}

/* ---- the circle method ---- */

static uint32_t tournament_rounds(uint32_t n)
{
    return n < 2 ? 0 : n % 2 == 0 ? n - 1 : n;
}

/* Which of n players `player` meets in a round; `player` itself: it meets nobody. */
static uint32_t opponent(uint32_t player, uint32_t round, uint32_t n)
{
    uint32_t n_even = n + n % 2, turn = n_even - 1, other;
    if (player == turn)
        other = round;
    else if (player == round)
        other = turn;
    else
        other = (2 * round + turn - player) % turn;
    return other < n ? other : player;
}

/* ---- within hosts: one pair a host in a round ---- */

/* How many pairs of neighbours n ranks in a circle have. */
static uint32_t neighbours_count(uint32_t n)
{
    return MIN(n > 2 ? n : n - 1, (uint32_t)PLAN_NEIGHBOURS_MAX);
}

static uint32_t within_rounds(const struct host_ranks *ranks, enum plan_depth depth)
{
    uint32_t n = ranks->n_most;
    return depth == PLAN_ALL_PAIRS ? n * (n - 1) / 2 : neighbours_count(n);
}

static void neighbours_add(struct pair_plan *plan, const struct host_ranks *ranks, uint32_t host)
{
    uint32_t n = count_of(ranks, host), n_pairs = neighbours_count(n);
    for (uint32_t i = 0; i < n_pairs; i++)
        pair_add(plan, i, rank_of(ranks, host, i), rank_of(ranks, host, (i + 1) % n));
}

static void all_within_add(struct pair_plan *plan, const struct host_ranks *ranks, uint32_t host)
{
    uint32_t round = 0;
    for (uint32_t i = 0; i < count_of(ranks, host); i++)
        for (uint32_t k = i + 1; k < count_of(ranks, host); k++)
            pair_add(plan, round++, rank_of(ranks, host, i), rank_of(ranks, host, k));
}

static void within_add(struct pair_plan *plan, const struct host_ranks *ranks)
{
    for (uint32_t host = 0; host < ranks->n_hosts; host++) {
        if (count_of(ranks, host) < 2)
            continue;
        if (plan->depth == PLAN_ALL_PAIRS)
            all_within_add(plan, ranks, host);
        else
            neighbours_add(plan, ranks, host);
    }
}

/* ---- between hosts ---- */

/* How many rounds two hosts need that meet. */
static uint32_t turns_of(const struct host_ranks *ranks, enum plan_depth depth)
{
    switch (depth) {
    case PLAN_ALL_PAIRS:
        return ranks->n_most * ranks->n_most;
    case PLAN_EACH_RANK:
        return ranks->n_most;
    case PLAN_EACH_HOST:
    case PLAN_SOME_HOSTS:
        return 1;
    }
    return 1;
}

/*
 * Adds the turns of two hosts. If one host has fewer ranks, several ranks of the other host are measured with the
 * same rank of it.
 */
static void turns_add(struct pair_plan *plan, const struct host_ranks *ranks, uint32_t round,
                      uint32_t one, uint32_t two)
{
    uint32_t n_one = count_of(ranks, one), n_two = count_of(ranks, two);
    bool is_all = plan->depth == PLAN_ALL_PAIRS;
    uint32_t n_turns = is_all                          ? n_one * n_two
                       : plan->depth == PLAN_EACH_RANK ? MAX(n_one, n_two)
                                                       : 1;
    for (uint32_t turn = 0; turn < n_turns; turn++)
        pair_add(plan, round + turn, rank_of(ranks, one, is_all ? turn / n_two : turn % n_one),
                 rank_of(ranks, two, turn % n_two));
}

static void between_add(struct pair_plan *plan, const struct host_ranks *ranks, uint32_t begin,
                        uint32_t n_meetings)
{
    uint32_t n_turns = turns_of(ranks, plan->depth), n = ranks->n_hosts;
    for (uint32_t meeting = 0; meeting < n_meetings; meeting++)
        for (uint32_t host = 0; host < n; host++) {
            uint32_t other = opponent(host, meeting, n);
            if (host < other && count_of(ranks, host) > 0 && count_of(ranks, other) > 0)
                turns_add(plan, ranks, begin + meeting * n_turns, host, other);
        }
}

/* ---- all of it ---- */

static uint64_t duration_of(const struct host_ranks *ranks, enum plan_depth depth)
{
    uint64_t n_between = (uint64_t)tournament_rounds(ranks->n_hosts) * turns_of(ranks, depth);
    return (uint64_t)within_rounds(ranks, depth) * PLAN_WITHIN_MS + n_between * PLAN_BETWEEN_MS;
}

static enum plan_depth depth_choose(const struct host_ranks *ranks)
{
    if (duration_of(ranks, PLAN_ALL_PAIRS) <= PLAN_BUDGET_MS)
        return PLAN_ALL_PAIRS;
    if (duration_of(ranks, PLAN_EACH_RANK) <= PLAN_BUDGET_MS)
        return PLAN_EACH_RANK;
    return duration_of(ranks, PLAN_EACH_HOST) <= PLAN_BUDGET_HOSTS_MS ? PLAN_EACH_HOST
                                                                      : PLAN_SOME_HOSTS;
}

static int by_round(const void *a_, const void *b_)
{
    const struct plan_pair *a = a_, *b = b_;
    if (a->round != b->round)
        return a->round < b->round ? -1 : 1;
    return a->a < b->a ? -1 : a->a > b->a;
}

void pair_plan_make(const uint32_t *host_of, uint32_t n_ranks, struct pair_plan *out)
{
    struct host_ranks ranks;
    host_ranks_make(host_of, n_ranks, &ranks);
    *out = (struct pair_plan){.depth = depth_choose(&ranks),
                              .n_possible = (size_t)n_ranks * (n_ranks - (n_ranks > 0)) / 2};
    uint32_t n_within = ranks.n_most > 0 ? within_rounds(&ranks, out->depth) : 0;
    uint32_t n_meetings = tournament_rounds(ranks.n_hosts);
    if (out->depth == PLAN_SOME_HOSTS)
        n_meetings = MIN(n_meetings, (uint32_t)(PLAN_BUDGET_HOSTS_MS / PLAN_BETWEEN_MS));
    within_add(out, &ranks);
    between_add(out, &ranks, n_within, n_meetings);
    out->n_rounds = n_within + n_meetings * turns_of(&ranks, out->depth);
    out->about_ms = (uint64_t)n_within * PLAN_WITHIN_MS +
                    (uint64_t)(out->n_rounds - n_within) * PLAN_BETWEEN_MS;
    if (out->len > 0)
        qsort(out->at, out->len, sizeof(*out->at), by_round);
    free(ranks.of);
    free(ranks.first);
}

void pair_plan_release(struct pair_plan *plan)
{
    free(plan->at);
    *plan = (struct pair_plan){0};
}
