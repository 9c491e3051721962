/* SPDX-License-Identifier: Apache-2.0
 *
 * How good a model is at answering: the rank of the true answer among all entities, and what follows from ranks.
 * In the filtered setting other true answers do not count against it (known.h).
 *
 * What scores is a callback, so this knows no model.
 */
#pragma once

#include "base/err.h"
#include "graph/known.h"

/* Among entities with the same score as the answer, it stands … */
enum rank_ties {
    TIES_MEAN,        /* in the middle: what chance would give it, and PyKEEN's "realistic" rank */
    TIES_PESSIMISTIC, /* last, as TiePin's trainer has it */
    TIES_OPTIMISTIC   /* first: a model that gives all entities one score is perfect then */
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
 * Scores of all entities as answers to n questions, each a triple whose `side` is what is asked:
 * scores[i * n_entities + e], the higher the better.
 */
typedef int rank_score_fn(void *context, enum rank_side side, const struct triple *questions,
                          size_t n, float *scores, struct err *err);

struct ranks_opts {
    size_t n_entities;
    const struct known
        *known; /* all true triples, those of the test among them; NULL: unfiltered */
    enum rank_ties ties;
    bool tails_only;
    size_t questions_at_once; /* 0: 256; so many times n_entities scores are in memory */
    /* NULL, or by side and test: the rank, and what the answer was scored. */
    struct rank_each {
        double rank, score;
    } * each[SIDE_N];
    /* NULL, or told now and then how many questions are answered, of both sides if both are asked. */
    void (*progress)(void *context, uint64_t n_done, uint64_t n_questions);
    void *progress_context;
};

/*
 * The rank of entity `answer` by `scores`, from 1; other entities in `known` are passed over. It lies between
 * two whole numbers where TIES_MEAN puts it there. ERR_DATA if a score is NaN.
 */
MUST_CHECK int rank_of(const float *scores, size_t n_entities, uint32_t answer, enum rank_side side,
                       struct known_answers known, enum rank_ties ties, double *rank,
                       struct err *err);

/* Metrics of tails, of heads (n 0 with tails_only) and, at SIDE_N, of both together. */
MUST_CHECK int ranks_run(const struct ranks_opts *opts, const struct triple *tests, size_t n_tests,
                         rank_score_fn *score, void *context,
                         struct rank_metrics metrics[SIDE_N + 1], struct err *err);
