/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel steps against gradients that are computed plainly, on one process, from the samples of
 * all ranks: buckets, uneven batches, accumulation, unused parameters, 16 bits on the way, overlap, what
 * must not be (NaN, models and replicas that differ), and shards, whose sums are the same bits in any
 * world.
 */
#include "lib/ranks.h"

#include <math.h>
#include <sys/mman.h>
#include <time.h>

#include "base/attr.h"
#include "base/rng.h"
#include "muster/ddp.h"

enum {
    N_PARAMS = 7,
    VALUES_MAX = 3000
};
static const size_t counts[N_PARAMS] = {1, 3000, 17, 64, 1000, 2, 5};

/* The gradient of one sample: a whole number, so that sums are exact in every order. */
static float sample_gradient(uint64_t sample, size_t param, size_t i)
{
    return (float)(int)(mix64(sample * 1009 + param * 31 + i) % 2001) - 1000;
}

struct model {
    struct muster_param params[N_PARAMS];
    float values[N_PARAMS][VALUES_MAX], gradients[N_PARAMS][VALUES_MAX];
    char names[N_PARAMS][16];
};

static struct model *model_new(bool has_gradients)
{
    struct model *model = calloc(1, sizeof(*model));
    for (size_t p = 0; p < N_PARAMS; p++) {
        snprintf(model->names[p], sizeof(model->names[p]), "layer%zu", p);
        model->params[p] =
            (struct muster_param){model->names[p], MUSTER_FLOAT32, counts[p], model->values[p],
                                  has_gradients ? model->gradients[p] : NULL};
    }
    return model;
}

/* The mean, or the sum, over samples [first, first + n), added to the gradient. */
static void gradient_add(struct muster_ddp *ddp, size_t param, uint64_t first, uint64_t n,
                         double divisor)
{
    float *gradient = muster_ddp_gradient(ddp, param);
    for (size_t i = 0; i < counts[param]; i++) {
        double sum = 0;
        for (uint64_t s = first; s < first + n; s++)
            sum += (double)sample_gradient(s, param, i);
        gradient[i] += (float)(sum / divisor);
    }
}

static void gradients_zero(struct muster_ddp *ddp)
{
    for (size_t p = 0; p < N_PARAMS; p++)
        memset(muster_ddp_gradient(ddp, p), 0, counts[p] * sizeof(float));
}

static int gradients_compare(struct muster_ddp *ddp, uint64_t n_samples, double tolerance,
                             const char *what)
{
    for (size_t p = 0; p < N_PARAMS; p++) {
        const float *gradient = muster_ddp_gradient(ddp, p);
        for (size_t i = 0; i < counts[p]; i++) {
            double sum = 0;
            for (uint64_t s = 0; s < n_samples; s++)
                sum += (double)sample_gradient(s, p, i);
            double expected = sum / (double)n_samples, got = (double)gradient[i];
            double limit = tolerance * (fabs(expected) > 300 ? fabs(expected) : 300);
            CHECK(fabs(got - expected) <= limit, "%s: layer%zu[%zu] is %g, expected %g", what, p, i,
                  got, expected);
        }
    }
    return 0;
}

/* ---- steps ---- */

struct step_case {
    const char *name;
    struct muster_ddp_opts opts;
    bool has_gradients, is_uneven, skips_some;
    uint64_t n_micro;
    double tolerance;
};

/* Rounding of float32; of means that were rounded to 8 and 11 bits, and whose sums are again. */
static const struct step_case step_cases[] = {
    {"even", {0}, true, false, false, 1, 1e-6},
    {"uneven", {0}, true, true, false, 1, 1e-6},
    {"views", {0}, false, true, false, 1, 1e-6},
    {"sums", {.gradients_are_sums = true}, false, true, false, 1, 1e-6},
    {"small buckets", {.bucket_bytes = 4096}, true, true, true, 1, 1e-6},
    {"small buckets of views", {.bucket_bytes = 256}, false, true, true, 1, 1e-6},
    {"accumulation",
     {.bucket_bytes = 4096, .gradients_are_sums = true},
     true,
     true,
     false,
     3,
     1e-6},
    {"accumulated views", {.bucket_bytes = 4096}, false, false, true, 4, 1e-6},
    {"bfloat16 on the way", {.wire = MUSTER_BFLOAT16}, true, false, false, 1, 0.02},
    {"float16 on the way",
     {.wire = MUSTER_FLOAT16, .bucket_bytes = 999},
     false,
     true,
     true,
     2,
     0.003},
};

/* In an order of its own on each rank; some are left for finish. */
static int backward(struct muster_ddp *ddp, const struct step_case *step, uint32_t rank,
                    uint64_t first, uint64_t n, double divisor)
{
    for (size_t k = 0; k < N_PARAMS; k++) {
        size_t p = N_PARAMS - 1 - k;
        if (step->skips_some)
            p = (p + rank) % N_PARAMS;
        if (n > 0)
            gradient_add(ddp, p, first, n, divisor);
        if (step->skips_some && p == 3)
            continue;
        CHECK(muster_ddp_ready(ddp, p) == 0, "ready");
    }
    return 0;
}

static int step_once(struct muster_ddp *ddp, const struct step_case *step, uint32_t rank,
                     uint32_t size)
{
    /* The last rank of an uneven world has nothing, as at the end of an epoch. */
    bool has_none = step->is_uneven && size > 1 && rank == size - 1;
    uint64_t n = has_none ? 0 : step->is_uneven ? 2 + rank : 4, first = 0, all = 0;
    for (uint32_t r = 0; r < size; r++) {
        bool none = step->is_uneven && size > 1 && r == size - 1;
        uint64_t n_here = none ? 0 : step->is_uneven ? 2 + r : 4;
        first += r < rank ? n_here * step->n_micro : 0;
        all += n_here * step->n_micro;
    }
    double divisor = step->opts.gradients_are_sums ? 1 : (double)(n * step->n_micro);
    gradients_zero(ddp);
    if (has_none) /* what is not looked at */
        ((float *)muster_ddp_gradient(ddp, 1))[5] = NAN;
    for (uint64_t m = 0; m + 1 < step->n_micro; m++) {
        if (backward(ddp, step, rank, first + m * n, n, divisor))
            return 1;
        CHECK(muster_ddp_accumulate(ddp, n) == 0, "accumulate");
    }
    CHECK(muster_ddp_begin(ddp, n) == 0, "begin");
    if (backward(ddp, step, rank, first + (step->n_micro - 1) * n, n, divisor))
        return 1;
    CHECK(muster_ddp_finish(ddp) == 0, "finish");
    return gradients_compare(ddp, all, step->tolerance, step->name);
}

static int steps(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)arg;
    for (size_t c = 0; c < countof(step_cases); c++) {
        const struct step_case *step = &step_cases[c];
        struct model *model = model_new(step->has_gradients);
        struct muster_ddp *ddp = muster_ddp_new(dist, model->params, N_PARAMS, &step->opts);
        CHECK(ddp, "%s: %s", step->name, muster_dist_error(dist));
        for (int i = 0; i < 3; i++)
            CHECK(step_once(ddp, step, rank, size) == 0, "rank %u of %u: %s: %s", rank, size,
                  step->name, muster_dist_error(dist));
        muster_ddp_free(ddp);
        free(model);
    }
    return muster_dist_close(dist);
}

static void test_steps(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4};
    for (size_t i = 0; i < countof(sizes); i++)
        ranks_run(sizes[i], steps, NULL);
}

/* ---- norm and clipping ---- */

static int norms(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    double values[13], norm = 0, all[2] = {0};
    float single[9];
    struct muster_param params[] = {{"a", MUSTER_FLOAT64, 13, NULL, values},
                                    {"b", MUSTER_FLOAT32, 9, NULL, single}};
    struct muster_ddp *ddp = muster_ddp_new(dist, params, 2, NULL);
    (void)arg;
    for (int i = 0; i < 13; i++)
        values[i] = rank + 1;
    for (int i = 0; i < 9; i++)
        single[i] = -2.0f * (float)(rank + 1);
    CHECK(muster_ddp_n_buckets(ddp) == 2, "a bucket for each type");
    CHECK(muster_ddp_begin(ddp, 1) == 0 && muster_ddp_finish(ddp) == 0, "%s",
          muster_dist_error(dist));
    double mean = (size + 1) / 2.0, expected = mean * sqrt(13 + 9 * 4);
    CHECK(muster_ddp_norm(ddp, &norm) == 0 && fabs(norm - expected) < 1e-9, "norm %g", norm);
    CHECK(muster_ddp_clip(ddp, 1000, &norm) == 0 && fabs(values[12] - mean) < 1e-12, "no clip");
    CHECK(muster_ddp_clip(ddp, 0.5, &norm) == 0 && fabs(norm - expected) < 1e-9, "clip %g", norm);
    CHECK(muster_ddp_norm(ddp, &norm) == 0 && fabs(norm - 0.5) < 1e-6, "after the clip: %g", norm);
    CHECK(muster_dist_all_gather(dist, &norm, all, 1, MUSTER_FLOAT64) == 0, "gather");
    CHECK(memcmp(&all[0], &all[size - 1], sizeof(norm)) == 0, "norms differ");
    muster_ddp_free(ddp);
    return muster_dist_close(dist);
}

static void test_norm(void **state)
{
    (void)state;
    ranks_run(1, norms, NULL);
    ranks_run(2, norms, NULL);
}

/* ---- overlap ---- */

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/*
 * While backward is at work elsewhere (here it sleeps, as for a GPU), buckets are on their way: the
 * first is done before the last is ready.
 */
static int overlap(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    struct muster_ddp_bucket first, last;
    struct muster_param params[4];
    (void)rank;
    (void)size;
    (void)arg;
    for (int i = 0; i < 4; i++)
        params[i] = (struct muster_param){"layer", MUSTER_FLOAT32, 1 << 18, NULL, NULL};
    struct muster_ddp *ddp =
        muster_ddp_new(dist, params, 4, &(struct muster_ddp_opts){.bucket_bytes = 1 << 20});
    CHECK(ddp && muster_ddp_n_buckets(ddp) == 4, "%s", muster_dist_error(dist));
    CHECK(muster_ddp_begin(ddp, 1) == 0, "begin");
    for (size_t i = 4; i-- > 0;) {
        CHECK(muster_ddp_ready(ddp, i) == 0, "ready");
        sleep_ms(i > 0 ? 150 : 0);
    }
    CHECK(muster_ddp_finish(ddp) == 0, "finish");
    muster_ddp_bucket(ddp, 0, &first);
    muster_ddp_bucket(ddp, 3, &last);
    CHECK(first.bytes == 1 << 20 && first.n_params == 1, "bytes of a bucket");
    CHECK(first.ready_ns <= first.begin_ns && first.begin_ns <= first.end_ns, "times");
    CHECK(first.end_ns < last.ready_ns, "the first bucket ended %.1f ms after the last was ready",
          (double)(first.end_ns - last.ready_ns) / 1e6);
    muster_ddp_free(ddp);
    return muster_dist_close(dist);
}

static void test_overlap(void **state)
{
    (void)state;
    ranks_run(2, overlap, NULL);
}

/* Of the first parameters, whose gradients come last, few are in a bucket. */
static int last_is_small(uint32_t rank, uint32_t size, const void *arg)
{
    static const size_t expected[][2] = {{2, 8192}, {1, 2048}, {2, 1024}};
    struct muster_dist *dist = muster_dist_open(NULL);
    const struct muster_param params[] = {
        {"a", MUSTER_FLOAT32, 128, NULL, NULL},  {"b", MUSTER_FLOAT32, 128, NULL, NULL},
        {"c", MUSTER_FLOAT32, 512, NULL, NULL},  {"d", MUSTER_FLOAT32, 1024, NULL, NULL},
        {"e", MUSTER_FLOAT32, 1024, NULL, NULL},
    };
    struct muster_ddp *ddp = muster_ddp_new(dist, params, countof(params),
                                            &(struct muster_ddp_opts){.bucket_bytes = 8192});
    (void)rank;
    (void)size;
    (void)arg;
    CHECK(muster_ddp_n_buckets(ddp) == 3, "%zu buckets", muster_ddp_n_buckets(ddp));
    for (size_t b = 0; b < 3; b++) {
        struct muster_ddp_bucket bucket;
        muster_ddp_bucket(ddp, b, &bucket);
        CHECK(bucket.n_params == expected[b][0] && bucket.bytes == expected[b][1],
              "bucket %zu has %zu parameters, %zu bytes", b, bucket.n_params, bucket.bytes);
    }
    muster_ddp_free(ddp);
    return muster_dist_close(dist);
}

static void test_last_bucket(void **state)
{
    (void)state;
    ranks_run(2, last_is_small, NULL);
}

/* ---- what must not be ---- */

struct bad_case {
    const char *said;
    int code;
    int (*run)(struct muster_dist *dist, uint32_t rank);
};

static struct muster_ddp *ddp_of(struct muster_dist *dist, struct model *model,
                                 const struct muster_ddp_opts *opts)
{
    return muster_ddp_new(dist, model->params, N_PARAMS, opts);
}

static int run_nan(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(true);
    struct muster_ddp *ddp = ddp_of(dist, model, NULL);
    if (rank == 1)
        model->gradients[4][12] = model->gradients[4][900] = NAN;
    muster_ddp_begin(ddp, 1);
    int rc = muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    free(model);
    return rc;
}

/* In memory of the library's, of each type. */
static int run_nan_of_type(struct muster_dist *dist, uint32_t rank, enum muster_type type,
                           uint64_t infinity)
{
    const struct muster_param params[] = {{"first", type, 3, NULL, NULL},
                                          {"second", type, 100, NULL, NULL}};
    struct muster_ddp *ddp = muster_ddp_new(dist, params, 2, NULL);
    size_t width = muster_type_bytes(type);
    if (rank == 1)
        memcpy((char *)muster_ddp_gradient(ddp, 1) + 98 * width, &infinity, width);
    muster_ddp_begin(ddp, 1);
    int rc = muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    return rc;
}

static int run_nan_float32(struct muster_dist *dist, uint32_t rank)
{
    return run_nan_of_type(dist, rank, MUSTER_FLOAT32, 0xff800000);
}

static int run_nan_float64(struct muster_dist *dist, uint32_t rank)
{
    return run_nan_of_type(dist, rank, MUSTER_FLOAT64, 0x7ff8000000000000);
}

static int run_nan_bfloat16(struct muster_dist *dist, uint32_t rank)
{
    return run_nan_of_type(dist, rank, MUSTER_BFLOAT16, 0xff80);
}

static int run_nan_float16(struct muster_dist *dist, uint32_t rank)
{
    return run_nan_of_type(dist, rank, MUSTER_FLOAT16, 0x7c01);
}

static int run_overflow(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(false);
    struct muster_ddp *ddp = ddp_of(dist, model, &(struct muster_ddp_opts){.wire = MUSTER_FLOAT16});
    if (rank == 1)
        ((float *)muster_ddp_gradient(ddp, 5))[1] = 1e6f;
    muster_ddp_begin(ddp, 1);
    int rc = muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    free(model);
    return rc;
}

static int run_shard_nan(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(true);
    struct muster_ddp *ddp = ddp_of(dist, model, &(struct muster_ddp_opts){.n_shards = 4});
    uint32_t first, end;
    int rc = 0;
    muster_ddp_shards(ddp, &first, &end);
    for (uint32_t s = first; rc == 0 && s < end; s++) {
        if (rank == 1)
            model->gradients[1][2999] = -INFINITY;
        rc = muster_ddp_shard(ddp, 1);
    }
    rc = rc ? rc : muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    free(model);
    return rc;
}

static int run_other_model(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(true);
    model->params[2].count -= rank == 1;
    struct muster_ddp *ddp = ddp_of(dist, model, NULL);
    free(model);
    return ddp ? 0 : muster_dist_code(dist);
}

static int run_fewer_params(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(true);
    struct muster_ddp *ddp = muster_ddp_new(dist, model->params, N_PARAMS - (rank == 1), NULL);
    free(model);
    return ddp ? 0 : muster_dist_code(dist);
}

static int run_twice(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(true);
    struct muster_ddp *ddp = ddp_of(dist, model, NULL);
    muster_ddp_begin(ddp, 1);
    int rc = muster_ddp_ready(ddp, 2);
    if (rank == 1)
        rc = muster_ddp_ready(ddp, 2);
    rc = rc ? rc : muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    free(model);
    return rc;
}

static int run_no_samples(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(true);
    struct muster_ddp *ddp = ddp_of(dist, model, NULL);
    (void)rank;
    muster_ddp_begin(ddp, 0);
    int rc = muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    free(model);
    return rc;
}

/* What is done between begin and finish (0), before both (1), or behind them. */
static int clip_at(struct muster_dist *dist, int when, double max_norm)
{
    struct model *model = model_new(true);
    struct muster_ddp *ddp = ddp_of(dist, model, NULL);
    int rc = when != 1 ? muster_ddp_begin(ddp, 1) : 0;
    rc = rc || when < 2 ? rc : muster_ddp_finish(ddp);
    rc = rc ? rc : muster_ddp_clip(ddp, max_norm, NULL);
    muster_ddp_free(ddp);
    free(model);
    return rc;
}

static int run_clip_within(struct muster_dist *dist, uint32_t rank)
{
    (void)rank;
    return clip_at(dist, 0, 1);
}

static int run_clip_before(struct muster_dist *dist, uint32_t rank)
{
    (void)rank;
    return clip_at(dist, 1, 1);
}

static int run_clip_negative(struct muster_dist *dist, uint32_t rank)
{
    (void)rank;
    return clip_at(dist, 2, -1);
}

static int run_clip_nan(struct muster_dist *dist, uint32_t rank)
{
    (void)rank;
    return clip_at(dist, 2, NAN);
}

static int run_norm_after_accumulate(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(true);
    struct muster_ddp *ddp = ddp_of(dist, model, NULL);
    (void)rank;
    int rc = muster_ddp_begin(ddp, 1);
    rc = rc ? rc : muster_ddp_finish(ddp);
    rc = rc ? rc : muster_ddp_norm(ddp, NULL);
    rc = rc ? rc : muster_ddp_accumulate(ddp, 1);
    rc = rc ? rc : muster_ddp_norm(ddp, NULL);
    muster_ddp_free(ddp);
    free(model);
    return rc;
}

static int run_replicas(struct muster_dist *dist, uint32_t rank)
{
    struct model *model = model_new(true);
    struct muster_ddp *ddp = ddp_of(dist, model, NULL);
    model->values[3][0] = model->values[6][4] = rank == 0 ? 1 : 2;
    int rc = muster_ddp_broadcast(ddp, 0);
    rc = rc ? rc : muster_ddp_check_replicas(ddp);
    if (rc != 0)
        return 0;  /* which is not what is expected */
    if (rank == 1) /* the least that can differ */
        model->values[3][63] = model->values[6][4] = -0.0f;
    rc = muster_ddp_check_replicas(ddp);
    muster_ddp_free(ddp);
    free(model);
    return rc;
}

static const struct bad_case bad_cases[] = {
    {"rank 1: the gradient of 'layer4' has values that are NaN or infinite: 2 of 1000, the first at "
     "12",
     MUSTER_DIST_EDATA, run_nan},
    {"rank 1: the gradient of 'second' has values that are NaN or infinite: 1 of 100, the first at 98",
     MUSTER_DIST_EDATA, run_nan_float32},
    {"rank 1: the gradient of 'second' has values that are NaN or infinite: 1 of 100, the first at 98",
     MUSTER_DIST_EDATA, run_nan_float64},
    {"rank 1: the gradient of 'second' has values that are NaN or infinite: 1 of 100, the first at 98",
     MUSTER_DIST_EDATA, run_nan_bfloat16},
    {"rank 1: the gradient of 'second' has values that are NaN or infinite: 1 of 100, the first at 98",
     MUSTER_DIST_EDATA, run_nan_float16},
    {"rank 1: the gradient of 'layer5' has values too large for its type on the way: 1 of 2, the "
     "first at 1",
     MUSTER_DIST_EDATA, run_overflow},
    {"rank 1: the gradient of 'layer1' has values that are NaN or infinite: 1 of 3000, the first at "
     "2999",
     MUSTER_DIST_EDATA, run_shard_nan},
    {"parameter 2 is 'layer2' (float32, 16 values) on rank 1", MUSTER_DIST_EMISMATCH,
     run_other_model},
    {"rank 1 has 6 parameters, and rank 0 7", MUSTER_DIST_EMISMATCH, run_fewer_params},
    {"rank 1: parameter 2, 'layer2', is ready twice in a step", MUSTER_DIST_EUSE, run_twice},
    {"no rank has samples in this step", MUSTER_DIST_EUSE, run_no_samples},
    {"muster_ddp_clip before muster_ddp_finish", MUSTER_DIST_EUSE, run_clip_within},
    {"muster_ddp_clip before muster_ddp_finish", MUSTER_DIST_EUSE, run_clip_before},
    {"muster_ddp_clip to a norm of -1", MUSTER_DIST_EUSE, run_clip_negative},
    {"muster_ddp_clip to a norm of nan", MUSTER_DIST_EUSE, run_clip_nan},
    {"muster_ddp_norm before muster_ddp_finish", MUSTER_DIST_EUSE, run_norm_after_accumulate},
    {"the replicas differ: parameter 'layer3', the first of 2, has other values on rank 1",
     MUSTER_DIST_EDATA, run_replicas},
};

static int bad(uint32_t rank, uint32_t size, const void *arg)
{
    const struct bad_case *bad_case = arg;
    struct muster_dist *dist = muster_dist_open(NULL);
    (void)size;
    int rc = bad_case->run(dist, rank);
    CHECK(rc == bad_case->code && strstr(muster_dist_error(dist), bad_case->said), "code %d: %s",
          rc, muster_dist_error(dist));
    CHECK(muster_dist_close(dist) == rc, "close");
    return 0;
}

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(bad_cases); i++)
        ranks_run(3, bad, &bad_cases[i]);
}

/* NaN goes through where that is wanted. */
static int nan_allowed(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    struct model *model = model_new(true);
    struct muster_ddp *ddp =
        ddp_of(dist, model, &(struct muster_ddp_opts){.allows_nonfinite = true});
    double norm;
    (void)size;
    (void)arg;
    model->gradients[0][0] = rank == 0 ? NAN : 1;
    CHECK(muster_ddp_begin(ddp, 1) == 0 && muster_ddp_finish(ddp) == 0, "%s",
          muster_dist_error(dist));
    CHECK(isnan(model->gradients[0][0]), "NaN is lost");
    CHECK(muster_ddp_clip(ddp, 1, &norm) == 0 && isnan(norm), "norm %g", norm);
    muster_ddp_free(ddp);
    free(model);
    return muster_dist_close(dist);
}

static void test_nan_allowed(void **state)
{
    (void)state;
    ranks_run(2, nan_allowed, NULL);
}

/* ---- shards ---- */

enum {
    N_SHARDS = 8,
    N_STEPS = 3
};

/* Of all worlds: the bits of the gradients of each step, in memory that is shared with the ranks. */
struct bits {
    float gradients[N_STEPS][N_PARAMS][VALUES_MAX];
};

/* Values whose sums depend on the order. */
static void shard_gradient(struct muster_ddp *ddp, uint32_t shard, int step)
{
    for (size_t p = 0; p < N_PARAMS; p++) {
        float *gradient = muster_ddp_gradient(ddp, p);
        for (size_t i = 0; i < counts[p]; i++) {
            int64_t bits = (int64_t)mix64(((uint64_t)step * N_SHARDS + shard) * 7919 + p * 31 + i);
            gradient[i] += (float)bits / (float)(1 + (bits & 0xfffff));
        }
    }
}

static int shards(uint32_t rank, uint32_t size, const void *arg)
{
    struct bits *bits = *(struct bits *const *)arg;
    struct muster_dist *dist = muster_dist_open(NULL);
    struct model *model = model_new(rank % 2 == 0);
    struct muster_ddp *ddp = ddp_of(dist, model, &(struct muster_ddp_opts){.n_shards = N_SHARDS});
    uint32_t first, end;
    CHECK(ddp, "%s", muster_dist_error(dist));
    muster_ddp_shards(ddp, &first, &end);
    CHECK(end > first && (rank + 1 < size || end == N_SHARDS), "shards %u to %u", first, end);
    for (int step = 0; step < N_STEPS; step++) {
        gradients_zero(ddp);
        for (uint32_t s = first; s < end; s++) {
            shard_gradient(ddp, s, step);
            CHECK(muster_ddp_shard(ddp, s == 5 ? 0 : 3 + s) == 0, "%s", muster_dist_error(dist));
        }
        CHECK(muster_ddp_finish(ddp) == 0, "%s", muster_dist_error(dist));
        for (size_t p = 0; p < N_PARAMS; p++) {
            const float *got = muster_ddp_gradient(ddp, p);
            size_t bytes = counts[p] * sizeof(float);
            if (size == 1)
                memcpy(bits->gradients[step][p], got, bytes);
            CHECK(memcmp(bits->gradients[step][p], got, bytes) == 0,
                  "rank %u of %u: step %d: layer%zu has other bits than in a world of one", rank,
                  size, step, p);
        }
    }
    muster_ddp_free(ddp);
    free(model);
    return muster_dist_close(dist);
}

static void test_shards(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8};
    struct bits *bits =
        mmap(NULL, sizeof(*bits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(bits != MAP_FAILED);
    for (size_t i = 0; i < countof(sizes); i++)
        ranks_run(sizes[i], shards, &bits);
    /* The mean of the world of one, by the definition: a tree over shards, weighted by samples. */
    float tree[N_SHARDS];
    for (uint32_t s = 0; s < N_SHARDS; s++) {
        int64_t noise = (int64_t)mix64((uint64_t)s * 7919 + 1 * 31 + 77);
        float gradient = 0;
        gradient += (float)noise / (float)(1 + (noise & 0xfffff));
        tree[s] = s == 5 ? 0 : gradient * (float)(3 + s);
    }
    for (uint32_t n = N_SHARDS / 2; n > 0; n /= 2)
        for (uint32_t i = 0; i < n; i++)
            tree[i] = tree[2 * i] + tree[2 * i + 1];
    assert_true(tree[0] / (float)(8 * 3 + 28 - 8) == bits->gradients[0][1][77]);
    munmap(bits, sizeof(*bits));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),   cmocka_unit_test(test_norm),
        cmocka_unit_test(test_overlap), cmocka_unit_test(test_last_bucket),
        cmocka_unit_test(test_bad),     cmocka_unit_test(test_nan_allowed),
        cmocka_unit_test(test_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
