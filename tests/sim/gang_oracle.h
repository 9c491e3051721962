/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges a gang from outside: it keeps the facts that the gang was told, rank by rank, works out anew after each
 * event what they ask for, and compares that with the actions and with gang_view. What the gang has counted itself is
 * checked by gang_check.
 */
#pragma once

#include "base/attr.h"
#include "core/gang.h"

enum {
    WORLD_NODES = 8,
    WORLD_PLACES = 70, /* on a node */
    WORLD_RANKS = WORLD_NODES * WORLD_PLACES
};

/* How a run of the simulator ends; also its exit status. */
enum {
    FOUND_NOTHING = 0,
    FOUND_STUCK = 128,
    FOUND_UNSAFE = 129,
    FOUND_DIFFERENT = 130
};

enum rank_state {
    RANK_ALIVE,
    RANK_WELL, /* it ended with 0 */
    RANK_BAD,
    RANK_LOST /* with its node */
};

struct oracle_node {
    bool is_up;
    uint64_t gone_ms; /* until then, ranks that it had when it was gone may live */
    uint32_t count;
    /* Its part of the present generation. */
    bool is_member, is_told_politely, is_told_at_once;
    uint32_t first_rank, n_ranks;
};

struct oracle {
    struct gang_config config;
    uint64_t seed, n_steps, now_ms;
    uint32_t stride; /* the node of index i has the number i * stride */
    struct oracle_node nodes[WORLD_NODES];

    uint32_t n_generations;
    enum rank_state ranks[WORLD_RANKS]; /* of the last generation */
    uint32_t world_size;
    uint64_t started_ms, first_well_ms;
    bool has_failed, is_final;   /* is_final: by a failure that would come again */
    struct gang_failure failure; /* FAIL must follow in this step; cause 0: it must not */
    struct gang_failure last_failure;

    bool gathers;
    uint64_t since_ms, enough_ms, pause_end_ms;
    uint32_t n_restarts; /* since a generation was healthy */
    uint32_t stop;       /* 1: politely, 2: at once */
    bool is_over;
    uint32_t n_started; /* nodes, in this step */
};

void oracle_init(struct oracle *oracle, const struct gang_config *config, uint64_t seed);
/* Before gang_step, after each of its actions, and when all have been told. */
void oracle_event(struct oracle *oracle, const struct gang_event *event);
void oracle_action(struct oracle *oracle, const struct gang *gang,
                   const struct gang_action *action);
void oracle_settle(struct oracle *oracle, const struct gang *gang);

uint32_t oracle_alive(const struct oracle *oracle);
/* Says what was found, and ends the program. */
NORETURN void oracle_found(const struct oracle *oracle, int what, const char *fmt, ...)
    PRINTF(3, 4);
