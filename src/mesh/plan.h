/* SPDX-License-Identifier: Apache-2.0
 *
 * Which pairs of ranks are measured, and in which round. A host takes part in one measurement at a time, so that no two
 * of them share its network interfaces or its cores. Pure.
 *
 * Between hosts the rounds are those of a tournament (the circle method): in each, every host has one partner at most,
 * and after n - 1 of them (n, if n is odd) every two hosts have met. Within hosts, pairs of all hosts are measured at the
 * same time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many of the pairs; the first of them whose rounds take no longer than PLAN_BUDGET_MS. */
enum plan_depth {
    PLAN_ALL_PAIRS,
    PLAN_EACH_RANK, /* of two hosts, each rank with one of the other host; within a host, neighbours */
    PLAN_EACH_HOST, /* of two hosts, one rank each; within a host, neighbours */
    PLAN_SOME_HOSTS /* the same, and each host with some of the others */
};

enum {
    PLAN_BUDGET_MS = 15000,
    PLAN_BUDGET_HOSTS_MS = 60000, /* of PLAN_EACH_HOST */
    PLAN_NEIGHBOURS_MAX = 200,    /* pairs within a host, if they are not all of them */
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
    size_t n_possible; /* pairs that there are */
};

/* host_of[rank], hosts numbered from 0. */
void pair_plan_make(const uint32_t *host_of, uint32_t n_ranks, struct pair_plan *out);
void pair_plan_release(struct pair_plan *plan);
