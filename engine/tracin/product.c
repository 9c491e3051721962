/* SPDX-License-Identifier: Apache-2.0
 *
 * Inner products of gradients that were taken apart (factor.h).
 */
#include <string.h>

#include "base/attr.h"
#include "tracin/factor.h"

struct pairs {
    const struct num_backend *be;
    const struct factor_plan *plan;
    double learning_rate;
    const struct factors *tests, *train;
    struct product_scratch *scratch;
    void *out;
};

/* c = alpha a b^T + beta c, over rows of `len` numbers. */
static void gram(const struct pairs *p, size_t len, double alpha, const void *a, const void *b,
                 double beta, void *c)
{
    p->be->gemm(p->be, &(struct num_gemm){
                           .dtype = p->plan->dtype,
                           .trans_b = true,
                           .m = p->tests->n,
                           .n = p->train->n,
                           .k = len,
                           .lda = len,
                           .ldb = len,
                           .ldc = p->train->n,
                           .alpha = alpha,
                           .beta = beta,
                           .a = a,
                           .b = b,
                           .c = c,
                       });
}

/* out += learning_rate first second, element by element */
static void add_product(const struct pairs *p)
{
    p->be->multiply(p->be, &(struct num_multiply){
                               .dtype = p->plan->dtype,
                               .n = p->tests->n * p->train->n,
                               .alpha = p->learning_rate,
                               .beta = 1,
                               .a = p->scratch->first,
                               .b = p->scratch->second,
                               .y = p->out,
                           });
}

/*
 * (a . a') (du . du'), where training triples that share a row of features share its product too.
 */
static void fc_weight(const struct pairs *p)
{
    const struct factors *train = p->train;
    size_t dim = conve_dim(&p->plan->shape), n_features = conve_n_features(&p->plan->shape);
    bool is_shared = train->n_features < train->n;
    struct pairs rows = *p;
    struct factors shared = *train;
    shared.n = train->n_features;
    rows.train = &shared;
    void *grams = is_shared ? p->scratch->second : p->scratch->first;
    gram(&rows, n_features, 1, p->tests->features, train->features, 0, grams);
    for (size_t i = 0; is_shared && i < p->tests->n; i++)
        p->be->rows(p->be, &(struct num_rows){
                               .dtype = p->plan->dtype,
                               .n = train->n,
                               .pieces = 1,
                               .len = 1,
                               .from = num_at(p->plan->dtype, grams, i * train->n_features),
                               .from_stride = 1,
                               .from_ids = train->features_row,
                               .ids_stride = 1,
                               .to = num_at(p->plan->dtype, p->scratch->first, i * train->n),
                               .to_stride = 1,
                           });
    gram(p, dim, 1, p->tests->du, train->du, 0, p->scratch->second);
    add_product(p);
}

static bool have_common(const struct pairs *p, const uint32_t *test_ids, const uint32_t *train_ids)
{
    for (size_t i = 0; i < p->tests->n; i++)
        for (size_t j = 0; j < p->train->n; j++)
            if (test_ids[i * TRIPLE_IDS] == train_ids[j * TRIPLE_IDS])
                return true;
    return false;
}

/* out += learning_rate a . b' where rows are the same. */
static void gram_where(const struct pairs *p, size_t len, const uint32_t *test_ids, const void *a,
                       const uint32_t *train_ids, const void *b)
{
    if (!have_common(p, test_ids, train_ids))
        return;
    gram(p, len, 1, a, b, 0, p->scratch->first);
    p->be->add_where(p->be, &(struct num_add_where){
                                .dtype = p->plan->dtype,
                                .m = p->tests->n,
                                .n = p->train->n,
                                .alpha = p->learning_rate,
                                .a = p->scratch->first,
                                .row_ids = test_ids,
                                .col_ids = train_ids,
                                .ids_stride = TRIPLE_IDS,
                                .y = p->out,
                            });
}

static void entities_of_tails(const struct pairs *p)
{
    const struct factors *tests = p->tests, *train = p->train;
    const uint32_t *test_tail = &tests->triples->tail, *train_tail = &train->triples->tail;
    size_t dim = conve_dim(&p->plan->shape);
    if (p->plan->has_entity) {
        gram_where(p, dim, test_tail, tests->tail, train_tail, train->tail);
        gram_where(p, dim, &tests->triples->head, tests->head, train_tail, train->tail);
        gram_where(p, dim, test_tail, tests->tail, &train->triples->head, train->head);
    }
    if (p->plan->has_bias)
        gram_where(p, 1, test_tail, tests->slope, train_tail, train->slope);
}

/* out += learning_rate a . b' slope, the slope being that of one's head in the other's loss. */
static void heads_meet_all(const struct pairs *p)
{
    const struct factors *tests = p->tests, *train = p->train;
    enum num_dtype dtype = p->plan->dtype;
    size_t dim = conve_dim(&p->plan->shape), n_entities = p->plan->shape.n_entities;
    struct num_rows op = {.dtype = dtype,
                          .n = train->n,
                          .pieces = 1,
                          .len = 1,
                          .ids_stride = TRIPLE_IDS,
                          .to_stride = 1};
    gram(p, dim, 1, tests->head, train->x, 0, p->scratch->first);
    op.from_stride = n_entities;
    for (size_t i = 0; i < tests->n; i++) {
        op.from = num_at(dtype, train->slopes, tests->triples[i].head);
        op.to = num_at(dtype, p->scratch->second, i * train->n);
        p->be->rows(p->be, &op);
    }
    add_product(p);
    gram(p, dim, 1, tests->x, train->head, 0, p->scratch->first);
    op.from_stride = 1;
    op.from_ids = &train->triples->head;
    for (size_t i = 0; i < tests->n; i++) {
        op.from = num_at(dtype, tests->slopes, i * n_entities);
        op.to = num_at(dtype, p->scratch->second, i * train->n);
        p->be->rows(p->be, &op);
    }
    add_product(p);
}

static void entities_of_all(const struct pairs *p)
{
    const struct factors *tests = p->tests, *train = p->train;
    size_t dim = conve_dim(&p->plan->shape), n_entities = p->plan->shape.n_entities;
    if (p->plan->has_entity) {
        gram(p, n_entities, 1, tests->slopes, train->slopes, 0, p->scratch->first);
        gram(p, dim, 1, tests->x, train->x, 0, p->scratch->second);
        add_product(p);
        heads_meet_all(p);
    }
    if (p->plan->has_bias)
        gram(p, n_entities, p->learning_rate, tests->slopes, train->slopes, 1, p->out);
}

void factors_product(const struct num_backend *be, const struct factor_plan *plan,
                     double learning_rate, const struct factors *tests, const struct factors *train,
                     struct product_scratch *scratch, void *out)
{
    struct pairs p = {be, plan, learning_rate, tests, train, scratch, out};
    size_t dim = conve_dim(&plan->shape);
    if (plan->has_fc_weight)
        fc_weight(&p);
    if (plan->n_small)
        gram(&p, plan->n_small, learning_rate, tests->small, train->small, 1, out);
    if (plan->has_relation)
        gram_where(&p, dim, &tests->triples->relation, tests->relation, &train->triples->relation,
                   train->relation);
    if (plan->has_entity)
        gram_where(&p, dim, &tests->triples->head, tests->head, &train->triples->head, train->head);
    if (plan->is_all)
        entities_of_all(&p);
    else
        entities_of_tails(&p);
}

/* ---- with itself ---- */

struct selves {
    const struct num_backend *be;
    const struct factor_plan *plan;
    double learning_rate;
    const struct factors *factors;
    void *first, *second;
    double *out;
};

/* at[i] = a_i . b_i; rows: where a_i and b_i are, or NULL. */
static void self_dots(const struct selves *s, size_t len, const void *a, const void *b,
                      const uint32_t *rows, void *at)
{
    memset(at, 0, s->factors->n * num_bytes(s->plan->dtype));
    s->be->dots(s->be, &(struct num_dots){
                           .dtype = s->plan->dtype,
                           .n = s->factors->n,
                           .len = len,
                           .a = a,
                           .b = b,
                           .a_stride = len,
                           .b_stride = len,
                           .a_ids = rows,
                           .b_ids = rows,
                           .ids_stride = 1,
                           .out = at,
                       });
}

static double self_get(const struct selves *s, const void *at, size_t i)
{
    return s->plan->dtype == NUM_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static void self_add(const struct selves *s, size_t len, const void *a)
{
    self_dots(s, len, a, a, NULL, s->first);
    for (size_t i = 0; i < s->factors->n; i++)
        s->out[i] += s->learning_rate * self_get(s, s->first, i);
}

static void self_add_product(const struct selves *s, size_t a_len, const void *a, size_t b_len,
                             const void *b, const uint32_t *b_rows)
{
    self_dots(s, a_len, a, a, NULL, s->first);
    self_dots(s, b_len, b, b, b_rows, s->second);
    for (size_t i = 0; i < s->factors->n; i++)
        s->out[i] += s->learning_rate * self_get(s, s->first, i) * self_get(s, s->second, i);
}

/* Where the gradient of the head's row meets what the loss does to that row as a tail. */
static void self_add_meeting(const struct selves *s)
{
    const struct factors *f = s->factors;
    size_t n_entities = s->plan->shape.n_entities;
    self_dots(s, conve_dim(&s->plan->shape), f->head, s->plan->is_all ? f->x : f->tail, NULL,
              s->first);
    for (size_t i = 0; i < f->n; i++) {
        double weight = f->triples[i].head == f->triples[i].tail ? 1 : 0;
        if (s->plan->is_all)
            weight = self_get(s, f->slopes, i * n_entities + f->triples[i].head);
        s->out[i] += s->learning_rate * 2 * weight * self_get(s, s->first, i);
    }
}

void factors_self(const struct num_backend *be, const struct factor_plan *plan,
                  double learning_rate, const struct factors *factors, void *scratch, double *out)
{
    struct selves s = {be, plan, learning_rate, factors, scratch, NULL, out};
    size_t dim = conve_dim(&plan->shape), n_entities = plan->shape.n_entities;
    s.second = num_at(plan->dtype, scratch, factors->n);
    if (plan->has_fc_weight)
        self_add_product(&s, dim, factors->du, conve_n_features(&plan->shape), factors->features,
                         factors->features_row);
    if (plan->n_small)
        self_add(&s, plan->n_small, factors->small);
    if (plan->has_relation)
        self_add(&s, dim, factors->relation);
    if (plan->has_entity) {
        self_add(&s, dim, factors->head);
        if (plan->is_all)
            self_add_product(&s, n_entities, factors->slopes, dim, factors->x, NULL);
        else
            self_add(&s, dim, factors->tail);
        self_add_meeting(&s);
    }
    if (plan->has_bias && plan->is_all)
        self_add(&s, n_entities, factors->slopes);
    else if (plan->has_bias)
        self_add(&s, 1, factors->slope);
}
