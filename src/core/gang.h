/* SPDX-License-Identifier: Apache-2.0
 *
 * A gang: ranks that do one job together, as distributed training does. All start together. When one fails, all others
 * are ended, and the gang starts again as a new generation while it has restarts left. It is over when every rank of one
 * generation has ended well.
 *
 * A node is a machine with places for ranks. Each node has a number, which it keeps. The present nodes with the
 * lowest numbers, at most n_nodes_max, are the members of the next generation; ranks are counted through them in this
 * order. A node that comes later waits for the next generation.
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
    /* The gang waits for so many nodes, or for as many as ever came if those are more; 0: n_nodes_max. */
    uint32_t n_nodes_awaited;
    uint32_t n_restarts; /* at most so many restarts; see healthy_ms */
    /*
     * The pause before a restart. It doubles with each restart, up to 64 times its length, and is reset by a healthy
     * generation.
     */
    uint64_t pause_ms;
    /*
     * A generation that lasts this long is healthy: if it fails then, all restarts are available again. 0: no
     * generation is.
     */
    uint64_t healthy_ms;
    /*
     * The nodes of a generation gather from the first event on, or from GACT_RETRY on. The generation starts when the
     * awaited nodes are there, or more_ms after n_nodes_min nodes were there for the first time in this gathering. If
     * fewer than n_nodes_min are there join_ms after the gathering began, or later, the gang is given up. A pause
     * only delays this: before its end no generation starts, and the gang is not given up.
     */
    uint64_t more_ms, join_ms; /* join_ms 0: waits for n_nodes_min without end */
    uint64_t linger_ms; /* how long the others may take after the first good end; 0: without end */
};

/* The count of a node is 1 … GANG_NODE_RANKS_MAX; a changed count holds from the next generation on. */
#define GANG_EVENTS(X)                                                                                \
    X(TICK)       /* time has passed */                                                               \
    X(NODE_UP)    /* `node` is there, and has places for `count` ranks */                             \
    X(NODE_GONE)  /* `node` is gone; ranks on it may live until `gone_ms`, and are not heard of */    \
    X(NODE_EMPTY) /* none of the ranks lives that `node` had when it was gone */                      \
    X(EXIT) /* `rank` of `generation` and its descendants are gone; `status`: 0 well; see flag */     \
    X(HANG) /* `rank` of `generation` stands still, and is given up; `status`: that of the failure */ \
    X(STOP) /* end all ranks; flag: at once */

enum gang_event_kind {
#define X(kind) GEV_##kind,
    GANG_EVENTS(X)
#undef X
};

/*
 * Facts that come late or twice (an exit of an earlier generation, a node that is there already) change nothing;
 * after GACT_OVER, no event does. An event is handled before what is due at its time: a last rank that ends exactly
 * at the end of linger_ms has ended in time.
 */
struct gang_event {
    enum gang_event_kind kind;
    uint64_t now_ms; /* monotonic; never smaller than in the previous event */
    uint32_t node;   /* below GANG_NODES_MAX */
    uint32_t rank, generation, count;
    uint64_t gone_ms; /* no generation starts before, unless NODE_EMPTY comes */
    int status;       /* as a shell gives it: 128 + n after signal n */
    bool flag; /* EXIT: no restart, since another generation would fail as well; STOP: at once */
};

/* In each generation a node gets START once, END politely at most once, and END at once at most once. */
#define GANG_ACTIONS(X)                                                                             \
    X(START) /* all ranks of `node`, a member of the new generation (gang_member) */                \
    X(END)   /* the ranks of `node` that are left; flag: at once, else politely */                  \
    X(FAIL)  /* the generation has failed (gang_view: first); END of nodes with ranks follows */    \
    X(RETRY) /* no rank is left; the next generation begins after `pause_ms`, if nodes are there; \
                flag: the pause is longer because of ranks on a lost node, and NODE_EMPTY cuts it */ \
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
    GANG_FAILED,  /* a generation failed, and no restart was left, or would have helped */
    GANG_TOO_FEW, /* fewer than n_nodes_min nodes came in time */
    GANG_STOPPED
};

enum gang_cause {
    GANG_NO_CAUSE,
    GANG_STATUS,  /* `rank` ended with a status that is not 0 */
    GANG_LOST,    /* `node` was gone while ranks on it had not ended; `rank`: the first of these */
    GANG_LINGERS, /* `rank`, the first of those left, took longer than linger_ms */
    GANG_HUNG     /* `rank` stood still */
};

/* The first failure of a generation. */
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
/* Does the gang wait for the end of this rank of the present generation? Not if its node is gone. */
bool gang_awaits(const struct gang *gang, uint32_t rank);
/* Aborts if the gang's counts are wrong. For tests. */
void gang_check(const struct gang *gang);
