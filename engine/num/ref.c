/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations as plain loops, for float32 and float64.
 */
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "num/backend_impl.h"

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

BY_DTYPE(rows)
BY_DTYPE(dots)
BY_DTYPE(drop)
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
BY_DTYPE(norm_back_merge)
BY_DTYPE(best)

static void ref_gemm(const struct num_backend *be, const struct num_gemm *op)
{
    if (op->rounds)
        num_gemm_rounded(be, op);
    else if (op->dtype == NUM_F64)
        gemm_f64(op);
    else
        gemm_f32(op);
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
        .drop = ref_drop,
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
        .norm_back_merge = ref_norm_back_merge,
        .best = ref_best,
        .round = num_host_round,
    };
    num_host_memory(be);
    return 0;
}
