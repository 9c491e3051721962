/* SPDX-License-Identifier: Apache-2.0
 *
 * Which pairs of ranks are measured, and in which round. A host takes part in one measurement at a time, so that two
 * measurements never share its network interfaces or its cores. Pure.
 *
 * The rounds between hosts are those of a tournament (the circle method): in each round a host has at most one
 * partner, and after n - 1 rounds (n rounds if n is odd) every two hosts have met. Pairs within hosts are measured on
 * all hosts at the same time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many of the pairs are measured. The first depth is taken whose rounds fit into PLAN_BUDGET_MS. */
enum plan_depth {
    PLAN_ALL_PAIRS,
    PLAN_EACH_RANK, /* of two hosts, each rank with one rank of the other; in a host, neighbours */
    PLAN_EACH_HOST, /* of two hosts, one rank each; in a host, neighbours */
    PLAN_SOME_HOSTS /* as before, but each host meets only some of the others */
};

enum {
    PLAN_BUDGET_MS = 15000,
    PLAN_BUDGET_HOSTS_MS = 60000, /* the budget of PLAN_EACH_HOST */
    PLAN_NEIGHBOURS_MAX = 200,    /* neighbour pairs within a host */
    /* One round, measured on links without faults. */
    PLAN_WITHIN_MS = 100,
    PLAN_BETWEEN_MS = 350
};

struct plan_pair {
    uint32_t round, a, b; /* a < b */
};

struct pair_plan {
    struct plan_pair *at; /* [len], by round */
    size_t len;
    uint32_t n_rounds;
    enum plan_depth depth;
    uint64_t about_ms; /* all rounds, without faults */
    size_t n_possible; /* the number of all pairs */
};

/* Makes a plan. host_of[rank] is the number of its host, from 0. */
void pair_plan_make(const uint32_t *host_of, uint32_t n_ranks, struct pair_plan *out);
void pair_plan_release(struct pair_plan *plan);
