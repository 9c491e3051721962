/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/eval_scorer.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "cli/eval_twins.h"

enum {
    PIECE = 64, /* triples that a thread computes at a time */
    SCORES_BYTES_MAX = 64 << 20
};

struct eval_scorer {
    const struct num_backend *be;
    const struct conve *model;
    struct conve_weights weights;
    struct twins twins;
    struct conve_pass *passes; /* by thread */
    float *tails;              /* PIECE embeddings for each thread */
    struct thread_pool *pool;
    /* x of (entity, `relation`) for each entity: n_entities x dim; NULL before the first use. */
    float *as_heads;
    uint32_t relation;
};

struct eval_scorer *eval_scorer_new(const struct conve *model, const struct num_backend *backend,
                                    struct thread_pool *pool)
{
    struct eval_scorer *scorer = xcalloc(1, sizeof(*scorer));
    scorer->be = backend;
    scorer->model = model;
    scorer->pool = pool;
    conve_weights_init(&scorer->weights, model, NUM_F32);
    twins_find(&scorer->twins, model);
    unsigned n_threads = thread_pool_n_threads(pool);
    scorer->passes = xcalloc(n_threads, sizeof(*scorer->passes));
    scorer->tails = xcalloc(n_threads, PIECE * conve_dim(&model->shape) * sizeof(*scorer->tails));
    for (unsigned i = 0; i < n_threads; i++)
        conve_pass_init(&scorer->passes[i], backend, &scorer->weights, PIECE);
    return scorer;
}

void eval_scorer_free(struct eval_scorer *scorer)
{
    if (!scorer)
        return;
    for (unsigned i = 0; i < thread_pool_n_threads(scorer->pool); i++)
        conve_pass_release(&scorer->passes[i]);
    conve_weights_release(&scorer->weights);
    twins_release(&scorer->twins);
    free(scorer->passes);
    free(scorer->tails);
    free(scorer->as_heads);
    free(scorer);
}

/* Questions of one side, cut into pieces. */
struct round {
    struct eval_scorer *scorer;
    const struct triple *questions;
    size_t n;
    float *scores;
};

static size_t piece_len(const struct round *round, size_t piece)
{
    return MIN(round->n - piece * PIECE, (size_t)PIECE);
}

static void tails_make(void *context, unsigned thread, size_t piece)
{
    const struct round *round = context;
    struct conve_pass *pass = &round->scorer->passes[thread];
    size_t n_entities = round->scorer->model->shape.n_entities;
    conve_forward(pass, round->questions + piece * PIECE, piece_len(round, piece));
    conve_scores(pass, true, round->scores + piece * PIECE * n_entities);
}

static void as_heads_make(void *context, unsigned thread, size_t piece)
{
    const struct round *round = context;
    struct eval_scorer *scorer = round->scorer;
    size_t dim = conve_dim(&scorer->model->shape), n = piece_len(round, piece);
    struct triple triples[PIECE];
    for (size_t i = 0; i < n; i++)
        triples[i] = (struct triple){(uint32_t)(piece * PIECE + i), scorer->relation, 0};
    conve_forward(&scorer->passes[thread], triples, n);
    memcpy(scorer->as_heads + piece * PIECE * dim, scorer->passes[thread].x,
           n * dim * sizeof(float));
}

/*
 * Computes the rows of as_heads. The tail's bias is left out: it is the same for all heads, so it
 * changes no rank.
 */
static void heads_make(void *context, unsigned thread, size_t piece)
{
    const struct round *round = context;
    struct eval_scorer *scorer = round->scorer;
    const struct conve_shape *shape = &scorer->model->shape;
    size_t dim = conve_dim(shape), n = piece_len(round, piece);
    float *tails = scorer->tails + (size_t)thread * PIECE * dim;
    for (size_t i = 0; i < n; i++)
        memcpy(tails + i * dim,
               scorer->model->at[PARAM_ENTITY] + round->questions[piece * PIECE + i].tail * dim,
               dim * sizeof(float));
    const struct num_gemm product = {.dtype = NUM_F32,
                                     .trans_b = true,
                                     .m = n,
                                     .n = shape->n_entities,
                                     .k = dim,
                                     .lda = dim,
                                     .ldb = dim,
                                     .ldc = shape->n_entities,
                                     .alpha = 1,
                                     .a = tails,
                                     .b = scorer->as_heads,
                                     .c = round->scores + piece * PIECE * shape->n_entities};
    scorer->be->gemm(scorer->be, &product);
}

static int round_run(struct round *round, void (*make)(void *, unsigned, size_t), struct err *err)
{
    const struct thread_pool_work work = {
        .context = round, .n_pieces = (round->n + PIECE - 1) / PIECE, .make = make};
    return thread_pool_run(round->scorer->pool, &work, err);
}

static int relation_take(struct eval_scorer *scorer, uint32_t relation, struct err *err)
{
    const struct conve_shape *shape = &scorer->model->shape;
    if (scorer->as_heads && scorer->relation == relation)
        return 0;
    if (!scorer->as_heads)
        scorer->as_heads =
            xmalloc(shape->n_entities * conve_dim(shape) * sizeof(*scorer->as_heads));
    scorer->relation = relation;
    struct round round = {.scorer = scorer, .n = shape->n_entities};
    return round_run(&round, as_heads_make, err);
}

/* Answers (?, relation, tail) as (tail, inverse of relation, ?). */
static int heads_score_reciprocal(struct eval_scorer *scorer, const struct triple *questions,
                                  size_t n, float *scores, struct err *err)
{
    uint32_t half = (uint32_t)(scorer->model->shape.n_relations / 2);
    struct triple *turned = xcalloc(n, sizeof(*turned));
    for (size_t i = 0; i < n; i++)
        turned[i] = (struct triple){questions[i].tail, questions[i].relation + half, 0};
    struct round round = {.scorer = scorer, .questions = turned, .n = n, .scores = scores};
    int rc = round_run(&round, tails_make, err);
    free(turned);
    return rc;
}

static int heads_score(struct eval_scorer *scorer, const struct triple *questions, size_t n,
                       float *scores, struct err *err)
{
    int rc = 0;
    for (size_t first = 0, next; rc == 0 && first < n; first = next) {
        for (next = first + 1; next < n && questions[next].relation == questions[first].relation;)
            next++;
        struct round round = {.scorer = scorer,
                              .questions = questions + first,
                              .n = next - first,
                              .scores = scores + first * scorer->model->shape.n_entities};
        rc = relation_take(scorer, questions[first].relation, err);
        if (rc == 0)
            rc = round_run(&round, heads_make, err);
    }
    return rc;
}

int eval_scores(void *context, enum rank_side side, const struct triple *questions, size_t n,
                float *scores, struct err *err)
{
    struct eval_scorer *scorer = context;
    const struct conve *model = scorer->model;
    struct round round = {.scorer = scorer, .questions = questions, .n = n, .scores = scores};
    int rc = side == SIDE_TAIL      ? round_run(&round, tails_make, err)
             : model->is_reciprocal ? heads_score_reciprocal(scorer, questions, n, scores, err)
                                    : heads_score(scorer, questions, n, scores, err);
    if (rc == 0)
        twins_level(&scorer->twins, side == SIDE_TAIL || model->is_reciprocal, n,
                    model->shape.n_entities, scores);
    return rc;
}

/* A test and its position among the tests. These are sorted by relation. */
struct placed {
    struct triple triple;
    size_t place;
};

static int by_relation(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->triple.relation != y->triple.relation)
        return x->triple.relation < y->triple.relation ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/*
 * Puts the results into the order in which the tests were given, and adds the tail's bias, which
 * heads_make() leaves out.
 */
static void each_put(const struct conve *model, const struct placed *placed, size_t n,
                     const struct ranks_opts *from, const struct ranks_opts *to)
{
    const float *bias = model->is_reciprocal ? NULL : model->at[PARAM_ENTITY_BIAS];
    for (enum rank_side side = SIDE_TAIL; side < SIDE_N; side++)
        for (size_t i = 0; to->each[side] && i < n; i++) {
            struct rank_each *at = &to->each[side][placed[i].place];
            *at = from->each[side][i];
            if (side == SIDE_HEAD && bias)
                at->score += (double)bias[placed[i].triple.tail];
        }
}

int eval_rank(const struct conve *model, const struct num_backend *backend,
              struct thread_pool *pool, const struct ranks_opts *opts, const struct triple *tests,
              size_t n_tests, struct rank_metrics metrics[SIDE_N + 1], struct err *err)
{
    struct ranks_opts ranks = *opts;
    struct placed *placed = xcalloc(n_tests, sizeof(*placed));
    struct triple *ordered = xcalloc(n_tests, sizeof(*ordered));
    for (size_t i = 0; i < n_tests; i++)
        placed[i] = (struct placed){tests[i], i};
    qsort(placed, n_tests, sizeof(*placed), by_relation);
    for (size_t i = 0; i < n_tests; i++)
        ordered[i] = placed[i].triple;
    for (enum rank_side side = SIDE_TAIL; side < SIDE_N; side++)
        ranks.each[side] = opts->each[side] ? xcalloc(n_tests, sizeof(struct rank_each)) : NULL;
    ranks.questions_at_once = MAX(SCORES_BYTES_MAX / (opts->n_entities * sizeof(float)), 1u);
    struct eval_scorer *scorer = eval_scorer_new(model, backend, pool);
    int rc = ranks_run(&ranks, ordered, n_tests, eval_scores, scorer, metrics, err);
    eval_scorer_free(scorer);
    if (rc == 0)
        each_put(model, placed, n_tests, &ranks, opts);
    for (enum rank_side side = SIDE_TAIL; side < SIDE_N; side++)
        free(ranks.each[side]);
    free(placed);
    free(ordered);
    return rc;
}
