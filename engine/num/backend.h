/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations that the engine computes with. A backend is a table of functions, one for each
 * operation, and each operation takes one descriptor. `ref` is plain loops in float32 and float64;
 * it is always built, and tests compare the other backends with it. `blas` takes matrix products
 * from OpenBLAS, and convolution, norms, loss and Adam from vector code of its own. `cuda` computes
 * on a GPU, by cuBLAS and kernels of its own (grid/), in a module that is loaded on demand.
 *
 * All arrays are row-major; strides and leading dimensions count elements. An output overlaps no
 * input unless its descriptor says so. An operation runs on the caller's thread alone and its
 * result depends on its descriptor only, so that a caller that cuts work into pieces of fixed size
 * gets the same bits for any number of threads. NaN and infinities propagate as in IEEE 754. Error
 * bounds: tests/unit/engine/test_backend.c.
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

/* Returns element `index` of an array. */
static inline void *num_at(enum num_dtype dtype, void *array, size_t index)
{
    return (char *)array + index * num_bytes(dtype);
}

static inline const void *num_at_const(enum num_dtype dtype, const void *array, size_t index)
{
    return (const char *)array + index * num_bytes(dtype);
}

/* The format that numbers are rounded to. */
enum num_format {
    NUM_FULL, /* not rounded */
    NUM_BF16,
    NUM_FP16
};

/*
 * c (m x n) = alpha op(a) op(b) + beta c; op(a) is m x k. beta 0: c is not read.
 *
 * A format requires float32. Numbers of that format are then multiplied, in that format where the
 * backend can; sums stay float32. Without `rounds`, the rows of a and b have been rounded by
 * num_round, and rows are multiplied with rows (trans_b without trans_a). With `rounds`, a and b
 * hold any numbers, and a copy of each matrix is rounded as num_round would round it if it were one
 * row: a single power of two for all of its numbers is valid for any transposition.
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
 * Copies rows. The pieces of a row may lie apart (`pitch`), and rows may be read and written by
 * index. For each i < n, p < pieces, j < len:
 *   to[to_row(i) to_stride + p to_pitch + j]
 *       =  factor[i] from[from_row(i) from_stride + p from_pitch + j]
 * row(i) is ids[i ids_stride], or i if the ids are NULL. With `add` the right side is added to the
 * left; if several i have the same to_row, they are added in order of i. Without `add` the last of
 * them is kept.
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

/*
 * Dropout. A row has `groups` of `len` successive numbers, which are kept or dropped as one:
 * multiplied by 1 / (1 - probability) or by 0. Rows lie packed, and draw by (seed, first + i), so
 * that rows may be cut into pieces anywhere.
 */
struct num_drop {
    enum num_dtype dtype;
    size_t n, groups, len, first;
    double probability;
    uint64_t seed;
    void *x;
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
 * score, slope = sigmoid(score) - label. Both are exact for large |score| as well.
 */
struct num_logistic {
    enum num_dtype dtype;
    size_t n;
    double label, factor; /* both results times factor */
    const void *score;
    void *loss, *slope; /* either may be NULL; slope may be score */
};

/*
 * Binary cross entropy of many scores, where nearly all labels are the same. In row i, the labels
 * of columns positives[begins[i]] .. positives[begins[i + 1] - 1], ascending, are `positive`, those
 * of all other columns `negative`. score is n x m and holds columns [first, first + m) of a wider
 * matrix. slope = factor (sigmoid(score) - label), *loss = the sum of softplus(score) - label
 * score. slope may be score.
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
 * One step of Adam (Kingma, Ba, ICLR 2015, arXiv 1412.6980); `step` counts from 1:
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
 * Convolution of one image (height x width) per sample with n_filters kernels no larger than the
 * image, stride 1, no padding:
 *   y[f] = act(scale[f] ((weight[f] * x) + bias[f]) + shift[f]),  act = max(0, .) with relu, else
 *   the identity
 * The operator * is correlation, as usual in networks. bias, scale and shift may be NULL, which
 * means 0, 1 and 0.
 */
struct num_conv {
    enum num_dtype dtype;
    size_t n, height, width, n_filters, kernel_height, kernel_width;
    const void *x, *weight, *bias, *scale, *shift;
    bool relu;
    void *y; /* n x n_filters x (height - kernel_height + 1) x (width - kernel_width + 1) */
};

/*
 * The sums that the gradients of num_conv are made of. dz is the gradient of act's argument:
 *   dz = dy where y > 0, else 0 (dz = dy everywhere if y is NULL)
 *   d_weight[f,k] = sum over places of dz[f] x,  d_sum[f] = sum of dz[f],
 *   dx = sum over f of scale[f] weight[f] dz[f]
 * The gradient of weight is scale d_weight, that of bias scale d_sum. With a stride, d_weight and
 * d_sum hold the sums of each sample, `stride` elements apart; with stride 0, sums over all
 * samples. dx may be NULL. The y of sample i is row y_rows[i], or row i if y_rows is NULL.
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
 * Mean and biased variance of several pieces together. Piece i has counts[i] samples; its means and
 * variances are row i of means and vars. inv_std = 1 / sqrt(var + eps).
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
 * The gradients of num_norm. dz = dy where y > 0, else 0 (dz = dy everywhere if y is NULL);
 * xh = (x - mean) inv_std; d_bias = sum of dz, d_weight = sum of dz xh: the sums of each sample,
 * `stride` elements apart, or with stride 0 those over all samples. Either may be NULL.
 *
 * If mean and inv_std are running statistics, mean_dz and mean_dz_xh are NULL and
 * dx = weight inv_std dz. If mean and inv_std are those of the batch, mean_dz and mean_dz_xh are
 * the batch's d_bias and d_weight divided by the number of values that each sums, and
 * dx = weight inv_std (dz - mean_dz - xh mean_dz_xh). dx may be dy, or NULL.
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
 * The sums of num_norm_back of several pieces together. Row i of sums_dz and sums_dz_xh are d_bias
 * and d_weight of piece i; they are added in the order of the pieces. With `adds` d_bias and
 * d_weight grow by the sums, else they are set; the means are the sums times `share`.
 */
struct num_norm_back_merge {
    enum num_dtype dtype;
    size_t n_pieces, channels;
    double share;
    bool adds;
    const void *sums_dz, *sums_dz_xh;
    void *d_bias, *d_weight, *mean_dz, *mean_dz_xh;
};

/*
 * The gradients of a convolution that is followed by batch norm with running statistics, from the
 * sums of num_conv_back, for each sample and filter:
 *   d_norm_bias = d_sum,  d_bias = norm_weight inv_std d_sum,
 *   d_weight[k] = norm_weight inv_std d_weight_sum[k],
 *   d_norm_weight = inv_std (sum over k of weight[k] d_weight_sum[k] + (bias - mean) d_sum)
 * The output of the convolution is linear in its weights, so that the gradient of the norm's weight
 * does not need this output. Each result may be NULL. The results of successive samples lie
 * `stride` elements apart; the sums are packed.
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
 * x n. With b, instead of a[i,j] the inner product of row i of a and row j of b, of `len` numbers:
 * less work than all products where few are added.
 */
struct num_add_where {
    enum num_dtype dtype;
    size_t m, n, len;
    double alpha;
    const void *a, *b;
    const uint32_t *row_ids, *col_ids;
    size_t ids_stride;
    void *y;
};

/*
 * The k strongest values of each row of a packed m x n matrix, the strongest first: by |x| if
 * is_magnitude, else by x. Equal values are ordered by ids[column], the lowest first; values that
 * are not finite come before all others. 0 < k <= n < 2^32 - 1; best and best_ids are m x k.
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
 * Rounds n packed rows of float32 to a format, to the nearest, ties to even. For fp16 each row is
 * multiplied by a power of two of its own before rounding and divided by it afterwards. That brings
 * the largest magnitude of the row to [2^14, 2^15), so that nothing overflows, and what underflow
 * loses is below 2^-38 of the largest.
 */
struct num_round {
    enum num_format format;
    size_t n, len;
    void *x;
};

/*
 * An open backend. Operations are called as be->gemm(be, &op), by any number of threads.
 *
 * The arrays that an operation reads and writes, including indices, lie in memory of `allocate`.
 * That is memory of the host, or with is_device memory that only operations and the functions below
 * may touch. Descriptors lie in memory of the host. The calls of a thread take effect in order.
 * Other threads may use the results of a thread once it has returned from `wait`.
 */
struct num_backend {
    const char *name;
    char description[96];                  /* library or device: "OpenBLAS 0.3.21 ..." */
    void *library;                         /* the backend's data, which num_close() frees */
    void (*close)(struct num_backend *be); /* releases all other resources; may be NULL */
    bool is_device;
    /*
     * ERR_UNAVAILABLE: less memory than that is free; a smaller request may succeed. A host backend
     * never fails.
     */
    int (*allocate)(const struct num_backend *be, size_t bytes, void **out, struct err *err);
    void (*release)(const struct num_backend *be, void *at); /* at may be NULL */
    uint64_t (*memory_free)(const struct num_backend *be);   /* free memory in bytes; NULL: a
                                                              * host backend */
    /* The caller may change `from` as soon as this returns. */
    void (*upload)(const struct num_backend *be, void *to, const void *from, size_t bytes);
    void (*copy)(const struct num_backend *be, void *to, const void *from, size_t bytes);
    void (*fill_zero)(const struct num_backend *be, void *at, size_t bytes);
    /*
     * Both wait for the calls of the thread. The text of ERR_FAILED is the first failure since the
     * backend was opened.
     */
    int (*download)(const struct num_backend *be, void *to, const void *from, size_t bytes,
                    struct err *err);
    int (*wait)(const struct num_backend *be, struct err *err);
    void (*gemm)(const struct num_backend *be, const struct num_gemm *op);
    void (*rows)(const struct num_backend *be, const struct num_rows *op);
    void (*dots)(const struct num_backend *be, const struct num_dots *op);
    void (*drop)(const struct num_backend *be, const struct num_drop *op);
    void (*multiply)(const struct num_backend *be, const struct num_multiply *op);
    void (*logistic)(const struct num_backend *be, const struct num_logistic *op);
    void (*bce)(const struct num_backend *be, const struct num_bce *op);
    void (*adam)(const struct num_backend *be, const struct num_adam *op);
    void (*conv)(const struct num_backend *be, const struct num_conv *op);
    void (*conv_back)(const struct num_backend *be, const struct num_conv_back *op);
    void (*conv_norm)(const struct num_backend *be, const struct num_conv_norm *op);
    void (*add_where)(const struct num_backend *be, const struct num_add_where *op);
    struct { /* of batch norm */
        void (*norm)(const struct num_backend *be, const struct num_norm *op);
        void (*norm_stats)(const struct num_backend *be, const struct num_norm_stats *op);
        void (*norm_merge)(const struct num_backend *be, const struct num_norm_merge *op);
        void (*norm_back)(const struct num_backend *be, const struct num_norm_back *op);
        void (*norm_back_merge)(const struct num_backend *be, const struct num_norm_back_merge *op);
    };
    void (*best)(const struct num_backend *be, const struct num_best *op);
    void (*round)(const struct num_backend *be, const struct num_round *op);
};

/* The host backends, the fastest of them first: num_open() tries them in this order. */
#define NUM_BACKENDS(X) X(blas) X(ref) X(cuda)

/*
 * Opens a host backend by name; NULL: the fastest that works here. ERR_USAGE: there is no such
 * backend, or it computes on a device. ERR_UNAVAILABLE: its library is not installed here. To be
 * called only while no other thread reads the environment, which `blas` changes for a moment.
 */
MUST_CHECK int num_open(struct num_backend *be, const char *name, struct err *err);
/*
 * Like num_open(), but opens backends of a device as well: for callers that keep all arrays in
 * memory of `allocate`. The text of ERR_UNAVAILABLE says what is missing.
 */
MUST_CHECK int num_open_any(struct num_backend *be, const char *name, struct err *err);
void num_close(struct num_backend *be);
/* Adds a line for each backend: "blas: OpenBLAS …", or "blas: not here: …" and why. */
struct buf;
void num_describe(struct buf *out);
