/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine computes with: a table of operations, one descriptor an operation, a table a
 * backend. `ref` is plain loops in float32 and float64, always built, and what the others are
 * compared with. `blas` takes the products from OpenBLAS, and convolution, norms, loss and Adam from
 * vector code of its own. `cuda` computes on a GPU, by cuBLAS and kernels of its own (grid/), in a
 * module that is loaded when it is asked for.
 *
 * All arrays are row-major; strides and leading dimensions count elements. Outputs overlap no
 * input unless it says so. An operation runs on the caller's thread alone and is a function of its
 * descriptor, so that whoever cuts work into pieces of fixed size gets the same bits for any
 * number of threads. NaN and infinities go through as IEEE 754 has it. Bounds:
 * tests/unit/engine/test_backend.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum num_dtype {
    NUM_F32,
    NUM_F64
};

static inline size_t num_bytes(enum num_dtype dtype)
{
    return dtype == NUM_F64 ? sizeof(double) : sizeof(float);
}

/* Element `index` of an array. */
static inline void *num_at(enum num_dtype dtype, void *array, size_t index)
{
    return (char *)array + index * num_bytes(dtype);
}

static inline const void *num_at_const(enum num_dtype dtype, const void *array, size_t index)
{
    return (const char *)array + index * num_bytes(dtype);
}

/* What numbers were rounded to. */
enum num_format {
    NUM_FULL, /* nothing */
    NUM_BF16,
    NUM_FP16
};

/*
 * c (m x n) = alpha op(a) op(b) + beta c; op(a) is m x k. beta 0: c is not read.
 *
 * With a format, which goes with float32, numbers of that format are multiplied, in it where the
 * backend can; sums stay float32. Either a and b are of num_round, and rows meet rows (trans_b
 * alone). Or with `rounds` they are any numbers, and each of both is rounded on the way, as
 * num_round would if all of it were one row: one power of two goes with any way to sum.
 */
struct num_gemm {
    enum num_dtype dtype;
    bool trans_a, trans_b;
    size_t m, n, k, lda, ldb, ldc;
    double alpha, beta;
    const void *a, *b;
    void *c;
    enum num_format format;
    bool rounds;
};

/*
 * Copies rows about: pieces of a row may lie apart (`pitch`), rows are taken or put by index. For
 * each i < n, p < pieces, j < len:
 *   to[to_row(i) to_stride + p to_pitch + j]
 *       =  factor[i] from[from_row(i) from_stride + p from_pitch + j]
 * row(i) is ids[i ids_stride], or i without ids. With `add` it is added; rows met twice are added
 * in order. Without, the last one stands.
 */
struct num_rows {
    enum num_dtype dtype;
    size_t n, pieces, len;
    const void *from;
    size_t from_stride, from_pitch;
    const uint32_t *from_ids;
    void *to;
    size_t to_stride, to_pitch;
    const uint32_t *to_ids;
    size_t ids_stride;
    const void *factor; /* NULL: 1 */
    bool add;
};

/* out[i] += a[a_row(i)] . b[b_row(i)], the rows being of `len` elements. */
struct num_dots {
    enum num_dtype dtype;
    size_t n, len;
    const void *a, *b;
    size_t a_stride, b_stride;
    const uint32_t *a_ids, *b_ids;
    size_t ids_stride;
    void *out;
};

/* y = alpha a b + beta y, element by element; y may be a or b. */
struct num_multiply {
    enum num_dtype dtype;
    size_t n;
    double alpha, beta;
    const void *a, *b;
    void *y;
};

/*
 * Binary cross entropy of a score's sigmoid, for labels in [0, 1]: loss = softplus(score) - label
 * score, slope = sigmoid(score) - label, exact for large |score| too.
 */
struct num_logistic {
    enum num_dtype dtype;
    size_t n;
    double label, factor; /* both results times factor */
    const void *score;
    void *loss, *slope; /* either may be NULL; slope may be score */
};

/*
 * Binary cross entropy of many scores, where nearly all labels are the same: of row i those of
 * columns positives[begins[i]] .. positives[begins[i + 1] - 1], ascending, are `positive`, all
 * others `negative`. score is n x m and holds columns [first, first + m). slope = factor
 * (sigmoid(score) - label), *loss = the sum of softplus(score) - label score. slope may be score.
 */
struct num_bce {
    enum num_dtype dtype;
    size_t n, m, first;
    const size_t *begins;
    const uint32_t *positives;
    double negative, positive, factor;
    const void *score;
    void *slope;
    double *loss;
};

/*
 * One step of Adam (Kingma, Ba, ICLR 2015, arXiv 1412.6980), the `step`th from 1:
 *   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
 *   w -= rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
 */
struct num_adam {
    enum num_dtype dtype;
    size_t n;
    double rate, beta1, beta2, eps;
    uint64_t step;
    const void *g;
    void *m, *v, *w;
};

/*
 * One image (height x width) a sample, n_filters kernels no larger than it, stride 1, no padding:
 *   y[f] = act(scale[f] ((weight[f] * x) + bias[f]) + shift[f]),  act = max(0, .) with relu
 * * as in networks: correlation. bias, scale, shift may be NULL: 0, 1, 0.
 */
struct num_conv {
    enum num_dtype dtype;
    size_t n, height, width, n_filters, kernel_height, kernel_width;
    const void *x, *weight, *bias, *scale, *shift;
    bool relu;
    void *y; /* n x n_filters x (height - kernel_height + 1) x (width - kernel_width + 1) */
};

/*
 * What its gradients are made of, dz being that of act's argument:
 *   dz = dy where y > 0 (all of it where y is NULL)
 *   d_weight[f,k] = sum over places of dz[f] x,  d_sum[f] = sum of dz[f],
 *   dx = sum over f of scale[f] weight[f] dz[f]
 * weight's gradient is scale d_weight, bias's scale d_sum. Both sums are of one sample and lie
 * `stride` apart, or of all samples with stride 0. dx may be NULL. Sample i's y is row y_rows[i],
 * or i where that is NULL.
 */
struct num_conv_back {
    enum num_dtype dtype;
    size_t n, height, width, n_filters, kernel_height, kernel_width;
    const void *x, *weight, *scale, *y, *dy;
    const uint32_t *y_rows;
    void *d_weight, *d_sum, *dx;
    size_t d_weight_stride, d_sum_stride;
};

/*
 * Batch norm: y = act((x - mean) inv_std weight + bias) by channel; x, y: n x channels x places; y
 * may be x.
 */
struct num_norm {
    enum num_dtype dtype;
    size_t n, channels, places;
    const void *x, *mean, *inv_std, *weight, *bias;
    bool relu;
    void *y;
};

/* Mean and biased variance of each channel. */
struct num_norm_stats {
    enum num_dtype dtype;
    size_t n, channels, places;
    const void *x;
    void *mean, *var;
};

/*
 * The same of several pieces together: piece i has counts[i] samples, and its figures in row i of
 * means and vars. inv_std = 1 / sqrt(var + eps).
 */
struct num_norm_merge {
    enum num_dtype dtype;
    size_t n_pieces, channels;
    const size_t *counts;
    double eps;
    const void *means, *vars;
    void *mean, *var, *inv_std;
};

/*
 * dz = dy where y > 0 (all where y is NULL); xh = (x - mean) inv_std;
 * d_bias = sum of dz, d_weight = sum of dz xh, of one sample and stride apart, or of all samples
 * with stride 0; either may be NULL.
 * dx = weight inv_std dz, or where mean and inv_std are a batch's own, and with it d_weight and
 * d_bias divided by the number of its values are given as mean_dz_xh and mean_dz,
 * weight inv_std (dz - mean_dz - xh mean_dz_xh). dx may be dy, or NULL.
 */
struct num_norm_back {
    enum num_dtype dtype;
    size_t n, channels, places;
    const void *x, *mean, *inv_std, *weight, *y, *dy;
    const void *mean_dz, *mean_dz_xh; /* both or neither */
    void *d_weight, *d_bias, *dx;
    size_t d_weight_stride, d_bias_stride;
};

/*
 * What conv_back's sums say of a convolution with batch norm (running statistics) behind it, of
 * each sample and filter:
 *   d_norm_bias = d_sum,  d_bias = norm_weight inv_std d_sum,
 *   d_weight[k] = norm_weight inv_std d_weight_sum[k],
 *   d_norm_weight = inv_std (sum over k of weight[k] d_weight_sum[k] + (bias - mean) d_sum)
 * The output of the convolution is linear in its weights, so the norm's weight needs no look at
 * it. Results may be NULL, and lie `stride` apart; the sums are packed.
 */
struct num_conv_norm {
    enum num_dtype dtype;
    size_t n, n_filters, kernel;
    const void *d_weight_sum, *d_sum, *weight, *bias, *mean, *inv_std, *norm_weight;
    void *d_weight, *d_bias, *d_norm_weight, *d_norm_bias;
    size_t stride;
};

/*
 * y[i,j] += alpha a[i,j] where row_ids[i ids_stride] = col_ids[j ids_stride]; a and y are packed m
 * x n.
 */
struct num_add_where {
    enum num_dtype dtype;
    size_t m, n;
    double alpha;
    const void *a;
    const uint32_t *row_ids, *col_ids;
    size_t ids_stride;
    void *y;
};

/*
 * The k strongest of each row of a packed m x n matrix, the strongest first: by |x|, or by x, the
 * largest first. Equals go by ids[column], the lowest first; what is not finite comes before all.
 * 0 < k <= n < 2^32 - 1; best and best_ids are m x k.
 */
struct num_best {
    enum num_dtype dtype;
    size_t m, n, k;
    bool is_magnitude;
    const void *x;
    const uint32_t *ids;
    void *best;
    uint32_t *best_ids;
};

/*
 * Rounds n packed rows of float32 to a format, to the nearest, ties to even. For fp16 a row is
 * taken times a power of two of its own, and back: its largest comes to [2^14, 2^15), so that
 * nothing overflows, and what is lost is below 2^-38 of that.
 */
struct num_round {
    enum num_format format;
    size_t n, len;
    void *x;
};

/*
 * One that is open: operations are called as be->gemm(be, &op), by any number of threads.
 *
 * What they read and write, indices as well, lies in memory of `allocate`. It is the host's own,
 * or with is_device is touched by nothing but operations and these functions; descriptors are the
 * host's. A thread's calls take effect in their order. What another thread has asked for is
 * finished once it waited for it.
 */
struct num_backend {
    const char *name;
    char description[96];                  /* what it stands on: "OpenBLAS 0.3.21 ..." */
    void *library;                         /* its own, free()d when it is closed */
    void (*close)(struct num_backend *be); /* what it holds besides; may be NULL */
    bool is_device;
    /* ERR_UNAVAILABLE: so much is not left; with less it may go on. Never on the host. */
    int (*allocate)(const struct num_backend *be, size_t bytes, void **out, struct err *err);
    void (*release)(const struct num_backend *be, void *at); /* NULL: nothing */
    uint64_t (*memory_free)(const struct num_backend *be);   /* of a device; NULL of the host */
    void (*upload)(const struct num_backend *be, void *to, const void *from, size_t bytes);
    void (*copy)(const struct num_backend *be, void *to, const void *from, size_t bytes);
    void (*fill_zero)(const struct num_backend *be, void *at, size_t bytes);
    /* Both wait, and tell what went wrong since the backend was opened: ERR_FAILED. */
    int (*download)(const struct num_backend *be, void *to, const void *from, size_t bytes,
                    struct err *err);
    int (*wait)(const struct num_backend *be, struct err *err);
    void (*gemm)(const struct num_backend *be, const struct num_gemm *op);
    void (*rows)(const struct num_backend *be, const struct num_rows *op);
    void (*dots)(const struct num_backend *be, const struct num_dots *op);
    void (*multiply)(const struct num_backend *be, const struct num_multiply *op);
    void (*logistic)(const struct num_backend *be, const struct num_logistic *op);
    void (*bce)(const struct num_backend *be, const struct num_bce *op);
    void (*adam)(const struct num_backend *be, const struct num_adam *op);
    void (*conv)(const struct num_backend *be, const struct num_conv *op);
    void (*conv_back)(const struct num_backend *be, const struct num_conv_back *op);
    void (*conv_norm)(const struct num_backend *be, const struct num_conv_norm *op);
    void (*add_where)(const struct num_backend *be, const struct num_add_where *op);
    void (*norm)(const struct num_backend *be, const struct num_norm *op);
    void (*norm_stats)(const struct num_backend *be, const struct num_norm_stats *op);
    void (*norm_merge)(const struct num_backend *be, const struct num_norm_merge *op);
    void (*norm_back)(const struct num_backend *be, const struct num_norm_back *op);
    void (*best)(const struct num_backend *be, const struct num_best *op);
    void (*round)(const struct num_backend *be, const struct num_round *op);
};

/* Those of the host first, the fastest of them first. */
#define NUM_BACKENDS(X) X(blas) X(ref) X(cuda)

/*
 * One of the host by name; NULL: the fastest that works here. ERR_USAGE: no such backend, or it is
 * a device's; ERR_UNAVAILABLE: its library is not here. Not while other threads read the
 * environment.
 */
MUST_CHECK int num_open(struct num_backend *be, const char *name, struct err *err);
/* For who keeps to its memory: a device's as well. ERR_UNAVAILABLE also says what is missing. */
MUST_CHECK int num_open_any(struct num_backend *be, const char *name, struct err *err);
void num_close(struct num_backend *be);
/* "blas: OpenBLAS …": a line for each, also for those that are "not here: …". */
struct buf;
void num_describe(struct buf *out);
