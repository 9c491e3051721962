/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/engine/trials.h"

#include "unit/test.h"

#include <math.h>
#include <string.h>

#include "base/xalloc.h"

static void *kept(struct trial *t, const void *from, size_t bytes)
{
    void *at = NULL;
    struct err err = {0};
    ASSERT(t->n_arrays < countof(t->arrays));
    if (t->be->allocate(t->be, bytes, &at, &err) != 0)
        fail_msg("%s", err.text);
    t->be->upload(t->be, at, from, bytes);
    return t->arrays[t->n_arrays++] = at;
}

/* Zeros. */
static void *array_new(struct trial *t, size_t n)
{
    size_t bytes = (n + 1) * num_bytes(t->dtype);
    void *zeros = xcalloc(1, bytes), *at = kept(t, zeros, bytes);
    free(zeros);
    return at;
}

/* The same numbers for both types: rounded to float32. */
static void *drawn(struct trial *t, size_t n)
{
    size_t bytes = (n + 1) * num_bytes(t->dtype);
    void *values = xcalloc(1, bytes), *at;
    for (size_t i = 0; i < n; i++) {
        float value = (float)(2 * rng_unit(&t->rng) - 1);
        if (t->dtype == NUM_F64)
            ((double *)values)[i] = (double)value;
        else
            ((float *)values)[i] = value;
    }
    at = kept(t, values, bytes);
    free(values);
    return at;
}

static uint32_t *ids_drawn(struct trial *t, size_t n, size_t below)
{
    uint32_t *ids = xcalloc(n + 1, sizeof(*ids)), *at;
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)rng_below(&t->rng, below);
    at = kept(t, ids, (n + 1) * sizeof(*ids));
    free(ids);
    return at;
}

static void fetched(const struct trial *t, const void *device, void *to, size_t bytes)
{
    struct err err = {0};
    if (t->be->download(t->be, to, device, bytes, &err) != 0)
        fail_msg("%s", err.text);
}

/* Element i of an array of the backend. */
static double number(const struct trial *t, const void *at, size_t i)
{
    double room = 0;
    fetched(t, num_at_const(t->dtype, at, i), &room, num_bytes(t->dtype));
    float narrow;
    memcpy(&narrow, &room, sizeof(narrow));
    return t->dtype == NUM_F64 ? room : (double)narrow;
}

static void result(struct trial *t, const void *device, size_t n)
{
    void *at = xmalloc((n + 1) * num_bytes(t->dtype));
    fetched(t, device, at, n * num_bytes(t->dtype));
    for (size_t i = 0; i < n; i++) {
        double value =
            t->dtype == NUM_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
        buf_add(&t->out, &value, sizeof(value));
    }
    free(at);
}

static void result_ids(struct trial *t, const uint32_t *device, size_t n)
{
    uint32_t *at = xmalloc((n + 1) * sizeof(*at));
    fetched(t, device, at, n * sizeof(*at));
    for (size_t i = 0; i < n; i++) {
        double value = at[i];
        buf_add(&t->out, &value, sizeof(value));
    }
    free(at);
}

static void gemm(struct trial *t)
{
    size_t m = t->a, n = t->b, k = t->c, more = 3;
    size_t lda = (t->first ? m : k) + more, ldb = (t->second ? k : n) + more, ldc = n + more;
    struct num_gemm op = {t->dtype, t->first, t->second, m, n, k, lda, ldb, ldc, 0.5, -2};
    op.a = drawn(t, (t->first ? k : m) * lda);
    op.b = drawn(t, (t->second ? n : k) * ldb);
    op.c = drawn(t, m * ldc);
    t->be->gemm(t->be, &op);
    result(t, op.c, m * ldc);
    op.beta = 0;
    t->be->gemm(t->be, &op);
    result(t, op.c, m * ldc);
}

static void rows(struct trial *t)
{
    size_t n = t->a, pieces = t->b, len = t->c, table = 7;
    struct num_rows op = {.dtype = t->dtype, .n = n, .pieces = pieces, .len = len, .ids_stride = 2};
    op.from_pitch = len + 1;
    op.from_stride = op.from_pitch * pieces;
    op.to_pitch = len + 2;
    op.to_stride = op.to_pitch * pieces;
    op.from = drawn(t, MAX(n, table) * op.from_stride);
    op.to = drawn(t, MAX(n, table) * op.to_stride);
    op.from_ids = t->first ? ids_drawn(t, 2 * n, table) : NULL;
    op.to_ids = t->second ? ids_drawn(t, 2 * n, table) : NULL;
    op.factor = t->first ? drawn(t, n) : NULL;
    op.add = t->second;
    t->be->rows(t->be, &op);
    result(t, op.to, MAX(n, table) * op.to_stride);
}

static void dots(struct trial *t)
{
    size_t n = t->a, len = t->c, table = 5;
    struct num_dots op = {.dtype = t->dtype, .n = n, .len = len, .ids_stride = 3};
    op.a_stride = len + 1;
    op.b_stride = len;
    op.a = drawn(t, MAX(n, table) * op.a_stride);
    op.b = drawn(t, MAX(n, table) * op.b_stride);
    op.a_ids = t->first ? ids_drawn(t, 3 * n, table) : NULL;
    op.b_ids = t->second ? ids_drawn(t, 3 * n, table) : NULL;
    op.out = drawn(t, n);
    t->be->dots(t->be, &op);
    result(t, op.out, n);
}

static void drop(struct trial *t)
{
    size_t n = t->a, groups = t->b, len = t->c;
    struct num_drop op = {t->dtype, n, groups, len, t->first ? 7 : 0, t->second ? 0.2 : 0.75, 5};
    op.x = drawn(t, n * groups * len);
    t->be->drop(t->be, &op);
    result(t, op.x, n * groups * len);
}

static void multiply(struct trial *t)
{
    size_t n = t->a * t->b;
    struct num_multiply op = {t->dtype, n, 0.25, t->first ? 3 : 0, drawn(t, n), drawn(t, n)};
    op.y = drawn(t, n);
    t->be->multiply(t->be, &op);
    result(t, op.y, n);
}

static void logistic(struct trial *t)
{
    size_t n = t->a * t->b;
    struct num_logistic op = {t->dtype, n, t->first ? 1 : 0.1, 0.5, drawn(t, n), array_new(t, n)};
    op.slope = array_new(t, n);
    t->be->logistic(t->be, &op);
    result(t, op.loss, n);
    result(t, op.slope, n);
}

static void conv(struct trial *t)
{
    size_t n = 3, filters = t->c, kernel = t->first ? 9 : 15, kernel_h = 3;
    struct num_conv op = {t->dtype, n, t->a, t->b, filters, kernel_h, kernel / kernel_h};
    size_t map = (op.height - op.kernel_height + 1) * (op.width - op.kernel_width + 1);
    op.x = drawn(t, n * t->a * t->b);
    op.weight = drawn(t, filters * kernel);
    op.bias = t->second ? drawn(t, filters) : NULL;
    op.scale = t->first ? drawn(t, filters) : NULL;
    op.shift = t->first ? drawn(t, filters) : NULL;
    op.relu = t->second;
    op.y = array_new(t, n * filters * map);
    t->be->conv(t->be, &op);
    result(t, op.y, n * filters * map);
}

static void conv_back(struct trial *t)
{
    size_t n = 3, filters = t->c, kernel = t->first ? 9 : 15, kernel_h = 3, more = 2;
    struct num_conv_back op = {t->dtype, n, t->a, t->b, filters, kernel_h, kernel / kernel_h};
    size_t map = (op.height - op.kernel_height + 1) * (op.width - op.kernel_width + 1);
    op.x = drawn(t, n * t->a * t->b);
    op.weight = drawn(t, filters * kernel);
    op.dy = drawn(t, n * filters * map);
    op.y = t->second ? drawn(t, n * filters * map) : NULL;
    op.y_rows = t->first ? ids_drawn(t, n, n) : NULL;
    op.scale = t->second ? drawn(t, filters) : NULL;
    op.d_weight_stride = t->first ? filters * kernel + more : 0;
    op.d_sum_stride = t->first ? filters + more : 0;
    op.d_weight = array_new(t, n * (filters * kernel + more));
    op.d_sum = array_new(t, n * (filters + more));
    op.dx = array_new(t, n * t->a * t->b);
    t->be->conv_back(t->be, &op);
    result(t, op.d_weight, n * (filters * kernel + more));
    result(t, op.d_sum, n * (filters + more));
    result(t, op.dx, n * t->a * t->b);
}

static void conv_norm(struct trial *t)
{
    size_t n = t->a, filters = t->b, kernel = t->c, stride = filters * kernel + 3 * filters + 1;
    struct num_conv_norm op = {t->dtype, n, filters, kernel, drawn(t, n * filters * kernel)};
    op.d_sum = drawn(t, n * filters);
    op.weight = drawn(t, filters * kernel);
    op.bias = drawn(t, filters);
    op.mean = drawn(t, filters);
    op.inv_std = drawn(t, filters);
    op.norm_weight = drawn(t, filters);
    op.stride = stride;
    void *out = array_new(t, n * stride);
    op.d_weight = t->first ? out : NULL;
    op.d_bias = num_at(t->dtype, out, filters * kernel);
    op.d_norm_weight = num_at(t->dtype, out, filters * kernel + filters);
    op.d_norm_bias = t->second ? num_at(t->dtype, out, filters * kernel + 2 * filters) : NULL;
    t->be->conv_norm(t->be, &op);
    result(t, out, n * stride);
}

static void add_where(struct trial *t)
{
    size_t m = t->a, n = t->b, len = t->second ? 37 : 0, ids = 4;
    struct num_add_where op = {t->dtype, m, n, len, 0.5, drawn(t, m * (len ? len : n))};
    op.b = len ? drawn(t, n * len) : NULL;
    op.row_ids = ids_drawn(t, 3 * m, ids);
    op.col_ids = ids_drawn(t, 3 * n, ids);
    op.ids_stride = t->first ? 3 : 1;
    op.y = drawn(t, m * n);
    t->be->add_where(t->be, &op);
    result(t, op.y, m * n);
}

static void norm(struct trial *t)
{
    size_t n = t->a, channels = t->b, places = t->c, all = n * channels * places;
    struct num_norm_stats stats = {t->dtype, n, channels, places, drawn(t, all)};
    stats.mean = array_new(t, channels);
    stats.var = array_new(t, channels);
    t->be->norm_stats(t->be, &stats);
    struct num_norm op = {t->dtype, n, channels, places, stats.x};
    op.mean = t->first ? stats.mean : drawn(t, channels);
    op.inv_std = drawn(t, channels);
    op.weight = drawn(t, channels);
    op.bias = drawn(t, channels);
    op.relu = t->second;
    op.y = array_new(t, all);
    t->be->norm(t->be, &op);
    result(t, stats.mean, channels);
    result(t, stats.var, channels);
    result(t, op.y, all);
}

static void norm_back(struct trial *t)
{
    size_t n = t->a, channels = t->b, places = t->c, all = n * channels * places;
    struct num_norm_back op = {t->dtype, n, channels, places, drawn(t, all), drawn(t, channels)};
    op.inv_std = drawn(t, channels);
    op.weight = drawn(t, channels);
    op.y = t->second ? drawn(t, all) : NULL;
    op.dy = drawn(t, all);
    op.mean_dz = t->first ? drawn(t, channels) : NULL;
    op.mean_dz_xh = t->first ? drawn(t, channels) : NULL;
    op.d_weight_stride = op.d_bias_stride = t->first ? 0 : channels + 1;
    op.d_weight = n == 8 && t->second ? NULL : array_new(t, n * (channels + 1));
    op.d_bias = array_new(t, n * (channels + 1));
    op.dx = array_new(t, all);
    t->be->norm_back(t->be, &op);
    if (op.d_weight)
        result(t, op.d_weight, n * (channels + 1));
    result(t, op.d_bias, n * (channels + 1));
    result(t, op.dx, all);
}

/* Statistics of pieces, and of all rows at once. */
static void norm_merge(struct trial *t)
{
    size_t n_pieces = t->a, channels = t->b, per_piece = t->c;
    enum num_dtype dtype = t->dtype;
    struct num_norm_merge op = {dtype, n_pieces, channels, .eps = 1e-5};
    size_t counts[16], done = 0;
    void *x = drawn(t, n_pieces * (per_piece + 1) * channels);
    void *means = array_new(t, n_pieces * channels), *vars = array_new(t, n_pieces * channels);
    for (size_t i = 0; i < n_pieces; i++) {
        counts[i] = per_piece + i % 2;
        t->be->norm_stats(t->be, &(struct num_norm_stats){dtype, counts[i], channels, 1,
                                                          num_at(dtype, x, done * channels),
                                                          num_at(dtype, means, i * channels),
                                                          num_at(dtype, vars, i * channels)});
        done += counts[i];
    }
    op.counts = kept(t, counts, n_pieces * sizeof(*counts));
    op.means = means;
    op.vars = vars;
    op.mean = array_new(t, channels);
    op.var = array_new(t, channels);
    op.inv_std = array_new(t, channels);
    t->be->norm_merge(t->be, &op);
    struct num_norm_stats whole = {dtype, done, channels, 1, x};
    whole.mean = array_new(t, channels);
    whole.var = array_new(t, channels);
    t->be->norm_stats(t->be, &whole);
    for (size_t c = 0; c < channels; c++) {
        assert_true(fabs(number(t, op.mean, c) - number(t, whole.mean, c)) < 1e-6);
        assert_true(fabs(number(t, op.var, c) - number(t, whole.var, c)) < 1e-6);
        assert_true(fabs(number(t, op.inv_std, c) - 1 / sqrt(number(t, whole.var, c) + 1e-5)) <
                    1e-3);
    }
    result(t, op.mean, channels);
    result(t, op.var, channels);
    result(t, op.inv_std, channels);
}

static void norm_back_merge(struct trial *t)
{
    size_t n_pieces = t->a, channels = t->b;
    struct num_norm_back_merge op = {t->dtype, n_pieces, channels, 0.125, t->first};
    op.sums_dz = drawn(t, n_pieces * channels);
    op.sums_dz_xh = drawn(t, n_pieces * channels);
    void **results[] = {&op.d_bias, &op.d_weight, &op.mean_dz, &op.mean_dz_xh};
    for (size_t i = 0; i < countof(results); i++)
        *results[i] = drawn(t, channels);
    t->be->norm_back_merge(t->be, &op);
    for (size_t i = 0; i < countof(results); i++)
        result(t, *results[i], channels);
}

static void bce(struct trial *t)
{
    size_t n = t->a, m = t->b, n_columns = 3 * m, n_positives = 0;
    size_t *begins = xcalloc(n + 1, sizeof(*begins));
    uint32_t *positives = xcalloc(n * n_columns, sizeof(*positives));
    double loss = NAN;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t column = 0; column < n_columns; column++)
            if (rng_below(&t->rng, 4) == 0)
                positives[n_positives++] = column;
        begins[i + 1] = n_positives;
    }
    struct num_bce op = {t->dtype, n, m, .negative = 1e-4, .positive = 0.9, .factor = 0.25};
    op.first = t->first ? m : 0;
    op.begins = kept(t, begins, (n + 1) * sizeof(*begins));
    op.positives = kept(t, positives, n * n_columns * sizeof(*positives));
    void *score = drawn(t, n * m);
    t->be->multiply(t->be, &(struct num_multiply){t->dtype, n * m, t->second ? 100 : 5, 0, score,
                                                  score, score});
    op.score = score;
    op.slope = t->second ? score : array_new(t, n * m);
    op.loss = kept(t, &loss, sizeof(loss));
    t->be->bce(t->be, &op);
    result(t, op.slope, n * m);
    fetched(t, op.loss, &loss, sizeof(loss));
    buf_add(&t->out, &loss, sizeof(loss));
    free(positives);
    free(begins);
}

static void adam(struct trial *t)
{
    size_t n = t->a * t->b;
    struct num_adam op = {t->dtype, n, 1e-2, 0.9, 0.999, 1e-8, t->first ? 1 : 1000};
    op.g = drawn(t, n);
    op.m = drawn(t, n);
    op.v = drawn(t, n);
    op.w = drawn(t, n);
    t->be->multiply(t->be, &(struct num_multiply){t->dtype, n, 1, 0, op.v, op.v, op.v});
    t->be->adam(t->be, &op);
    result(t, op.m, n);
    result(t, op.v, n);
    result(t, op.w, n);
}

/* Values from a few, so that there are equals. */
static void best(struct trial *t)
{
    size_t m = t->a, n = t->b, k = t->c;
    struct num_best op = {t->dtype, m, n, k, t->first};
    float *values = xmalloc(m * n * sizeof(*values));
    uint32_t *ids = xmalloc(n * sizeof(*ids));
    void *wide = xmalloc(m * n * num_bytes(t->dtype));
    for (size_t i = 0; i < m * n; i++) {
        uint64_t draw = rng_below(&t->rng, t->second ? 40 : 1 << 20);
        values[i] = draw == 0 && t->second ? -HUGE_VALF : (float)draw - 20;
        if (t->dtype == NUM_F64)
            ((double *)wide)[i] = (double)values[i];
        else
            ((float *)wide)[i] = values[i];
    }
    for (size_t j = 0; j < n; j++)
        ids[j] = (uint32_t)(j * 7919 % 65537);
    op.x = kept(t, wide, m * n * num_bytes(t->dtype));
    op.ids = kept(t, ids, n * sizeof(*ids));
    op.best = array_new(t, m * k);
    op.best_ids = ids_drawn(t, m * k, 1);
    t->be->best(t->be, &op);
    result(t, op.best, t->second ? 0 : m * k); /* -inf has no error */
    result_ids(t, op.best_ids, m * k);
    free(values);
    free(ids);
    free(wide);
}

/* Rows of very different sizes, one of zeros; float32 whatever the trial's type. */
static void rounding(struct trial *t)
{
    size_t n = t->a, len = t->c;
    float *x = xcalloc(n * len + 1, sizeof(*x));
    for (size_t i = 1; i < n; i++)
        for (size_t j = 0; j < len; j++)
            x[i * len + j] = ldexpf((float)(2 * rng_unit(&t->rng) - 1),
                                    (int)(i * 37 % 200) - 140 - (int)rng_below(&t->rng, 30));
    struct num_round op = {t->first ? NUM_BF16 : NUM_FP16, n, len, NULL};
    op.x = kept(t, x, (n * len + 1) * sizeof(*x));
    t->be->round(t->be, &op);
    fetched(t, op.x, x, n * len * sizeof(*x));
    for (size_t i = 0; i < n * len; i++) {
        double value = ldexp((double)x[i], -(int)(i / len * 37 % 200));
        buf_add(&t->out, &value, sizeof(value));
    }
    free(x);
}

/* A product of rounded rows: in float64 its numbers are the same, to be multiplied as they are. */
static void gemm_rounded(struct trial *t)
{
    size_t m = t->a, n = t->b, k = t->c;
    enum num_format format = t->first ? NUM_BF16 : NUM_FP16;
    struct num_gemm op = {t->dtype, false, true, m, n, k, k, k, n + t->second, 0.5, 0};
    float *x = xmalloc((m + n) * k * sizeof(*x));
    double *wide = xmalloc((m + n) * k * sizeof(*wide));
    for (size_t i = 0; i < (m + n) * k; i++)
        x[i] = ldexpf((float)(2 * rng_unit(&t->rng) - 1), (int)(i / k % 9));
    struct num_backend ref;
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    ref.round(&ref, &(struct num_round){format, m + n, k, x});
    num_close(&ref);
    for (size_t i = 0; i < (m + n) * k; i++)
        wide[i] = (double)x[i];
    const void *from = t->dtype == NUM_F64 ? (const void *)wide : x;
    void *rows = kept(t, from, (m + n) * k * num_bytes(t->dtype));
    op.a = rows;
    op.b = num_at(t->dtype, rows, m * k);
    op.c = array_new(t, m * op.ldc);
    op.format = format;
    for (op.beta = 0; op.beta >= -2; op.beta -= 2) {
        t->be->gemm(t->be, &op);
        result(t, op.c, m * op.ldc);
    }
    free(x);
    free(wide);
}

/* As a definition of the formats has it; `largest` is that of all that is rounded together. */
static double nearest(enum num_format format, double largest, double x)
{
    int digits = format == NUM_BF16 ? 8 : 11;
    int place = x == 0 ? 0 : ilogb(x) + 1 - digits;
    if (format == NUM_FP16 && largest > 0)
        place = MAX(place, ilogb(largest) - 14 - 24); /* the last place of a subnormal */
    return ldexp(rint(ldexp(x, -place)), place);
}

/*
 * Rows of numbers of many sizes, and as what they are multiplied: in float64 that is what is drawn.
 * What lies between the rows is large, and no part of them.
 */
static void *drawn_rounded(struct trial *t, enum num_format format, size_t n_rows, size_t len,
                           size_t stride, int power)
{
    size_t n = n_rows * stride;
    float *x = xcalloc(n, sizeof(*x)), largest = 0;
    double *wide = xcalloc(n, sizeof(*wide));
    for (size_t i = 0; i < n; i++) {
        bool is_between = i % stride >= len;
        x[i] = ldexpf((float)(2 * rng_unit(&t->rng) - 1), power - (int)(i * 7 % 41));
        x[i] = is_between ? 0x1p90f : x[i];
        largest = is_between ? largest : fmaxf(largest, fabsf(x[i]));
    }
    for (size_t i = 0; i < n; i++)
        wide[i] = nearest(format, (double)largest, (double)x[i]);
    void *at = kept(t, t->dtype == NUM_F64 ? (const void *)wide : x, n * num_bytes(t->dtype));
    free(x);
    free(wide);
    return at;
}

/* A product that rounds what it multiplies, whichever way that lies. */
static void gemm_rounding(struct trial *t)
{
    size_t m = t->a, n = t->b, k = t->c;
    struct num_gemm op = {t->dtype, t->first, t->second, m, n, k, .ldc = n + 3, .alpha = 0.5};
    op.lda = (t->first ? m : k) + 5;
    op.ldb = (t->second ? k : n) + 2;
    for (op.format = NUM_BF16; op.format <= NUM_FP16; op.format++) {
        op.rounds = t->dtype == NUM_F32;
        op.a = drawn_rounded(t, op.format, t->first ? k : m, op.lda - 5, op.lda, -50);
        op.b = drawn_rounded(t, op.format, t->second ? n : k, op.ldb - 2, op.ldb, 20);
        op.c = array_new(t, m * op.ldc);
        for (op.beta = 0; op.beta >= -2; op.beta -= 2) {
            t->be->gemm(t->be, &op);
            result(t, op.c, m * op.ldc);
        }
    }
}

const struct operation operations[N_OPERATIONS] = {
    {"gemm",
     gemm,
     {{1, 1, 1}, {1, 200, 977}, {100, 31, 64}, {17, 19, 23}, {2, 3, 0}, {64, 64, 64}}},
    {"rows", rows, {{1, 1, 1}, {5, 3, 7}, {13, 1, 200}, {11, 10, 20}}},
    {"dots", dots, {{1, 1, 1}, {9, 1, 200}, {31, 1, 7}}},
    {"drop", drop, {{1, 1, 1}, {13, 40, 1}, {5, 6, 300}}},
    {"multiply", multiply, {{1, 1, 0}, {13, 17, 0}, {100, 64, 0}}},
    {"logistic", logistic, {{1, 1, 0}, {13, 17, 0}}},
    {"conv",
     conv,
     {{3, 5, 1}, {10, 40, 32}, {20, 20, 32}, {16, 4 + 1, 5}, {7, 31, 3}, {8, 8, 4}, {50, 60, 2}}},
    {"conv_back",
     conv_back,
     {{3, 5, 1}, {10, 40, 32}, {20, 20, 32}, {16, 4 + 1, 5}, {7, 31, 3}, {8, 8, 4}, {50, 60, 2}}},
    {"conv_norm", conv_norm, {{1, 1, 1}, {5, 32, 9}, {3, 7, 15}}},
    {"add_where", add_where, {{1, 1, 0}, {13, 17, 0}, {100, 31, 0}}},
    {"norm", norm, {{1, 1, 400}, {8, 32, 17}, {5, 200, 1}}},
    {"norm_merge", norm_merge, {{1, 1, 40}, {5, 32, 7}, {3, 200, 1}}},
    {"norm_back_merge", norm_back_merge, {{1, 1, 0}, {5, 32, 0}, {3, 300, 0}}},
    {"bce", bce, {{1, 1, 0}, {13, 17, 0}, {3, 100, 0}, {2, 1024, 0}}},
    {"adam", adam, {{1, 1, 0}, {13, 17, 0}, {100, 64, 0}}},
    {"norm_back", norm_back, {{2, 1, 400}, {8, 32, 17}, {5, 200, 1}}},
    {"best", best, {{1, 1, 1}, {3, 700, 10}, {5, 100, 100}, {2, 256, 255}}},
    {"round", rounding, {{1, 1, 1}, {40, 1, 300}, {3, 1, 977}}},
    {"gemm of rounded rows",
     gemm_rounded,
     {{1, 1, 1}, {17, 19, 300}, {8, 40, 977}},
     10}, /* units for 16 bits cut off what they add up */
    {"gemm that rounds", gemm_rounding, {{1, 1, 1}, {17, 19, 300}, {300, 7, 31}, {8, 40, 977}}, 10},
};

struct trial trial_of(const struct operation *operation, size_t size, unsigned variant,
                      const struct num_backend *be, enum num_dtype dtype)
{
    struct trial t = {.be = be,
                      .dtype = dtype,
                      .a = operation->sizes[size].a,
                      .b = operation->sizes[size].b,
                      .c = operation->sizes[size].c,
                      .first = variant & 1,
                      .second = variant & 2,
                      .rng = {.state = TRIAL_SEED + size}};
    operation->run(&t);
    for (size_t i = 0; i < t.n_arrays; i++)
        be->release(be, t.arrays[i]);
    return t;
}
