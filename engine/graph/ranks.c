/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ranks.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

enum {
    QUESTIONS_AT_ONCE = 256
};

static uint32_t answer_of(enum rank_side side, struct triple triple)
{
    return side == SIDE_TAIL ? triple.tail : triple.head;
}

/* How many entities have a better score than the answer, and how many have the same score. */
struct standing {
    uint64_t n_better, n_equal;
};

static void standing_count(struct standing *standing, float score, float answer_score)
{
    standing->n_better += score > answer_score;
    standing->n_equal += score == answer_score;
}

int rank_of(const float *scores, size_t n_entities, uint32_t answer, enum rank_side side,
            struct known_answers known, enum rank_ties ties, double *rank, struct err *err)
{
    float answer_score = scores[answer];
    struct standing all = {0}, passed_over = {0};
    bool has_nan = false;
    for (size_t e = 0; e < n_entities; e++) {
        has_nan |= isnan(scores[e]);
        standing_count(&all, scores[e], answer_score);
    }
    if (has_nan)
        return fail(err, ERR_DATA, "a score is not a number: the model's weights are too large");
    standing_count(&passed_over, answer_score, answer_score);
    for (size_t i = 0; i < known.n; i++) {
        uint32_t other = answer_of(side, known.at[i]);
        if (other != answer)
            standing_count(&passed_over, scores[other], answer_score);
    }
    double n_equal = (double)(all.n_equal - passed_over.n_equal);
    *rank = 1 + (double)(all.n_better - passed_over.n_better) +
            (ties == TIES_MEAN          ? n_equal / 2
             : ties == TIES_PESSIMISTIC ? n_equal
                                        : 0);
    return 0;
}

/* Adds a rank to sums, which metrics_finish() turns into means. */
static void metrics_add(struct rank_metrics *metrics, double rank)
{
    static const unsigned hits_at[] = RANK_HITS_AT;
    metrics->n++;
    metrics->mean_reciprocal += 1 / rank;
    metrics->mean += rank;
    for (size_t i = 0; i < RANK_N_HITS; i++)
        metrics->hits[i] += rank <= hits_at[i];
}

static void metrics_finish(struct rank_metrics *metrics)
{
    if (metrics->n == 0)
        return;
    metrics->mean_reciprocal /= (double)metrics->n;
    metrics->mean /= (double)metrics->n;
    for (size_t i = 0; i < RANK_N_HITS; i++)
        metrics->hits[i] /= (double)metrics->n;
}

static struct known_answers answers_known(const struct known *known, enum rank_side side,
                                          struct triple question)
{
    if (!known)
        return (struct known_answers){0};
    return side == SIDE_TAIL ? known_tails(known, question.head, question.relation)
                             : known_heads(known, question.relation, question.tail);
}

/* Ranks tests [first, first + n). `scores` and `ranks` begin with those of test `first`. */
static int stretch_rank(const struct ranks_opts *opts, enum rank_side side,
                        const struct triple *tests, size_t first, size_t n, const float *scores,
                        double *ranks, struct err *err)
{
    int rc = 0;
    tests += first;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const float *own = scores + i * opts->n_entities;
        uint32_t answer = answer_of(side, tests[i]);
        rc = rank_of(own, opts->n_entities, answer, side,
                     answers_known(opts->known, side, tests[i]), opts->ties, &ranks[i], err);
        if (rc)
            return wrap(err, rc, "test triple (%u, %u, %u)", tests[i].head, tests[i].relation,
                        tests[i].tail);
        if (opts->each[side])
            opts->each[side][first + i] = (struct rank_each){ranks[i], (double)own[answer]};
    }
    return rc;
}

static bool is_own(const struct ranks_opts *opts, size_t stretch)
{
    return !opts->shared || stretch % opts->shared->n_parts == opts->shared->part;
}

/* Computes the ranks of all sides, one side after the other. */
static int ranks_make(const struct ranks_opts *opts, const struct triple *tests, size_t n_tests,
                      rank_score_fn *score, void *context, double *ranks, struct err *err)
{
    size_t at_once = opts->questions_at_once > 0 ? opts->questions_at_once : QUESTIONS_AT_ONCE;
    at_once = MIN(at_once, MAX(n_tests, 1u));
    size_t n_sides = opts->tails_only ? 1 : SIDE_N, n_done = 0;
    cleanup_free float *scores = xmalloc(at_once * opts->n_entities * sizeof(*scores));
    int rc = 0;
    for (size_t side = 0; side < n_sides; side++)
        for (size_t first = 0, i = 0; rc == 0 && first < n_tests; first += at_once, i++) {
            size_t n = MIN(at_once, n_tests - first);
            n_done += n;
            if (!is_own(opts, i))
                continue;
            rc = score(context, (enum rank_side)side, tests + first, n, scores, err);
            if (rc == 0)
                rc = stretch_rank(opts, (enum rank_side)side, tests, first, n, scores,
                                  ranks + side * n_tests + first, err);
            if (rc == 0 && opts->progress)
                opts->progress(opts->progress_context, n_done, n_tests * n_sides);
        }
    return rc;
}

int ranks_run(const struct ranks_opts *opts, const struct triple *tests, size_t n_tests,
              rank_score_fn *score, void *context, struct rank_metrics metrics[SIDE_N + 1],
              struct err *err)
{
    size_t n_sides = opts->tails_only ? 1 : SIDE_N, n = n_tests * n_sides;
    cleanup_free double *ranks = xcalloc(MAX(n, 1u), sizeof(*ranks));
    int rc = ranks_make(opts, tests, n_tests, score, context, ranks, err);
    if (opts->shared && (rc == 0 || rc == ERR_STOPPED))
        rc = opts->shared->join(opts->shared->context, rc, ranks, n, err);
    for (size_t i = 0; i <= SIDE_N; i++)
        metrics[i] = (struct rank_metrics){0};
    for (size_t side = 0; rc == 0 && side < n_sides; side++)
        for (size_t i = side * n_tests; i < (side + 1) * n_tests; i++) {
            metrics_add(&metrics[side], ranks[i]);
            metrics_add(&metrics[SIDE_N], ranks[i]);
        }
    for (size_t i = 0; i <= SIDE_N; i++)
        metrics_finish(&metrics[i]);
    return rc;
}
