/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of backend.h as launches of kernels. The functions that a platform has to define
 * come first; the platforms are cuda.cu and tests/unit/engine/emulated.c.
 */

/* ---- of the platform ----
 *
 * GRID_RUN(be, kernel, n_blocks, op) runs the kernel in n_blocks blocks of GRID_THREADS threads.
 * GRID_BLOCKS_MAX is the most blocks of a launch; kernels loop over what is left.
 */

/* `op` is column-major, as in BLAS. */
static void platform_gemm(const struct num_backend *be, const struct num_gemm *op);
/* Like platform_gemm, with a and b in 16 bits, c and beta in float32. */
static void platform_gemm_half(const struct num_backend *be, const struct num_gemm *op);
/*
 * Returns memory of the calling thread, which is valid until the thread asks again; NULL: there is
 * none left.
 */
static void *platform_workspace(const struct num_backend *be, size_t bytes);
/* Keeps the message that `what` could not be done. */
static void platform_failed(const struct num_backend *be, const char *what, const char *why);

/* ---- descriptors of kernels that are a part of an operation ---- */

/* Samples that are cut into n parts of `samples` each; the last part has the rest. */
struct parts {
    size_t n, samples;
};

GRID_FUNCTION size_t part_samples(const struct parts *parts, size_t n, size_t first)
{
    return n - first < parts->samples ? n - first : parts->samples;
}

/* means and vars hold a number for each part and channel. */
struct norm_stats_parts {
    struct num_norm_stats stats;
    struct parts parts;
    void *means, *vars;
};

/* The share of a part in all samples. */
#define PART_SHARE(op, part)                                                        \
    ((double)part_samples(&(op).parts, (op).stats.n, (part) * (op).parts.samples) / \
     (double)(op).stats.n)

/* The sums of each part. A stride is the distance from the sums of a part to those of the next. */
struct norm_back_parts {
    struct num_norm_back back;
    struct parts parts;
    void *d_weight, *d_bias; /* either may be NULL */
    size_t d_weight_stride, d_bias_stride;
};

/* to: a number for each column of packed rows */
struct column_sums {
    enum num_dtype dtype;
    size_t n_rows, n_columns;
    const void *from;
    void *to;
};

struct adam_step {
    struct num_adam adam;
    double rate, scale; /* these are corrected by the powers of beta1 and beta2 */
};

/* A row is cut into n_parts of part_len columns; `losses` holds the loss of each part. */
struct bce_parts {
    struct num_bce bce;
    size_t n_parts, part_len;
    double *losses;
};

/* shift: NULL where the format needs none. largest: NULL where each row has its own shift. */
struct half_pack {
    enum num_format format;
    int top;
    size_t n, len, stride, to_stride, n_largest;
    const float *x;
    float *largest;
    uint16_t *to;
    int *shift;
};

struct half_unshift {
    size_t m, n, product_stride, ldc, shift_stride;
    const int *a_shift, *b_shift;
    const float *product;
    float beta, *c;
};

/* ---- kernels ---- */

#define REAL            float
#define GRID_MATH(name) name##f
#define KERNEL(name)    name##_f32
#include "num/grid/kernels.h"
#include "num/grid/kernels_conv.h"
#include "num/grid/kernels_half.h"
#include "num/grid/kernels_norm.h"
#undef REAL
#undef GRID_MATH
#undef KERNEL
#define REAL            double
#define GRID_MATH(name) name
#define KERNEL(name)    name##_f64
#include "num/grid/kernels.h"
#include "num/grid/kernels_conv.h"
#include "num/grid/kernels_norm.h"
#undef REAL
#undef GRID_MATH
#undef KERNEL

static size_t blocks_of(size_t n)
{
    return n < GRID_BLOCKS_MAX ? n : GRID_BLOCKS_MAX;
}

#define LAUNCH(be, name, dtype, groups, op)         \
    do {                                            \
        size_t n_blocks = blocks_of(groups);        \
        if (n_blocks > 0 && (dtype) == NUM_F64)     \
            GRID_RUN(be, name##_f64, n_blocks, op); \
        else if (n_blocks > 0)                      \
            GRID_RUN(be, name##_f32, n_blocks, op); \
    } while (0)

/* Returns the number of blocks that have one thread for each element. */
static size_t groups_of(size_t n_elements)
{
    return (n_elements + GRID_THREADS - 1) / GRID_THREADS;
}

/* ---- products ---- */

/* A row-major array is the transpose of a column-major one: c' = op(b)' op(a)'. */
static struct num_gemm by_columns(const struct num_gemm *op)
{
    struct num_gemm columns = *op;
    columns.trans_a = op->trans_b;
    columns.trans_b = op->trans_a;
    columns.m = op->n;
    columns.n = op->m;
    columns.lda = op->ldb;
    columns.ldb = op->lda;
    columns.a = op->b;
    columns.b = op->a;
    return columns;
}

/* A factor of a product in 16 bits: its rows in float32, and where the packed rows go. */
struct half_factor {
    const void *x;
    size_t n, len, stride, to_stride;
    uint16_t *to;
    int *shift;
    float *largest;
};

enum {
    HALF_LARGEST_MAX = 256, /* parts of a matrix that are searched at the same time */
    HALF_ALIGNED = 8        /* in 16-bit numbers: rows begin at multiples of it, which is faster */
};

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static struct half_factor half_factor(const void *x, size_t n, size_t len, size_t stride)
{
    return (struct half_factor){
        x,    n,    len, stride, (len + HALF_ALIGNED - 1) / HALF_ALIGNED * HALF_ALIGNED,
        NULL, NULL, NULL};
}

static size_t half_bytes(const struct half_factor *factor)
{
    return aligned(factor->n * factor->to_stride * sizeof(uint16_t)) +
           aligned(factor->n * sizeof(int)) + HALF_LARGEST_MAX * sizeof(float);
}

/* bfloat16 needs no shift; `largest` is needed only for one shift for all rows (op->rounds). */
static void half_place(struct half_factor *factor, const struct num_gemm *op, char *room)
{
    size_t shift_at = aligned(factor->n * factor->to_stride * sizeof(uint16_t));
    size_t largest_at = shift_at + aligned(factor->n * sizeof(int));
    factor->to = (uint16_t *)(void *)room;
    if (op->format == NUM_FP16)
        factor->shift = (int *)(void *)(room + shift_at);
    if (op->format == NUM_FP16 && op->rounds)
        factor->largest = (float *)(void *)(room + largest_at);
}

static void half_pack(const struct num_backend *be, const struct num_gemm *op,
                      const struct half_factor *factor)
{
    struct half_pack pack = {op->format, op->rounds ? FORMAT_TOP : FORMAT_TOP_PACKED};
    pack.n = factor->n;
    pack.len = factor->len;
    pack.stride = factor->stride;
    pack.to_stride = factor->to_stride;
    pack.n_largest = factor->n < HALF_LARGEST_MAX ? factor->n : HALF_LARGEST_MAX;
    pack.x = (const float *)factor->x;
    pack.largest = factor->largest;
    pack.to = factor->to;
    pack.shift = factor->shift;
    if (pack.largest)
        GRID_RUN(be, half_largest_f32, blocks_of(pack.n_largest), pack);
    GRID_RUN(be, half_pack_f32, blocks_of(pack.n), pack);
}

/* The factors of fp16 were multiplied by powers of two: a second kernel undoes this in the sums. */
static void half_product(const struct num_backend *be, const struct num_gemm *op,
                         const struct half_factor *a, const struct half_factor *b, float *product)
{
    struct num_gemm packed = *op;
    packed.a = a->to;
    packed.b = b->to;
    packed.lda = a->to_stride;
    packed.ldb = b->to_stride;
    if (product) {
        packed.c = product;
        packed.ldc = op->n;
    }
    if (a->shift)
        packed.beta = 0;
    struct num_gemm columns = by_columns(&packed);
    platform_gemm_half(be, &columns);
    if (!a->shift)
        return;
    struct half_unshift unshift = {op->m, op->n, packed.ldc, op->ldc};
    unshift.shift_stride = op->rounds ? 0 : 1;
    unshift.a_shift = a->shift;
    unshift.b_shift = b->shift;
    unshift.product = (const float *)packed.c;
    unshift.beta = (float)op->beta;
    unshift.c = (float *)op->c;
    GRID_RUN(be, half_unshift_f32, blocks_of(groups_of(op->m * op->n)), unshift);
}

/* Returns false if the product must be computed in float32. */
static bool gemm_half(const struct num_backend *be, const struct num_gemm *op)
{
    bool is_by_rows = !op->trans_a && op->trans_b;
    if (op->dtype != NUM_F32 || (!is_by_rows && !op->rounds))
        return false;
    struct half_factor a =
        half_factor(op->a, op->trans_a ? op->k : op->m, op->trans_a ? op->m : op->k, op->lda);
    struct half_factor b =
        half_factor(op->b, op->trans_b ? op->n : op->k, op->trans_b ? op->k : op->n, op->ldb);
    bool has_product = op->format == NUM_FP16 && op->beta != 0;
    size_t factors = half_bytes(&a) + half_bytes(&b);
    char *room =
        (char *)platform_workspace(be, factors + (has_product ? op->m * op->n * sizeof(float) : 0));
    if (!room)
        return false;
    half_place(&a, op, room);
    half_place(&b, op, room + half_bytes(&a));
    half_pack(be, op, &a);
    half_pack(be, op, &b);
    half_product(be, op, &a, &b, has_product ? (float *)(void *)(room + factors) : NULL);
    return true;
}

static void grid_gemm(const struct num_backend *be, const struct num_gemm *op)
{
    struct num_gemm columns = by_columns(op);
    if (op->m == 0 || op->n == 0)
        return;
    if (op->k == 0)
        LAUNCH(be, scale, op->dtype, groups_of(op->m * op->n), *op);
    else if (op->format != NUM_FULL && gemm_half(be, op))
        return;
    else if (op->rounds) /* float32 instead would make the bits depend on free memory */
        platform_failed(be, "product in 16 bits", "there is no memory left");
    else
        platform_gemm(be, &columns);
}

/* ---- the rest ---- */

static void grid_rows(const struct num_backend *be, const struct num_rows *op)
{
    if (op->to_ids)
        LAUNCH(be, rows_scatter, op->dtype, op->n, *op);
    else
        LAUNCH(be, rows, op->dtype, groups_of(op->n * op->pieces * op->len), *op);
}

static void grid_dots(const struct num_backend *be, const struct num_dots *op)
{
    LAUNCH(be, dots, op->dtype, op->n, *op);
}

static void grid_drop(const struct num_backend *be, const struct num_drop *op)
{
    LAUNCH(be, drop, op->dtype, groups_of(op->n * op->groups * op->len), *op);
}

static void grid_multiply(const struct num_backend *be, const struct num_multiply *op)
{
    LAUNCH(be, multiply, op->dtype, groups_of(op->n), *op);
}

static void grid_logistic(const struct num_backend *be, const struct num_logistic *op)
{
    LAUNCH(be, logistic, op->dtype, groups_of(op->n), *op);
}

static void grid_bce(const struct num_backend *be, const struct num_bce *op)
{
    enum {
        PART = 8 * GRID_THREADS
    };
    struct bce_parts parts = {*op, (op->m + PART - 1) / PART, PART};
    size_t n = op->n * parts.n_parts;
    parts.losses = (double *)platform_workspace(be, (n + 1) * sizeof(double));
    if (!parts.losses) {
        platform_failed(be, "cross entropy", "there is no memory left");
        return;
    }
    LAUNCH(be, bce, op->dtype, n, parts);
    LAUNCH(be, bce_sum, op->dtype, 1, parts);
}

static void grid_adam(const struct num_backend *be, const struct num_adam *op)
{
    struct adam_step step = {*op, op->rate / (1 - pow(op->beta1, (double)op->step)),
                             1 / sqrt(1 - pow(op->beta2, (double)op->step))};
    LAUNCH(be, adam, op->dtype, groups_of(op->n), step);
}

static void grid_conv(const struct num_backend *be, const struct num_conv *op)
{
    size_t map = (op->height - op->kernel_height + 1) * (op->width - op->kernel_width + 1);
    if (op->kernel_height == 3 && op->kernel_width == 3 && op->height * op->width <= GRID_IMAGE_MAX)
        LAUNCH(be, conv_3x3, op->dtype, op->n, *op);
    else
        LAUNCH(be, conv_any, op->dtype, groups_of(op->n * op->n_filters * map), *op);
}

/* Computes the sums of each sample, and dx. */
static void conv_back_each(const struct num_backend *be, const struct num_conv_back *op)
{
    size_t image = op->height * op->width, kernel = op->kernel_height * op->kernel_width;
    size_t map = (op->height - op->kernel_height + 1) * (op->width - op->kernel_width + 1);
    if (image <= GRID_IMAGE_MAX && map < GRID_STAGE) {
        LAUNCH(be, conv_back, op->dtype, op->n, *op);
        return;
    }
    LAUNCH(be, conv_back_sums, op->dtype, op->n * op->n_filters * (kernel + 1), *op);
    if (op->dx)
        LAUNCH(be, conv_back_image, op->dtype, groups_of(op->n * image), *op);
}

static void column_sums(const struct num_backend *be, enum num_dtype dtype, size_t n_rows,
                        size_t n_columns, const void *from, void *to)
{
    const struct column_sums sums = {dtype, n_rows, n_columns, from, to};
    LAUNCH(be, column_sums, dtype, n_columns, sums);
}

/* Sums over all samples are computed by adding up the sums of each sample. */
static void grid_conv_back(const struct num_backend *be, const struct num_conv_back *op)
{
    struct num_conv_back each = *op;
    size_t filters = op->n_filters, weights = filters * op->kernel_height * op->kernel_width;
    if (op->n == 0)
        return;
    if (op->d_weight_stride == 0 || op->d_sum_stride == 0) {
        size_t bytes = op->n * (weights + filters) * num_bytes(op->dtype);
        void *room = platform_workspace(be, bytes);
        if (!room) {
            platform_failed(be, "convolution", "there is no memory left");
            return;
        }
        if (op->d_weight_stride == 0) {
            each.d_weight = room;
            each.d_weight_stride = weights;
        }
        if (op->d_sum_stride == 0) {
            each.d_sum = num_at(op->dtype, room, op->n * weights);
            each.d_sum_stride = filters;
        }
    }
    conv_back_each(be, &each);
    if (op->d_weight_stride == 0)
        column_sums(be, op->dtype, op->n, weights, each.d_weight, op->d_weight);
    if (op->d_sum_stride == 0)
        column_sums(be, op->dtype, op->n, filters, each.d_sum, op->d_sum);
}

static void grid_conv_norm(const struct num_backend *be, const struct num_conv_norm *op)
{
    LAUNCH(be, conv_norm, op->dtype, groups_of(op->n * op->n_filters), *op);
}

static void grid_add_where(const struct num_backend *be, const struct num_add_where *op)
{
    LAUNCH(be, add_where, op->dtype, groups_of(op->n) * ((op->m + WHERE_ROWS - 1) / WHERE_ROWS),
           *op);
}

static void grid_norm(const struct num_backend *be, const struct num_norm *op)
{
    LAUNCH(be, norm, op->dtype, groups_of(op->n * op->channels * op->places), *op);
}

/*
 * Cuts samples into parts of about a thousand numbers of a channel; there are at most as many parts
 * as a block has threads.
 */
static struct parts parts_of(size_t n, size_t places)
{
    enum {
        PART = 4 * GRID_THREADS
    };
    size_t samples = PART / (places + 1) + 1, most = (n + GRID_THREADS - 1) / GRID_THREADS;
    if (samples < most)
        samples = most;
    return (struct parts){(n + samples - 1) / samples, samples};
}

static void grid_norm_stats(const struct num_backend *be, const struct num_norm_stats *op)
{
    struct norm_stats_parts parts = {*op, parts_of(op->n, op->places), op->mean, op->var};
    size_t n = parts.parts.n * op->channels;
    if (parts.parts.n > 1) {
        parts.means = platform_workspace(be, 2 * n * num_bytes(op->dtype));
        parts.vars = num_at(op->dtype, parts.means, n);
    }
    if (!parts.means && n > 0) {
        platform_failed(be, "statistics", "there is no memory left");
        return;
    }
    LAUNCH(be, norm_stats, op->dtype, n, parts);
    if (parts.parts.n > 1)
        LAUNCH(be, norm_stats_together, op->dtype, op->channels, parts);
}

static void grid_norm_merge(const struct num_backend *be, const struct num_norm_merge *op)
{
    LAUNCH(be, norm_merge, op->dtype, groups_of(op->channels), *op);
}

/* Computes the sums of each sample, if the stride is not 0. */
static void norm_back_each(const struct num_backend *be, const struct num_norm_back *op)
{
    struct norm_back_parts parts = {*op, {op->n, 1}};
    parts.d_weight = op->d_weight_stride ? op->d_weight : NULL;
    parts.d_bias = op->d_bias_stride ? op->d_bias : NULL;
    parts.d_weight_stride = op->d_weight_stride;
    parts.d_bias_stride = op->d_bias_stride;
    if (parts.d_weight || parts.d_bias)
        LAUNCH(be, norm_back_sums, op->dtype, op->n * op->channels, parts);
}

/* Computes the sums over all samples, if the stride is 0. */
static void norm_back_all(const struct num_backend *be, const struct num_norm_back *op)
{
    struct norm_back_parts parts = {*op, parts_of(op->n, op->places)};
    void *d_weight = op->d_weight_stride ? NULL : op->d_weight;
    void *d_bias = op->d_bias_stride ? NULL : op->d_bias;
    size_t n = parts.parts.n, channels = op->channels;
    if (!d_weight && !d_bias)
        return;
    parts.d_weight = d_weight;
    parts.d_bias = d_bias;
    if (n > 1) {
        void *room = platform_workspace(be, 2 * n * channels * num_bytes(op->dtype));
        if (!room) {
            platform_failed(be, "gradients of a norm", "there is no memory left");
            return;
        }
        parts.d_weight = d_weight ? room : NULL;
        parts.d_bias = d_bias ? num_at(op->dtype, room, n * channels) : NULL;
        parts.d_weight_stride = parts.d_bias_stride = channels;
    }
    LAUNCH(be, norm_back_sums, op->dtype, n * channels, parts);
    if (n > 1 && d_weight)
        column_sums(be, op->dtype, n, channels, parts.d_weight, d_weight);
    if (n > 1 && d_bias)
        column_sums(be, op->dtype, n, channels, parts.d_bias, d_bias);
}

static void grid_norm_back(const struct num_backend *be, const struct num_norm_back *op)
{
    enum {
        FEW = 32
    };
    size_t n_elements = op->n * op->channels * op->places;
    if (op->n == 0)
        return;
    bool is_each = (op->d_weight || op->d_bias) && (!op->d_weight || op->d_weight_stride) &&
                   (!op->d_bias || op->d_bias_stride);
    if (is_each && op->places < FEW) {
        LAUNCH(be, norm_back_few, op->dtype, groups_of(op->n * op->channels), *op);
    } else {
        norm_back_each(be, op);
        norm_back_all(be, op);
    }
    if (op->dx)
        LAUNCH(be, norm_back_x, op->dtype, groups_of(n_elements), *op);
}

static void grid_norm_back_merge(const struct num_backend *be, const struct num_norm_back_merge *op)
{
    LAUNCH(be, norm_back_merge, op->dtype, groups_of(op->channels), *op);
}

static void grid_best(const struct num_backend *be, const struct num_best *op)
{
    LAUNCH(be, best, op->dtype, op->k > 0 ? op->m : 0, *op);
}

static void grid_round(const struct num_backend *be, const struct num_round *op)
{
    if (op->format != NUM_FULL && op->n > 0)
        GRID_RUN(be, round_f32, blocks_of(op->n), *op);
}

/* Sets the operations of the table; the platform sets the functions for memory. */
static void grid_operations(struct num_backend *be)
{
    be->gemm = grid_gemm;
    be->rows = grid_rows;
    be->dots = grid_dots;
    be->drop = grid_drop;
    be->multiply = grid_multiply;
    be->logistic = grid_logistic;
    be->bce = grid_bce;
    be->adam = grid_adam;
    be->conv = grid_conv;
    be->conv_back = grid_conv_back;
    be->conv_norm = grid_conv_norm;
    be->add_where = grid_add_where;
    be->norm = grid_norm;
    be->norm_stats = grid_norm_stats;
    be->norm_merge = grid_norm_merge;
    be->norm_back = grid_norm_back;
    be->norm_back_merge = grid_norm_back_merge;
    be->best = grid_best;
    be->round = grid_round;
}
