/* SPDX-License-Identifier: Apache-2.0
 *
 * The scores that graph/ranks.h asks for, computed by a ConvE model: the scores of all entities as
 * answers to a question, as tails or as heads.
 *
 * For a tail, x of the question's head and relation is computed once. For a head, x of every entity
 * with the relation is needed. These vectors depend on the relation alone, so they are computed
 * when the relation changes, and each question is then one matrix product. So callers should ask
 * for heads in the order of their relations.
 */
#pragma once

#include "conve/pass.h"
#include "graph/ranks.h"
#include "num/thread_pool.h"

struct eval_scorer;

/* All arguments are borrowed. */
struct eval_scorer *eval_scorer_new(const struct conve *model, const struct num_backend *backend,
                                    struct thread_pool *pool);
void eval_scorer_free(struct eval_scorer *scorer);
/* A rank_score_fn; the context is the scorer. */
int eval_scores(void *context, enum rank_side side, const struct triple *questions, size_t n,
                float *scores, struct err *err);
/*
 * Calls ranks_run() with the tests in the order of their relations; chooses questions_at_once
 * itself. The score of a head in opts->each is the score of the triple; a reciprocal model answers
 * the inverse question, and the score is that of the inverse triple.
 */
MUST_CHECK int eval_rank(const struct conve *model, const struct num_backend *backend,
                         struct thread_pool *pool, const struct ranks_opts *opts,
                         const struct triple *tests, size_t n_tests,
                         struct rank_metrics metrics[SIDE_N + 1], struct err *err);
