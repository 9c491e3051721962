/* SPDX-License-Identifier: Apache-2.0
 *
 * Inner products of gradients, from their factors (factor.h).
 */
#include <stdlib.h>

#include "base/attr.h"
#include "base/xalloc.h"
#include "tracin/factor.h"

struct pairs {
    const struct num_backend *be;
    const struct factor_plan *plan;
    double learning_rate;
    const struct factors *tests, *train;
    struct product_scratch *scratch;
    void *out;
};

/* Returns the product c = alpha a b^T + beta c, over rows of `len` numbers. */
static struct num_gemm gram_of(const struct pairs *p, size_t len, const void *a, const void *b,
                               void *c)
{
    return (struct num_gemm){
        .dtype = p->plan->dtype,
        .trans_b = true,
        .m = p->tests->n,
        .n = p->train->n,
        .k = len,
        .lda = len,
        .ldb = len,
        .ldc = p->train->n,
        .alpha = 1,
        .a = a,
        .b = b,
        .c = c,
    };
}

static void gram(const struct pairs *p, size_t len, double alpha, const void *a, const void *b,
                 double beta, void *c)
{
    struct num_gemm op = gram_of(p, len, a, b, c);
    op.alpha = alpha;
    op.beta = beta;
    p->be->gemm(p->be, &op);
}

/* Multiplies rows that factors_round() has rounded. */
static void gram_rounded(const struct pairs *p, size_t len, const void *a, const void *b, void *c)
{
    struct num_gemm op = gram_of(p, len, a, b, c);
    op.format = p->plan->format;
    p->be->gemm(p->be, &op);
}

/* Adds out += learning_rate first second, element by element. */
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

/* Sets to[i][j] = from[i][ids[j ids_stride]], for all tests i and training triples j. */
static void columns_gather(const struct pairs *p, const void *from, size_t from_width,
                           const uint32_t *ids, size_t ids_stride, void *to)
{
    p->be->rows(p->be, &(struct num_rows){
                           .dtype = p->plan->dtype,
                           .n = p->train->n,
                           .pieces = p->tests->n,
                           .len = 1,
                           .from = from,
                           .from_stride = 1,
                           .from_pitch = from_width,
                           .from_ids = ids,
                           .ids_stride = ids_stride,
                           .to = to,
                           .to_stride = 1,
                           .to_pitch = p->train->n,
                       });
}

/*
 * Computes (a . a') (du . du'). Training triples that share a row of features share its product,
 * too.
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
    gram_rounded(&rows, n_features, p->tests->features, train->features, grams);
    if (is_shared)
        columns_gather(p, grams, train->n_features, train->features_row, 1, p->scratch->first);
    gram_rounded(p, dim, p->tests->du, train->du, p->scratch->second);
    add_product(p);
}

/* Entities or relations of triples. */
enum role {
    ROLE_HEAD,
    ROLE_RELATION,
    ROLE_TAIL
};

static uint32_t id_of(const struct triple *triple, enum role role)
{
    return role == ROLE_HEAD ? triple->head : role == ROLE_TAIL ? triple->tail : triple->relation;
}

static const uint32_t *ids_of(const struct factors *factors, enum role role)
{
    return (const uint32_t *)factors->ids + role;
}

/* Counts the pairs of a test and a training triple that have the same id in these roles. */
static size_t pairs_in_common(const struct pairs *p, enum role test_role, enum role train_role)
{
    const struct conve_shape *shape = &p->plan->shape;
    size_t n_pairs = 0, n_ids = MAX(shape->n_entities, shape->n_relations);
    uint32_t *n_named = xcalloc(n_ids, sizeof(*n_named));
    for (size_t i = 0; i < p->tests->n; i++)
        n_named[id_of(&p->tests->triples[i], test_role)]++;
    for (size_t j = 0; j < p->train->n; j++)
        n_pairs += n_named[id_of(&p->train->triples[j], train_role)];
    free(n_named);
    return n_pairs;
}

/*
 * Adds out += learning_rate a . b' where both triples have the same id in these roles. A device
 * computes few such pairs one by one; a processor always has the bits of the whole product.
 */
static void gram_where(const struct pairs *p, size_t len, enum role test_role, const void *a,
                       enum role train_role, const void *b)
{
    enum {
        FEW = 256 /* pairs are few if they are at most one in so many */
    };
    size_t n_pairs = pairs_in_common(p, test_role, train_role);
    struct num_add_where op = {
        .dtype = p->plan->dtype,
        .m = p->tests->n,
        .n = p->train->n,
        .len = len,
        .alpha = p->learning_rate,
        .a = a,
        .b = b,
        .row_ids = ids_of(p->tests, test_role),
        .col_ids = ids_of(p->train, train_role),
        .ids_stride = TRIPLE_IDS,
        .y = p->out,
    };
    if (n_pairs == 0)
        return;
    if (!p->be->is_device || n_pairs > op.m * op.n / FEW) {
        gram(p, len, 1, a, b, 0, p->scratch->first);
        op.a = p->scratch->first;
        op.b = NULL;
    }
    p->be->add_where(p->be, &op);
}

static void entities_of_tails(const struct pairs *p)
{
    const struct factors *tests = p->tests, *train = p->train;
    size_t dim = conve_dim(&p->plan->shape);
    if (p->plan->has_entity) {
        gram_where(p, dim, ROLE_TAIL, tests->tail, ROLE_TAIL, train->tail);
        gram_where(p, dim, ROLE_HEAD, tests->head, ROLE_TAIL, train->tail);
        gram_where(p, dim, ROLE_TAIL, tests->tail, ROLE_HEAD, train->head);
    }
    if (p->plan->has_bias)
        gram_where(p, 1, ROLE_TAIL, tests->slope, ROLE_TAIL, train->slope);
}

/* Adds out += learning_rate (s'_h (g_h . x') + s_h' (x . g_h')), as in factor.h. */
static void heads_meet_all(const struct pairs *p)
{
    const struct factors *tests = p->tests, *train = p->train;
    size_t dim = conve_dim(&p->plan->shape), n_entities = p->plan->shape.n_entities;
    gram(p, dim, 1, tests->head, train->x, 0, p->scratch->first);
    p->be->rows(p->be, &(struct num_rows){
                           .dtype = p->plan->dtype,
                           .n = tests->n,
                           .pieces = train->n,
                           .len = 1,
                           .from = train->slopes,
                           .from_stride = 1,
                           .from_pitch = n_entities,
                           .from_ids = ids_of(tests, ROLE_HEAD),
                           .ids_stride = TRIPLE_IDS,
                           .to = p->scratch->second,
                           .to_stride = train->n,
                           .to_pitch = 1,
                       });
    add_product(p);
    gram(p, dim, 1, tests->x, train->head, 0, p->scratch->first);
    columns_gather(p, tests->slopes, n_entities, ids_of(train, ROLE_HEAD), TRIPLE_IDS,
                   p->scratch->second);
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
        gram_where(&p, dim, ROLE_RELATION, tests->relation, ROLE_RELATION, train->relation);
    if (plan->has_entity)
        gram_where(&p, dim, ROLE_HEAD, tests->head, ROLE_HEAD, train->head);
    if (plan->is_all)
        entities_of_all(&p);
    else
        entities_of_tails(&p);
}

/* ---- influence of a triple on itself ---- */

struct selves {
    const struct num_backend *be;
    const struct factor_plan *plan;
    double learning_rate;
    struct factors *factors;
    struct self_scratch *scratch;
    double *out;
    int rc; /* the error of the first download that failed */
    struct err *err;
};

static void self_read(struct selves *s, void *to)
{
    size_t bytes = s->factors->n * num_bytes(s->plan->dtype);
    if (s->rc == 0)
        s->rc = s->be->download(s->be, to, s->scratch->numbers, bytes, s->err);
}

/* Sets at[i] = a_i . b_i. These are rows rows[i] of a and b, or rows i if `rows` is NULL. */
static void self_dots(struct selves *s, size_t len, const void *a, const void *b,
                      const uint32_t *rows, void *at)
{
    s->be->fill_zero(s->be, s->scratch->numbers, s->factors->n * num_bytes(s->plan->dtype));
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
                           .out = s->scratch->numbers,
                       });
    self_read(s, at);
}

static double self_get(const struct selves *s, const void *at, size_t i)
{
    return s->plan->dtype == NUM_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static void self_add(struct selves *s, size_t len, const void *a)
{
    self_dots(s, len, a, a, NULL, s->scratch->first);
    for (size_t i = 0; i < s->factors->n; i++)
        s->out[i] += s->learning_rate * self_get(s, s->scratch->first, i);
}

static void self_add_product(struct selves *s, size_t a_len, const void *a, size_t b_len,
                             const void *b, const uint32_t *b_rows)
{
    self_dots(s, a_len, a, a, NULL, s->scratch->first);
    self_dots(s, b_len, b, b, b_rows, s->scratch->second);
    for (size_t i = 0; i < s->factors->n; i++)
        s->out[i] += s->learning_rate * self_get(s, s->scratch->first, i) *
                     self_get(s, s->scratch->second, i);
}

/* Sets weights[i] to the slope of triple i's own head as a tail. */
static void self_slopes(struct selves *s)
{
    struct factors *f = s->factors;
    factors_places(s->be, s->plan, f, END_HEAD, 0, f->n);
    s->be->rows(s->be, &(struct num_rows){
                           .dtype = s->plan->dtype,
                           .n = f->n,
                           .pieces = 1,
                           .len = 1,
                           .from = f->slopes,
                           .from_stride = 1,
                           .from_ids = f->place,
                           .ids_stride = 1,
                           .to = s->scratch->numbers,
                           .to_stride = 1,
                       });
    self_read(s, s->scratch->weights);
}

/*
 * Adds twice the product of the gradient at the head's row with the gradient that the head gets as
 * a tail.
 */
static void self_add_meeting(struct selves *s)
{
    const struct factors *f = s->factors;
    self_dots(s, conve_dim(&s->plan->shape), f->head, s->plan->is_all ? f->x : f->tail, NULL,
              s->scratch->first);
    if (s->plan->is_all)
        self_slopes(s);
    for (size_t i = 0; i < f->n; i++) {
        double weight = f->triples[i].head == f->triples[i].tail ? 1 : 0;
        if (s->plan->is_all)
            weight = self_get(s, s->scratch->weights, i);
        s->out[i] += s->learning_rate * 2 * weight * self_get(s, s->scratch->first, i);
    }
}

int factors_self(const struct num_backend *be, const struct factor_plan *plan, double learning_rate,
                 struct factors *factors, struct self_scratch *scratch, double *out,
                 struct err *err)
{
    struct selves s = {be, plan, learning_rate, factors, scratch, out, 0, err};
    size_t dim = conve_dim(&plan->shape), n_entities = plan->shape.n_entities;
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
    return s.rc;
}
