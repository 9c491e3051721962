/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the factorised influences with inner products of whole gradients: those of every single
 * parameter, by the model's own backward pass and plain loops in float64. Nothing of factor.c or
 * product.c is used for these.
 */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/xalloc.h"
#include "conve/pass.h"
#include "tracin/plan.h"

enum {
    PROBES = 1000 /* to find a training triple that shares a row with a test triple */
};

/*
 * Gradients are nearly orthogonal at times. If an influence is below this share of the product of
 * the gradients' lengths, the error is measured by that share.
 */
static const double near_zero = 1e-2;

struct explicit
{
    struct num_backend be; /* the backend ref */
    const struct tracin_opts *opts;
};

static void gradient_of(struct explicit *explicit, struct conve_pass *pass,
                        const struct triple *triple, struct conve_gradients *gradients)
{
    const struct conve_shape *shape = &pass->weights->shape;
    bool is_all = explicit->opts->loss == TRACIN_ONE_VS_ALL;
    size_t n = is_all ? shape->n_entities : 1;
    double *slopes = xcalloc(n, sizeof(*slopes)), smoothing = explicit->opts->label_smoothing;
    conve_gradients_init(gradients, shape, NUM_F64);
    conve_forward(pass, triple, 1);
    conve_scores(pass, is_all, slopes);
    for (size_t i = 0; i < n; i++) {
        double label = !is_all ? 1 : smoothing / (double)n;
        if (is_all && i == triple->tail)
            label += 1 - smoothing;
        slopes[i] = (1 / (1 + exp(-slopes[i])) - label) / (double)n;
    }
    conve_backward(pass, is_all, slopes, gradients);
    free(slopes);
}

static double gradients_dot(const struct explicit *explicit, const struct conve_shape *shape,
                            const struct conve_gradients *a, const struct conve_gradients *b)
{
    conve_params wanted = explicit->opts->params ? explicit->opts->params : conve_params_all(shape);
    double sum = 0;
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
        const double *left = a->at[param], *right = b->at[param];
        size_t n = conve_param_dims(shape, (enum conve_param)param).n_elements;
        for (size_t i = 0; wanted & 1u << param && i < n; i++)
            sum += left[i] * right[i];
    }
    return sum;
}

struct expected {
    /* Both are times the learning rate. lengths: the product of both gradients' lengths. */
    double value, lengths;
};

static struct expected expected_of(struct explicit *explicit,
                                   const struct tracin_checkpoint *checkpoint,
                                   const struct triple *test, const struct triple *train)
{
    struct conve_weights weights;
    struct conve_pass pass;
    struct conve_gradients of_test, of_train;
    const struct conve_shape *shape = &checkpoint->model->shape;
    conve_weights_init(&weights, checkpoint->model, NUM_F64);
    conve_pass_init(&pass, &explicit->be, &weights, 1);
    gradient_of(explicit, &pass, test, &of_test);
    gradient_of(explicit, &pass, train, &of_train);
    double dot = gradients_dot(explicit, shape, &of_test, &of_train);
    double lengths = gradients_dot(explicit, shape, &of_test, &of_test) *
                     gradients_dot(explicit, shape, &of_train, &of_train);
    conve_gradients_release(&of_test);
    conve_gradients_release(&of_train);
    conve_pass_release(&pass);
    conve_weights_release(&weights);
    return (struct expected){checkpoint->learning_rate * dot,
                             checkpoint->learning_rate * sqrt(lengths)};
}

/* ---- pairs ---- */

struct checked {
    const struct triple *train, *tests;
    uint32_t *train_index, *test_index; /* by pair */
    double *found;
};

static bool share_a_row(struct triple a, struct triple b)
{
    return a.head == b.head || a.tail == b.tail || a.head == b.tail || a.tail == b.head;
}

/*
 * Every other pair shares an entity, if PROBES draws find such a pair: without a shared entity most
 * terms are zero.
 */
static void pairs_draw(struct checked *checked, size_t n_pairs, uint64_t seed, size_t n_train,
                       size_t n_tests)
{
    struct rng rng = {.state = seed};
    for (size_t i = 0; i < n_pairs; i++) {
        checked->test_index[i] = (uint32_t)rng_below(&rng, n_tests);
        for (size_t probe = 0; probe < (i % 2 ? PROBES : 1); probe++) {
            checked->train_index[i] = (uint32_t)rng_below(&rng, n_train);
            if (share_a_row(checked->tests[checked->test_index[i]],
                            checked->train[checked->train_index[i]]))
                break;
        }
    }
}

static int found_take(void *context, size_t test, double self_influence,
                      const struct tracin_influence *at, size_t n, struct err *err)
{
    struct checked *checked = context;
    (void)self_influence;
    (void)err;
    ASSERT(n == 1 && at->train_index == checked->train_index[test]);
    checked->found[test] = at->value;
    return 0;
}

/*
 * Runs each pair as a test triple with a filter that leaves one training triple, so that the check
 * covers the code that users run.
 */
static int found_compute(struct checked *checked, size_t n_pairs,
                         const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                         const struct tracin_opts *opts, size_t n_train, struct err *err)
{
    struct tracin_opts one = *opts;
    struct tracin_test *tests = xcalloc(n_pairs, sizeof(*tests));
    struct tracin_sink sink = {.context = checked, .top = found_take};
    one.top_k = 1;
    for (size_t i = 0; i < n_pairs; i++)
        tests[i] = (struct tracin_test){checked->tests[checked->test_index[i]],
                                        &checked->train_index[i], 1};
    int rc = tracin_run(checkpoints, n_checkpoints, &one, checked->train, n_train, tests, n_pairs,
                        &sink, err);
    free(tests);
    return rc;
}

static void pair_compare(struct explicit *explicit, const struct checked *checked, size_t pair,
                         const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                         struct tracin_check *out)
{
    const struct triple *test = &checked->tests[checked->test_index[pair]];
    const struct triple *train = &checked->train[checked->train_index[pair]];
    struct expected expected = {0};
    for (size_t c = 0; c < n_checkpoints; c++) {
        struct expected one = expected_of(explicit, &checkpoints[c], test, train);
        expected.value += one.value;
        expected.lengths += one.lengths;
    }
    double difference = fabs(checked->found[pair] - expected.value);
    double relative =
        difference == 0 ? 0 : difference / fmax(fabs(expected.value), near_zero * expected.lengths);
    if (out->n_pairs == 0 || relative > out->max_relative) {
        out->max_relative = relative;
        out->found = checked->found[pair];
        out->expected = expected.value;
        out->test = *test;
        out->train = *train;
    }
    out->n_pairs++;
}

/* NOLINTNEXTLINE(readability-function-size): what a run is made of, each by its name */
int tracin_check_run(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                     const struct tracin_opts *opts, const struct tracin_check_opts *check_opts,
                     const struct triple *train, size_t n_train, const struct triple *tests,
                     size_t n_tests, struct tracin_check *out, struct err *err)
{
    size_t n_pairs = check_opts->n_pairs;
    struct explicit explicit = {.opts = opts};
    *out = (struct tracin_check){0};
    if (n_pairs == 0 || n_train == 0 || n_tests == 0)
        return fail(err, ERR_USAGE, "there is no pair to check");
    int rc = num_open(&explicit.be, "ref", err);
    if (rc != 0)
        return rc;
    struct checked checked = {.train = train, .tests = tests};
    checked.train_index = xcalloc(n_pairs, sizeof(uint32_t));
    checked.test_index = xcalloc(n_pairs, sizeof(uint32_t));
    checked.found = xcalloc(n_pairs, sizeof(double));
    pairs_draw(&checked, n_pairs, check_opts->seed, n_train, n_tests);
    rc = found_compute(&checked, n_pairs, checkpoints, n_checkpoints, opts, n_train, err);
    for (size_t i = 0; rc == 0 && i < n_pairs; i++)
        pair_compare(&explicit, &checked, i, checkpoints, n_checkpoints, out);
    free(checked.train_index);
    free(checked.test_index);
    free(checked.found);
    num_close(&explicit.be);
    return rc;
}
