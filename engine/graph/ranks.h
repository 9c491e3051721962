/* SPDX-License-Identifier: Apache-2.0
 *
 * How well a model answers questions: the rank of the true answer among all entities, and the
 * metrics that follow from ranks. In the filtered setting, other true answers do not count against
 * the one that is ranked (known.h).
 *
 * Scores come from a callback, so this file depends on no model.
 */
#pragma once

#include "base/err.h"
#include "graph/known.h"

/* The place of the answer among entities with the same score: */
enum rank_ties {
    TIES_MEAN,        /* in the middle: the mean over random orders, PyKEEN's "realistic" rank */
    TIES_PESSIMISTIC, /* last, as TiePin's trainer has it */
    TIES_OPTIMISTIC   /* first: a model that gives all entities the same score is perfect then */
};

enum rank_side {
    SIDE_TAIL, /* (head, relation, ?) */
    SIDE_HEAD, /* (?, relation, tail) */
    SIDE_N
};

#define RANK_HITS_AT \
    {                \
        1, 3, 10     \
    }
enum {
    RANK_N_HITS = 3
};

struct rank_metrics {
    uint64_t n;
    double mean_reciprocal, mean;
    double hits[RANK_N_HITS]; /* share of ranks of at most RANK_HITS_AT */
};

/*
 * Computes the scores of all entities as answers to n questions. A question is a triple whose
 * `side` is asked for. scores[i * n_entities + e] is the score of entity e for question i; higher
 * is better.
 */
typedef int rank_score_fn(void *context, enum rank_side side, const struct triple *questions,
                          size_t n, float *scores, struct err *err);

/*
 * Several processes that rank the same tests, each process a part of them. All call ranks_run()
 * with the same arguments.
 */
struct ranks_shared {
    uint32_t part, n_parts; /* the part of this process, from 0 */
    /*
     * Sums n numbers over the processes, of which at each place all but one are 0. A process that
     * was told to stop has ERR_STOPPED in rc. Returns the same to all: 0, or the reason of the
     * failure.
     */
    int (*join)(void *context, int rc, double *ranks, size_t n, struct err *err);
    void *context;
};

struct ranks_opts {
    size_t n_entities;
    const struct known *known; /* all true triples, tests included; NULL: ranks are not filtered */
    enum rank_ties ties;
    bool tails_only;
    const struct ranks_shared *shared; /* NULL: this process ranks all tests; otherwise `each`
                                        * must be NULL */
    size_t questions_at_once;          /* 0: 256; n_entities scores of each question are in
                                        * memory */
    /* Rank and score of the answer by side and test, filled by ranks_run(). May be NULL. */
    struct rank_each {
        double rank, score;
    } * each[SIDE_N];
    /*
     * Called now and then; both numbers count the questions of all sides that are asked. NULL: not
     * called.
     */
    void (*progress)(void *context, uint64_t n_done, uint64_t n_questions);
    void *progress_context;
};

/*
 * Computes the rank of entity `answer` by `scores`, from 1; other entities in `known` are passed
 * over. With TIES_MEAN the rank may be halfway between two whole numbers. ERR_DATA if a score is
 * NaN.
 */
MUST_CHECK int rank_of(const float *scores, size_t n_entities, uint32_t answer, enum rank_side side,
                       struct known_answers known, enum rank_ties ties, double *rank,
                       struct err *err);

/*
 * Computes the metrics of tails, of heads (n 0 with tails_only) and, at SIDE_N, of both together.
 */
MUST_CHECK int ranks_run(const struct ranks_opts *opts, const struct triple *tests, size_t n_tests,
                         rank_score_fn *score, void *context,
                         struct rank_metrics metrics[SIDE_N + 1], struct err *err);
