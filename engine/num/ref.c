/* SPDX-License-Identifier: Apache-2.0
 *
 * The plain loops, for both types.
 */
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "num/backend_impl.h"
#include "num/format.h"

#define REAL         float
#define SQRT         sqrtf
#define KERNEL(name) name##_f32
#include "num/ref_kernels.h"
#undef REAL
#undef SQRT
#undef KERNEL
#define REAL         double
#define SQRT         sqrt
#define KERNEL(name) name##_f64
#include "num/ref_kernels.h"

#define BY_DTYPE(name)                                                                \
    static void ref_##name(const struct num_backend *be, const struct num_##name *op) \
    {                                                                                 \
        (void)be;                                                                     \
        if (op->dtype == NUM_F64)                                                     \
            name##_f64(op);                                                           \
        else                                                                          \
            name##_f32(op);                                                           \
    }

BY_DTYPE(gemm)
BY_DTYPE(rows)
BY_DTYPE(dots)
BY_DTYPE(multiply)
BY_DTYPE(logistic)
BY_DTYPE(bce)
BY_DTYPE(adam)
BY_DTYPE(conv)
BY_DTYPE(conv_back)
BY_DTYPE(conv_norm)
BY_DTYPE(add_where)
BY_DTYPE(norm)
BY_DTYPE(norm_stats)
BY_DTYPE(norm_merge)
BY_DTYPE(norm_back)
BY_DTYPE(best)

static void row_round(enum num_format format, float *x, size_t len)
{
    float largest = 0;
    for (size_t j = 0; format == NUM_FP16 && j < len; j++)
        largest = isfinite(x[j]) && fabsf(x[j]) > largest ? fabsf(x[j]) : largest;
    int shift = format_shift(format, largest, FORMAT_TOP);
    float up = ldexpf(1, shift), down = ldexpf(1, -shift);
    for (size_t j = 0; j < len; j++)
        x[j] = format_round(format, x[j] * up) * down;
}

static void ref_round(const struct num_backend *be, const struct num_round *op)
{
    (void)be;
    for (size_t i = 0; op->format != NUM_FULL && i < op->n; i++)
        row_round(op->format, (float *)op->x + i * op->len, op->len);
}

int num_open_ref(struct num_backend *be, struct err *err)
{
    (void)err;
    *be = (struct num_backend){
        .name = "ref",
        .description = "plain loops",
        .gemm = ref_gemm,
        .rows = ref_rows,
        .dots = ref_dots,
        .multiply = ref_multiply,
        .logistic = ref_logistic,
        .bce = ref_bce,
        .adam = ref_adam,
        .conv = ref_conv,
        .conv_back = ref_conv_back,
        .conv_norm = ref_conv_norm,
        .add_where = ref_add_where,
        .norm = ref_norm,
        .norm_stats = ref_norm_stats,
        .norm_merge = ref_norm_merge,
        .norm_back = ref_norm_back,
        .best = ref_best,
        .round = ref_round,
    };
    num_host_memory(be);
    return 0;
}
