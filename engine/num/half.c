/* SPDX-License-Identifier: Apache-2.0
 *
 * The 16-bit formats on the host. The host cannot multiply in either format: numbers are rounded,
 * and the products of rounded numbers are computed in float32.
 */
#include <math.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/xalloc.h"
#include "num/backend_impl.h"
#include "num/format.h"

/* Returns the largest finite magnitude, for fp16 only. Magnitudes are ordered as their bits are. */
static float largest_of(enum num_format format, const float *x, size_t len)
{
    int32_t largest = 0;
    for (size_t j = 0; format == NUM_FP16 && j < len; j++) {
        int32_t size = (int32_t)(format_bits(x[j]) & 0x7fffffffu);
        size = size < 0x7f800000 ? size : 0;
        largest = size > largest ? size : largest;
    }
    return format_float((uint32_t)largest);
}

/* For fp16, numbers are multiplied by 2^shift, rounded, and divided again. */
static void numbers_round(enum num_format format, int shift, const float *from, size_t len,
                          float *to)
{
    float up = ldexpf(1, shift), down = ldexpf(1, -shift);
    if (format == NUM_BF16)
        for (size_t j = 0; j < len; j++)
            to[j] = format_bf16(from[j]);
    else
        for (size_t j = 0; j < len; j++)
            to[j] = format_fp16(from[j] * up) * down;
}

void num_host_round(const struct num_backend *be, const struct num_round *op)
{
    (void)be;
    for (size_t i = 0; op->format != NUM_FULL && i < op->n; i++) {
        float *x = (float *)op->x + i * op->len;
        float largest = largest_of(op->format, x, op->len);
        numbers_round(op->format, format_shift(op->format, largest, FORMAT_TOP), x, op->len, x);
    }
}

/* ---- products of factors that are not rounded yet ---- */

/*
 * Returns a packed copy of n rows that lie `stride` apart, rounded with one shift for all of them.
 */
static float *rounded_new(enum num_format format, const float *x, size_t n, size_t len,
                          size_t stride)
{
    float *to = xmalloc(MAX(n * len, (size_t)1) * sizeof(*to)), largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, largest_of(format, x + i * stride, len));
    int shift = format_shift(format, largest, FORMAT_TOP);
    for (size_t i = 0; i < n; i++)
        numbers_round(format, shift, x + i * stride, len, to + i * len);
    return to;
}

void num_gemm_rounded(const struct num_backend *be, const struct num_gemm *op)
{
    ASSERT(op->dtype == NUM_F32 && op->format != NUM_FULL);
    struct num_gemm rounded = *op;
    size_t a_rows = op->trans_a ? op->k : op->m, b_rows = op->trans_b ? op->n : op->k;
    rounded.rounds = false;
    rounded.lda = op->trans_a ? op->m : op->k;
    rounded.ldb = op->trans_b ? op->k : op->n;
    float *a = rounded_new(op->format, op->a, a_rows, rounded.lda, op->lda);
    float *b = rounded_new(op->format, op->b, b_rows, rounded.ldb, op->ldb);
    rounded.a = a;
    rounded.b = b;
    be->gemm(be, &rounded);
    free(a);
    free(b);
}
