/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise operations in float32, by vectors of LANES (fast_kernel.h): loss and slopes of many
 * scores, Adam, batch norm.
 */
#include <math.h>

#include "num/fast.h"
#include "num/vec.h"

/* ---- binary cross entropy ---- */

/*
 * e^x for x <= 0; an x below -87 is taken as -87, which gives about 1e-38. x = n ln 2 + r with |r|
 * <= ln 2 / 2; the series of e^r up to r^6 / 720 is within 1.2e-7 of e^r for such r.
 */
static inline vec exp_of_negative(vec x)
{
    const vec zero = {0}, round = zero + 12582912.0f; /* adding 1.5 2^23 rounds to integers */
    x = vec_where(x < -87.0f, zero - 87.0f, x);
    vec n = (x * 1.44269504f + round) - round;
    vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    vec p = zero + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (vec)((__builtin_convertvector(n, vec_int) + 127) << 23);
}

/*
 * The sum of log(1 + e) is computed as the log of a product. Each factor is at most 2, so that a
 * product of 64 of them is far below what a float can hold.
 */
enum {
    PRODUCT_LEN = 64
};

struct bce_sums {
    vec plain;   /* the sum of max(s, 0) - label s */
    vec product; /* of the factors 1 + e since the last log */
    int n_factors;
    double loss;
};

static inline void product_take(struct bce_sums *sums)
{
    for (int lane = 0; lane < LANES; lane++)
        sums->loss += (double)logf(sums->product[lane]);
    sums->product = (vec){0} + 1.0f;
    sums->n_factors = 0;
}

struct bce_label {
    float label, rest, factor; /* rest = 1 - label */
};

static inline vec bce_vec(struct bce_sums *sums, vec s, struct bce_label of)
{
    const vec zero = {0};
    vec_int is_negative = s < 0;
    vec e = exp_of_negative(vec_where(is_negative, s, -s)), one_less = zero + 1.0f;
    vec large = one_less / (1.0f + e), small = e * large;
    vec sigmoid = vec_where(is_negative, small, large);
    vec complement = vec_where(is_negative, large, small);
    sums->plain += vec_where(is_negative, zero, s) - of.label * s;
    sums->product *= 1.0f + e;
    if (++sums->n_factors == PRODUCT_LEN)
        product_take(sums);
    return of.factor * (of.rest * sigmoid - of.label * complement);
}

static inline float bce_one(struct bce_sums *sums, float score, double label, double factor)
{
    double s = (double)score, e = exp(-fabs(s)), small = e / (1 + e), large = 1 / (1 + e);
    sums->loss += fmax(s, 0) + log1p(e) - label * s;
    return (float)(factor *
                   ((1 - label) * (s < 0 ? small : large) - label * (s < 0 ? large : small)));
}

/* Sums over scores that all have the label `negative`. */
static inline void bce_run(struct bce_sums *sums, const struct num_bce *op, const float *score,
                           float *slope, size_t n)
{
    const struct bce_label of = {(float)op->negative, (float)(1 - op->negative), (float)op->factor};
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        store(slope + j, bce_vec(sums, load(score + j), of));
    for (; j < n; j++)
        slope[j] = bce_one(sums, score[j], op->negative, op->factor);
}

static void bce(const struct num_bce *op)
{
    struct bce_sums sums = {.product = (vec){0} + 1.0f};
    for (size_t i = 0; i < op->n; i++) {
        const float *score = (const float *)op->score + i * op->m;
        float *slope = (float *)op->slope + i * op->m;
        size_t done = 0;
        for (size_t t = op->begins[i]; t < op->begins[i + 1]; t++) {
            if (op->positives[t] < op->first || op->positives[t] >= op->first + op->m)
                continue;
            size_t at = op->positives[t] - op->first;
            bce_run(&sums, op, score + done, slope + done, at - done);
            slope[at] = bce_one(&sums, score[at], op->positive, op->factor);
            done = at + 1;
        }
        bce_run(&sums, op, score + done, slope + done, op->m - done);
        sums.loss += (double)sum_of(sums.plain);
        sums.plain = (vec){0};
    }
    product_take(&sums);
    *op->loss = sums.loss;
}

/* ---- Adam ---- */

static void adam(const struct num_adam *op)
{
    const float *restrict g = op->g;
    float *restrict m = op->m, *restrict v = op->v, *restrict w = op->w;
    const float beta1 = (float)op->beta1, beta2 = (float)op->beta2, eps = (float)op->eps;
    const float rest1 = (float)(1 - op->beta1), rest2 = (float)(1 - op->beta2);
    const float rate = (float)(op->rate / (1 - pow(op->beta1, (double)op->step)));
    const float scale = (float)(1 / sqrt(1 - pow(op->beta2, (double)op->step)));
    for (size_t i = 0; i < op->n; i++) {
        m[i] = beta1 * m[i] + rest1 * g[i];
        v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
        w[i] -= rate * m[i] / (sqrtf(v[i]) * scale + eps);
    }
}

/* ---- batch norm ---- */

/* One channel of one sample. */
static inline void norm_run(const struct num_norm *op, const float *restrict x, size_t c, float *y)
{
    const float mean = ((const float *)op->mean)[c];
    const float factor = ((const float *)op->inv_std)[c] * ((const float *)op->weight)[c];
    const float bias = ((const float *)op->bias)[c];
    size_t p = 0;
    for (; p + LANES <= op->places; p += LANES) {
        vec value = (load(x + p) - mean) * factor + bias;
        store(y + p, op->relu ? positive(value) : value);
    }
    for (; p < op->places; p++) {
        float value = (x[p] - mean) * factor + bias;
        y[p] = op->relu && value < 0 ? 0 : value;
    }
}

static void norm(const struct num_norm *op)
{
    size_t at = 0;
    for (size_t i = 0; i < op->n; i++)
        for (size_t c = 0; c < op->channels; c++, at += op->places)
            norm_run(op, (const float *)op->x + at, c, (float *)op->y + at);
}

static inline float run_sum(const float *x, size_t n)
{
    vec sum = {0};
    float rest = 0;
    size_t p = 0;
    for (; p + LANES <= n; p += LANES)
        sum += load(x + p);
    for (; p < n; p++)
        rest += x[p];
    return rest + sum_of(sum);
}

static inline float run_squares(const float *x, size_t n, float middle)
{
    vec sum = {0};
    float rest = 0;
    size_t p = 0;
    for (; p + LANES <= n; p += LANES) {
        vec off = load(x + p) - middle;
        sum += off * off;
    }
    for (; p < n; p++)
        rest += (x[p] - middle) * (x[p] - middle);
    return rest + sum_of(sum);
}

static void norm_stats(const struct num_norm_stats *op)
{
    const float *x = op->x;
    size_t stride = op->channels * op->places;
    double count = (double)(op->n * op->places);
    for (size_t c = 0; c < op->channels; c++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < op->n; i++)
            sum += (double)run_sum(x + i * stride + c * op->places, op->places);
        float middle = (float)(sum / count);
        for (size_t i = 0; i < op->n; i++)
            squares += (double)run_squares(x + i * stride + c * op->places, op->places, middle);
        ((float *)op->mean)[c] = middle;
        ((float *)op->var)[c] = (float)(squares / count);
    }
}

/* One channel of one sample; y, dy and dx point to its places. */
struct back_run {
    const float *x, *y, *dy;
    float *dx;
    float mean, inv_std;
};

static inline struct back_run back_run_of(const struct num_norm_back *op, size_t i, size_t c)
{
    size_t at = (i * op->channels + c) * op->places;
    return (struct back_run){(const float *)op->x + at,    op->y ? (const float *)op->y + at : NULL,
                             (const float *)op->dy + at,   op->dx ? (float *)op->dx + at : NULL,
                             ((const float *)op->mean)[c], ((const float *)op->inv_std)[c]};
}

static inline vec dz_vec(const struct back_run *run, size_t p)
{
    vec dy = load(run->dy + p);
    return run->y ? (vec)((vec_int)dy & (load(run->y + p) > 0)) : dy;
}

static inline float dz_one(const struct back_run *run, size_t p)
{
    return !run->y || run->y[p] > 0 ? run->dy[p] : 0;
}

static inline void back_sums(const struct back_run *run, size_t n, float *d_weight, float *d_bias)
{
    vec weights = {0}, biases = {0};
    float weight = 0, bias = 0;
    size_t p = 0;
    for (; p + LANES <= n; p += LANES) {
        vec dz = dz_vec(run, p);
        biases += dz;
        weights += dz * (load(run->x + p) - run->mean);
    }
    for (; p < n; p++) {
        float dz = dz_one(run, p);
        bias += dz;
        weight += dz * (run->x[p] - run->mean);
    }
    *d_bias = bias + sum_of(biases);
    *d_weight = (weight + sum_of(weights)) * run->inv_std;
}

static inline void back_x(const struct back_run *run, size_t n, float weight, float mean_dz,
                          float mean_dz_xh)
{
    const float factor = weight * run->inv_std, slope = mean_dz_xh * run->inv_std;
    size_t p = 0;
    for (; p + LANES <= n; p += LANES)
        store(run->dx + p,
              factor * (dz_vec(run, p) - mean_dz - (load(run->x + p) - run->mean) * slope));
    for (; p < n; p++)
        run->dx[p] = factor * (dz_one(run, p) - mean_dz - (run->x[p] - run->mean) * slope);
}

static void norm_back_channel(const struct num_norm_back *op, size_t c)
{
    float *d_weight = op->d_weight, *d_bias = op->d_bias;
    double weight_sum = 0, bias_sum = 0;
    for (size_t i = 0; (d_weight || d_bias) && i < op->n; i++) {
        struct back_run run = back_run_of(op, i, c);
        float weight, bias;
        back_sums(&run, op->places, &weight, &bias);
        weight_sum += (double)weight;
        bias_sum += (double)bias;
        if (d_weight)
            d_weight[i * op->d_weight_stride + c] =
                op->d_weight_stride ? weight : (float)weight_sum;
        if (d_bias)
            d_bias[i * op->d_bias_stride + c] = op->d_bias_stride ? bias : (float)bias_sum;
    }
}

static void norm_back(const struct num_norm_back *op)
{
    const float *weight = op->weight, *mean_dz = op->mean_dz, *mean_dz_xh = op->mean_dz_xh;
    for (size_t c = 0; c < op->channels; c++) {
        norm_back_channel(op, c);
        for (size_t i = 0; op->dx && i < op->n; i++) {
            struct back_run run = back_run_of(op, i, c);
            back_x(&run, op->places, weight[c], mean_dz ? mean_dz[c] : 0,
                   mean_dz ? mean_dz_xh[c] : 0);
        }
    }
}
