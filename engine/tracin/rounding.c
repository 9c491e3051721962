/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/rounding.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "tracin/topk.h"

enum {
    TESTS_MAX = 16,
    TRAIN_MAX = 2048,
    STRONGEST = 10
};

static const double near_zero = 1e-2;

struct sample {
    size_t n_tests, n_train;
    struct triple *train;
    struct tracin_test *tests;
    double *full, *rounded;          /* tests x train */
    double *self_tests, *self_train; /* squares of the gradients' lengths */
    double *taken;                   /* where the sinks store values */
};

/* Takes tests and training triples at even distances. The filters of tests are left out. */
static void sample_init(struct sample *sample, const struct triple *train, size_t n_train,
                        const struct tracin_test *tests, size_t n_tests)
{
    size_t m = MIN(n_tests, (size_t)TESTS_MAX), n = MIN(n_train, (size_t)TRAIN_MAX);
    *sample = (struct sample){.n_tests = m, .n_train = n};
    sample->train = xcalloc(n, sizeof(*sample->train));
    sample->tests = xcalloc(m, sizeof(*sample->tests));
    for (size_t i = 0; i < n; i++)
        sample->train[i] = train[i * n_train / n];
    for (size_t i = 0; i < m; i++)
        sample->tests[i].triple = tests[i * n_tests / m].triple;
    sample->full = xcalloc(m * n, sizeof(double));
    sample->rounded = xcalloc(m * n, sizeof(double));
    sample->self_tests = xcalloc(m, sizeof(double));
    sample->self_train = xcalloc(n, sizeof(double));
}

static void sample_release(struct sample *sample)
{
    void *arrays[] = {sample->train,   sample->tests,      sample->full,
                      sample->rounded, sample->self_tests, sample->self_train};
    for (size_t i = 0; i < countof(arrays); i++)
        free(arrays[i]);
}

static int row_take(void *context, size_t test, size_t begin, const double *values, size_t n,
                    struct err *err)
{
    struct sample *sample = context;
    (void)err;
    memcpy(sample->taken + test * sample->n_train + begin, values, n * sizeof(*values));
    return 0;
}

static int self_take(void *context, size_t begin, const double *values, size_t n, struct err *err)
{
    struct sample *sample = context;
    (void)err;
    memcpy(sample->taken + begin, values, n * sizeof(*values));
    return 0;
}

static int sample_compute(struct sample *sample, const struct tracin_checkpoint *checkpoints,
                          size_t n_checkpoints, const struct tracin_opts *asked, struct err *err)
{
    struct tracin_opts opts = *asked;
    const struct tracin_sink sink = {.context = sample, .row = row_take};
    struct triple tests[TESTS_MAX];
    int rc = 0;
    opts.top_k = 0;
    for (unsigned i = 0; rc == 0 && i < 2; i++) {
        opts.format = i == 0 ? asked->format : NUM_FULL;
        sample->taken = i == 0 ? sample->rounded : sample->full;
        rc = tracin_run(checkpoints, n_checkpoints, &opts, sample->train, sample->n_train,
                        sample->tests, sample->n_tests, &sink, err);
    }
    for (size_t i = 0; i < sample->n_tests; i++)
        tests[i] = sample->tests[i].triple;
    opts.dtype = NUM_F64; /* float32 may not hold the square of a length */
    sample->taken = sample->self_tests;
    if (rc == 0)
        rc = tracin_self(checkpoints, n_checkpoints, &opts, tests, sample->n_tests, self_take,
                         sample, err);
    sample->taken = sample->self_train;
    if (rc == 0)
        rc = tracin_self(checkpoints, n_checkpoints, &opts, sample->train, sample->n_train,
                         self_take, sample, err);
    return rc;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void errors_take(const struct sample *sample, struct rounding_error *out)
{
    size_t n_pairs = sample->n_tests * sample->n_train;
    double *errors = xcalloc(n_pairs, sizeof(*errors));
    for (size_t i = 0; i < n_pairs; i++) {
        double lengths =
            sqrt(sample->self_tests[i / sample->n_train] * sample->self_train[i % sample->n_train]);
        double difference = fabs(sample->rounded[i] - sample->full[i]);
        if (difference > 0)
            errors[i] = difference /
                        fmax(fmax(fabs(sample->full[i]), near_zero * lengths), (double)FLT_MIN);
    }
    qsort(errors, n_pairs, sizeof(*errors), by_size);
    out->max_relative = errors[n_pairs - 1];
    out->median_relative = errors[n_pairs / 2];
    free(errors);
}

static void strongest_of(const double *values, size_t n, enum tracin_order order, struct topk *top)
{
    topk_init(top, MIN(n, (size_t)STRONGEST), order);
    for (size_t i = 0; i < n; i++)
        topk_add(top, (uint32_t)i, values[i]);
}

static void strongest_compare(const struct sample *sample, enum tracin_order order,
                              struct rounding_error *out)
{
    for (size_t test = 0; test < sample->n_tests; test++) {
        struct topk full, rounded;
        strongest_of(sample->full + test * sample->n_train, sample->n_train, order, &full);
        strongest_of(sample->rounded + test * sample->n_train, sample->n_train, order, &rounded);
        out->n_strongest += full.n;
        for (size_t i = 0; i < full.n; i++)
            for (size_t j = 0; j < rounded.n; j++)
                out->n_kept += full.at[i].train_index == rounded.at[j].train_index;
        topk_release(&full);
        topk_release(&rounded);
    }
}

/* NOLINTNEXTLINE(readability-function-size): what a run is made of, each by its name */
int rounding_measure(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                     const struct tracin_opts *opts, const struct triple *train, size_t n_train,
                     const struct tracin_test *tests, size_t n_tests, struct rounding_error *out,
                     struct err *err)
{
    struct sample sample;
    *out = (struct rounding_error){0};
    if (n_train == 0 || n_tests == 0)
        return fail(err, ERR_USAGE, "there is no pair to compare");
    sample_init(&sample, train, n_train, tests, n_tests);
    int rc = sample_compute(&sample, checkpoints, n_checkpoints, opts, err);
    if (rc == 0) {
        out->n_tests = sample.n_tests;
        out->n_train = sample.n_train;
        errors_take(&sample, out);
        strongest_compare(&sample, opts->order, out);
    }
    sample_release(&sample);
    return rc;
}
