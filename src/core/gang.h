/* SPDX-License-Identifier: Apache-2.0
 *
 * A gang: ranks that do one job together, as distributed training does. All start together. When one fails, all others
 * are ended, and the gang starts again as a new generation while it has restarts left. It is over when every rank of one
 * generation has ended well.
 *
 * A node is a machine with places for ranks. Nodes are known by numbers that stay theirs. Of those that are there, the
 * first n_nodes_max, by their numbers, are the members of the next generation, and ranks are counted through them in
 * this order. A node that comes later waits for the next generation.
 *
 * Pure: it makes no system call, has no clock, and allocates only in gang_new. Events go in by gang_step, actions
 * come out. The words are those of torchrun: group rank, generation ("restart count"), world size.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GANG_NODES_MAX = 4096,
    GANG_NODE_RANKS_MAX = 1024
};

struct gang_config {
    uint32_t n_nodes_min, n_nodes_max; /* 1 <= n_nodes_min <= n_nodes_max <= GANG_NODES_MAX */
    /* So many are waited for if there are fewer, or as many as ever came if those are more; 0: n_nodes_max. */
    uint32_t n_nodes_awaited;
    uint32_t n_restarts; /* at most so many restarts; see healthy_ms */
    /* Before a restart. It doubles with each restart up to 64 times its length, and is as at first again after a
     * generation that was healthy. */
    uint64_t pause_ms;
    /* A generation that fails only after such a time gives all restarts back. 0: none does. */
    uint64_t healthy_ms;
    /*
     * The nodes of a generation gather from the first event on, or from GACT_RETRY on. When those are there that
     * are awaited, it starts; when n_nodes_min are there, more_ms after so many were there for the first time in this gathering. If
     * fewer are there join_ms after it began, or become fewer later, it is given up. A pause only delays all of this:
     * before its end nothing starts, and nothing is given up.
     */
    uint64_t more_ms, join_ms; /* join_ms 0: fewer are waited for without end */
    uint64_t linger_ms; /* after the first rank that ends well, for the others; 0: without end */
};

/* The count of a node is 1 … GANG_NODE_RANKS_MAX; another one than before holds from the next generation on. */
#define GANG_EVENTS(X)                                                                                \
    X(TICK)      /* time has passed */                                                                \
    X(NODE_UP)   /* `node` is there, and has places for `count` ranks */                              \
    X(NODE_GONE) /* `node` is gone; ranks on it may live until `gone_ms`, and are not heard of */     \
    X(EXIT) /* `rank` of `generation` and its descendants are gone; `status`: 0 well; see flag */     \
    X(HANG) /* `rank` of `generation` stands still, and is given up; `status`: that of the failure */ \
    X(STOP) /* end all ranks; flag: at once */

enum gang_event_kind {
#define X(kind) GEV_##kind,
    GANG_EVENTS(X)
#undef X
};

/*
 * Facts that come late or twice (an exit of an earlier generation, a node that is there already) change nothing, and
 * nothing does after GACT_OVER. What an event tells comes before what its time brings: if the last rank ends at the end
 * of linger_ms, it has ended in time.
 */
struct gang_event {
    enum gang_event_kind kind;
    uint64_t now_ms; /* monotonic; never smaller than in the previous event */
    uint32_t node;   /* below GANG_NODES_MAX */
    uint32_t rank, generation, count;
    uint64_t gone_ms; /* no generation starts before */
    int status;       /* as a shell gives it: 128 + n after signal n */
    bool flag; /* EXIT: another generation would fail as well, so there is none; STOP: see there */
};

/* In a generation a node gets START once, and END at most once politely and at most once at once. */
#define GANG_ACTIONS(X)                                                                             \
    X(START) /* all ranks of `node`, a member of the new generation (gang_member) */                \
    X(END)   /* the ranks of `node` that are left; flag: at once, else politely */                  \
    X(FAIL)  /* the generation has failed (gang_view: first); END of nodes with ranks follows */    \
    X(RETRY) /* no rank is left; the next generation begins after `pause_ms`, if nodes are there; \
                flag: so late because of ranks on a node that is gone */ \
    X(OVER)  /* no rank is left; gang_view: outcome. The last action */

enum gang_action_kind {
#define X(kind) GACT_##kind,
    GANG_ACTIONS(X)
#undef X
};

struct gang_action {
    enum gang_action_kind kind;
    uint32_t node;
    uint64_t pause_ms;
    bool flag;
};

enum gang_state {
    GANG_GATHERS, /* waits for nodes, or for the end of a pause */
    GANG_WORKS,
    GANG_ENDS, /* waits for the exits of ranks that are being ended */
    GANG_IS_OVER
};

enum gang_outcome {
    GANG_OPEN, /* it is not over */
    GANG_WELL, /* all ranks ended with 0 (some perhaps after END), in a generation without a FAIL */
    GANG_FAILED,  /* a generation failed, and no restart was left, or none would have helped */
    GANG_TOO_FEW, /* fewer than n_nodes_min nodes came in time */
    GANG_STOPPED
};

enum gang_cause {
    GANG_NO_CAUSE,
    GANG_STATUS,  /* `rank` ended with a status that is not 0 */
    GANG_LOST,    /* `node` was gone while ranks on it were not; `rank`: the first of them */
    GANG_LINGERS, /* `rank`, the first of those left, took longer than linger_ms */
    GANG_HUNG     /* `rank` stood still */
};

/* What was wrong first in a generation. */
struct gang_failure {
    enum gang_cause cause;
    uint32_t rank, node, generation;
    int status;
    uint64_t at_ms;
};

struct gang_view {
    enum gang_state state;
    enum gang_outcome outcome;
    uint32_t generation; /* of the last START, from 0 */
    uint32_t world_size, n_members, n_nodes_up;
    uint32_t n_alive, n_well; /* ranks of this generation: not gone; ended with 0 */
    uint32_t n_restarts_used;
    struct gang_failure first; /* of the last generation that failed; cause 0: none has */
};

/* A node's part of the present generation, which is that of the last START. */
struct gang_member {
    uint32_t group_rank, first_rank, n_ranks;
};

struct gang;

/* NULL: memory ran out. */
struct gang *gang_new(const struct gang_config *config);
void gang_free(struct gang *gang);
/* *actions: in the order in which they must be carried out, valid until the next call. Returns their number. */
size_t gang_step(struct gang *gang, const struct gang_event *event,
                 const struct gang_action **actions);
/* When a GEV_TICK must come at the latest; UINT64_MAX: none is needed; 0, before the first event: at once. */
uint64_t gang_wake_ms(const struct gang *gang);
struct gang_view gang_view(const struct gang *gang);
/* False: the node is not a member of the present generation. */
bool gang_member(const struct gang *gang, uint32_t node, struct gang_member *out);
/* The node of a rank of the present generation, and its number there. */
void gang_place(const struct gang *gang, uint32_t rank, uint32_t *node, uint32_t *local_rank);
/* Is the end of this rank of the present generation waited for? Not if its node is gone. */
bool gang_awaits(const struct gang *gang, uint32_t rank);
/* Aborts if what the gang has counted differs from what it has. For tests. */
void gang_check(const struct gang *gang);
