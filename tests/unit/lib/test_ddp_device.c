/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel steps whose gradients are in device memory (a played one), beside some in the host's:
 * means over uneven batches, on the caller's stream; and what is looked at through the host: values that
 * are not finite, norm, clipping, replicas.
 */
#include "lib/ranks.h"

#include <math.h>

#include "base/attr.h"
#include "dist/half.h"
#include "muster/ddp.h"
#include "unit/lib/played_gpu.h"

enum {
    N_PARAMS = 5,
    COUNT_MAX = 70000
};

/* The last one is in host memory. */
static const struct {
    enum muster_type type;
    size_t count;
} kinds[N_PARAMS] = {{MUSTER_FLOAT32, 17},
                     {MUSTER_FLOAT32, COUNT_MAX},
                     {MUSTER_FLOAT64, 300},
                     {MUSTER_BFLOAT16, 5000},
                     {MUSTER_FLOAT32, 40}};

struct model {
    struct muster_param params[N_PARAMS];
    char *host; /* what is on its way to a gradient */
    struct played_stream *stream;
};

static void *device_new(size_t bytes)
{
    uint64_t at = 0;
    cuMemAlloc_v2(&at, bytes);
    return (void *)(uintptr_t)at;
}

static void device_use(void)
{
    struct context *context;
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxPushCurrent_v2(context);
}

static void model_make(struct model *model, struct played_stream *stream)
{
    static const char *const names[N_PARAMS] = {"a", "b", "c", "d", "e"};
    model->host = malloc(COUNT_MAX * 8);
    model->stream = stream;
    for (int p = 0; p < N_PARAMS; p++) {
        size_t bytes = kinds[p].count * muster_type_bytes(kinds[p].type);
        bool is_device = p + 1 < N_PARAMS;
        model->params[p] = (struct muster_param){names[p], kinds[p].type, kinds[p].count,
                                                 is_device ? device_new(bytes) : calloc(1, bytes),
                                                 is_device ? device_new(bytes) : calloc(1, bytes)};
    }
}

static void model_end(struct model *model)
{
    for (int p = 0; p + 1 < N_PARAMS; p++) {
        cuMemFree_v2((uintptr_t)model->params[p].value);
        cuMemFree_v2((uintptr_t)model->params[p].gradient);
    }
    free(model->params[N_PARAMS - 1].value);
    free(model->params[N_PARAMS - 1].gradient);
    free(model->host);
}

/* ---- values ---- */

static double sample_gradient(uint64_t sample, int param, size_t i)
{
    return (double)((sample * 13 + (uint64_t)param * 5 + i) % 17) - 8;
}

static void put(char *at, size_t i, enum muster_type type, double value)
{
    float single = (float)value;
    uint16_t half = md_to_bfloat16(single);
    const void *from = type == MUSTER_FLOAT32   ? (const void *)&single
                       : type == MUSTER_FLOAT64 ? (const void *)&value
                                                : (const void *)&half;
    memcpy(at + i * muster_type_bytes(type), from, muster_type_bytes(type));
}

static double get(const char *at, size_t i, enum muster_type type)
{
    if (type == MUSTER_FLOAT64)
        return ((const double *)(const void *)at)[i];
    if (type == MUSTER_FLOAT32)
        return (double)((const float *)(const void *)at)[i];
    return (double)md_from_bfloat16(((const uint16_t *)(const void *)at)[i]);
}

/* To any memory, on the stream; the host's copy is used again, so it is waited for. */
static void bytes_move(const struct model *model, void *to, const void *from, size_t bytes)
{
    cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, model->stream);
    cuStreamSynchronize(model->stream);
}

/* The sum, or the mean, over samples [first, first + n), which a kernel takes a while to make. */
static void gradient_make(const struct model *model, int param, uint64_t first, uint64_t n,
                          double divisor)
{
    const struct muster_param *is = &model->params[param];
    char *values = malloc(is->count * 8);
    for (size_t i = 0; i < is->count; i++) {
        double sum = 0;
        for (uint64_t s = first; s < first + n; s++)
            sum += sample_gradient(s, param, i);
        put(values, i, is->type, n > 0 ? sum / divisor : (double)NAN);
    }
    size_t bytes = is->count * muster_type_bytes(is->type);
    if (param + 1 == N_PARAMS)
        memcpy(is->gradient, values, bytes);
    else {
        played_kernel(model->stream, 5);
        bytes_move(model, is->gradient, values, bytes);
    }
    free(values);
}

static int gradients_compare(const struct model *model, uint64_t n_samples, const char *what)
{
    for (int p = 0; p < N_PARAMS; p++) {
        const struct muster_param *is = &model->params[p];
        double tolerance = is->type == MUSTER_BFLOAT16 ? 0.02 : 1e-6;
        bytes_move(model, model->host, is->gradient, is->count * muster_type_bytes(is->type));
        for (size_t i = 0; i < is->count; i++) {
            double sum = 0;
            for (uint64_t s = 0; s < n_samples; s++)
                sum += sample_gradient(s, p, i);
            double expected = sum / (double)n_samples, got = get(model->host, i, is->type);
            CHECK(fabs(got - expected) <= tolerance * 8, "%s: %s[%zu] is %g, expected %g", what,
                  is->name, i, got, expected);
        }
    }
    return 0;
}

/* ---- steps ---- */

static const struct step_case {
    const char *name, *backend;
    struct muster_ddp_opts opts;
    bool is_uneven, has_stream;
} step_cases[] = {
    {"even", "nccl", {0}, false, false},
    {"uneven", "nccl", {.bucket_bytes = 100000}, true, true},
    {"sums", "nccl", {.gradients_are_sums = true, .allows_nonfinite = true}, true, false},
    {"through the host", "shm", {.gradients_are_sums = true}, true, true},
    {"auto", NULL, {.bucket_bytes = 1}, false, true},
};

/* The last rank of an uneven world has nothing. */
static uint64_t samples_of(const struct step_case *step, uint32_t rank, uint32_t size)
{
    if (!step->is_uneven)
        return 4;
    return size > 1 && rank == size - 1 ? 0 : 2 + rank;
}

static int step_once(struct muster_ddp *ddp, const struct step_case *step,
                     const struct model *model, uint32_t rank, uint32_t size)
{
    uint64_t n = samples_of(step, rank, size), first = 0, all = 0;
    for (uint32_t r = 0; r < size; r++) {
        first += r < rank ? samples_of(step, r, size) : 0;
        all += samples_of(step, r, size);
    }
    CHECK(muster_ddp_begin(ddp, n) == 0, "begin");
    for (int p = N_PARAMS; p-- > 0;) {
        gradient_make(model, p, first, n, step->opts.gradients_are_sums ? 1 : (double)n);
        if (p != 2) /* it is left to finish */
            CHECK(muster_ddp_ready(ddp, (size_t)p) == 0, "ready");
    }
    CHECK(muster_ddp_finish(ddp) == 0, "finish");
    return gradients_compare(model, all, step->name);
}

static int steps(uint32_t rank, uint32_t size, const void *arg)
{
    const struct step_case *step = arg;
    struct played_stream *stream = NULL;
    struct model model;
    device_use();
    if (step->has_stream)
        cuStreamCreate(&stream, 1);
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){
        .backend = step->backend, .has_device_memory = true, .stream = stream});
    model_make(&model, stream);
    struct muster_ddp *ddp = muster_ddp_new(dist, model.params, N_PARAMS, &step->opts);
    CHECK(ddp, "%s: %s", step->name, muster_dist_error(dist));
    for (int i = 0; i < 3; i++)
        CHECK(step_once(ddp, step, &model, rank, size) == 0, "rank %u of %u: %s: %s", rank, size,
              step->name, muster_dist_error(dist));
    muster_ddp_free(ddp);
    model_end(&model);
    return muster_dist_close(dist);
}

static void test_steps(void **state)
{
    (void)state;
    for (size_t c = 0; c < countof(step_cases); c++)
        for (uint32_t size = 1; size <= 3; size++)
            ranks_run(size, steps, &step_cases[c]);
}

/* ---- sums in float16 ---- */

/* Rank r has the sum 16384 (r + 1), over as many samples as arg says. */
static int halves_step(uint32_t rank, uint32_t size, const void *arg)
{
    const uint64_t *n_samples = arg;
    uint16_t half = md_to_float16(16384.0f * (float)(rank + 1));
    device_use();
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.backend = "nccl"});
    const struct muster_param param = {"h", MUSTER_FLOAT16, 1, NULL, device_new(sizeof(half))};
    struct muster_ddp *ddp =
        muster_ddp_new(dist, &param, 1, &(struct muster_ddp_opts){.gradients_are_sums = true});
    memcpy(played_reach(param.gradient), &half, sizeof(half));
    CHECK(muster_ddp_begin(ddp, *n_samples) == 0 && muster_ddp_finish(ddp) == 0, "%s",
          muster_dist_error(dist));
    cuStreamSynchronize(NULL);
    memcpy(&half, played_reach(param.gradient), sizeof(half));
    double got = (double)md_from_float16(half);
    double expected = 16384.0 * (size * (size + 1) / 2) / (double)(size * *n_samples);
    CHECK(fabs(got - expected) <= 0x1p-10 * expected,
          "%u ranks, %llu samples each: the mean is %g, expected %g", size,
          (unsigned long long)*n_samples, got, expected);
    muster_ddp_free(ddp);
    cuMemFree_v2((uintptr_t)param.gradient);
    return muster_dist_close(dist);
}

/*
 * One divided by the samples is a normal float16, the smallest one, a subnormal one of few bits, and less than half of
 * the smallest.
 */
static void test_halves(void **state)
{
    (void)state;
    static const uint64_t n_samples[] = {1000, 1 << 13, 100001, 1 << 25};
    for (size_t i = 0; i < countof(n_samples); i++)
        for (uint32_t size = 1; size <= 2; size++)
            ranks_run(size, halves_step, &n_samples[i]);
}

/* ---- what is looked at through the host ---- */

static int look(uint32_t rank, uint32_t size, const void *arg)
{
    struct model model;
    double norm = 0, squares = 0;
    (void)arg;
    device_use();
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.backend = "nccl"});
    model_make(&model, NULL);
    struct muster_ddp *ddp = muster_ddp_new(dist, model.params, N_PARAMS, NULL);
    CHECK(ddp, "%s", muster_dist_error(dist));
    for (int p = 0; p < N_PARAMS; p++)
        gradient_make(&model, p, 0, 2, 2);
    CHECK(muster_ddp_begin(ddp, 1) == 0 && muster_ddp_finish(ddp) == 0, "%s",
          muster_dist_error(dist));
    for (int p = 0; p < N_PARAMS; p++)
        for (size_t i = 0; i < kinds[p].count; i++)
            squares += pow((sample_gradient(0, p, i) + sample_gradient(1, p, i)) / 2, 2);
    CHECK(muster_ddp_norm(ddp, &norm) == 0 && fabs(norm - sqrt(squares)) < 1e-6 * norm,
          "norm %g, expected %g", norm, sqrt(squares));
    CHECK(muster_ddp_clip(ddp, 2, &norm) == 0 && muster_ddp_norm(ddp, &norm) == 0 &&
              fabs(norm - 2) < 1e-3,
          "after the clip: %g", norm);
    memset(played_reach(model.params[1].value), (int)rank, 100);
    CHECK(muster_ddp_broadcast(ddp, 0) == 0 && muster_ddp_check_replicas(ddp) == 0, "%s",
          muster_dist_error(dist));
    if (rank == size - 1)
        memset(played_reach(model.params[2].value), 1, 1);
    int rc = muster_ddp_check_replicas(ddp);
    CHECK(rc == MUSTER_DIST_EDATA &&
              strcmp(muster_dist_error(dist),
                     "the replicas differ: parameter 'c' has other values on rank 2") == 0,
          "code %d: %s", rc, muster_dist_error(dist));
    muster_ddp_free(ddp);
    model_end(&model);
    return muster_dist_close(dist) == rc ? 0 : 1;
}

struct refusal {
    struct muster_ddp_opts opts;
    bool has_nan;
    int code;
    const char *said;
};

static int refused(uint32_t rank, uint32_t size, const void *arg)
{
    const struct refusal *refusal = arg;
    struct model model;
    (void)size;
    device_use();
    struct muster_dist *dist = muster_dist_open(&(struct muster_dist_opts){.backend = "nccl"});
    model_make(&model, NULL);
    if (rank == 1 && refusal->has_nan)
        put(played_reach(model.params[1].gradient), 69000, MUSTER_FLOAT32, (double)NAN);
    struct muster_ddp *ddp = muster_ddp_new(dist, model.params, N_PARAMS, &refusal->opts);
    int rc = ddp ? muster_ddp_begin(ddp, 1) : muster_dist_code(dist);
    rc = rc ? rc : muster_ddp_finish(ddp);
    CHECK(rc == refusal->code && strstr(muster_dist_error(dist), refusal->said), "code %d: %s", rc,
          muster_dist_error(dist));
    muster_ddp_free(ddp);
    model_end(&model);
    return muster_dist_close(dist) == rc ? 0 : 1;
}

static void test_looked(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {{0},
         true,
         MUSTER_DIST_EDATA,
         "the gradient of 'b', combined over the ranks, has values that are NaN or infinite: 1 of "
         "70000, the first at 69000"},
        {{.allows_nonfinite = true}, true, 0, ""},
        {{.wire = MUSTER_BFLOAT16},
         false,
         MUSTER_DIST_EUSE,
         "the gradient of 'a' is in device memory, where it travels in its own type: leave wire "
         "unset"},
        {{.n_shards = 4},
         false,
         MUSTER_DIST_EUSE,
         "the gradient of 'a' is in device memory, where there are no shards: leave n_shards "
         "unset"},
    };
    ranks_run(3, look, NULL);
    for (size_t i = 0; i < countof(refusals); i++)
        ranks_run(2, refused, &refusals[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_looked),
    };
    played_use();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
