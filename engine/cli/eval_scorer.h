/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of all entities as tails, and as heads, of questions: what ranks.h asks for, of a ConvE model.
 *
 * For a tail the model looks at head and relation once. For a head it would have to look at every entity in the
 * head's place; that depends on the relation alone, so it is done once a relation, and a question is then one
 * product. Ask for heads in the order of their relations.
 */
#pragma once

#include "conve/pass.h"
#include "graph/ranks.h"
#include "num/thread_pool.h"

struct eval_scorer;

/* All borrowed. */
struct eval_scorer *eval_scorer_new(const struct conve *model, const struct num_backend *backend,
                                    struct thread_pool *pool);
void eval_scorer_free(struct eval_scorer *scorer);
/* A rank_score_fn; the context is the scorer. */
int eval_scores(void *context, enum rank_side side, const struct triple *questions, size_t n,
                float *scores, struct err *err);
/*
 * ranks_run(), which is asked in the order of relations; opts->questions_at_once is chosen here.
 * Scores of heads are those of the triple, but of a reciprocal model's, which answers the question
 * the other way round.
 */
MUST_CHECK int eval_rank(const struct conve *model, const struct num_backend *backend,
                         struct thread_pool *pool, const struct ranks_opts *opts,
                         const struct triple *tests, size_t n_tests,
                         struct rank_metrics metrics[SIDE_N + 1], struct err *err);
