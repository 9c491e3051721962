/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/engine/emulated.h"

#include <pthread.h>
#include <string.h>

#include "base/attr.h"
#include "base/xalloc.h"
#include "num/backend_impl.h"
#include "num/format.h"
#include "num/grid/grid.h"

enum {
    GRID_BLOCKS_MAX = 3 /* few, so that the loops over blocks are gone through */
};

struct emulated {
    unsigned factor, offset;
};

static pthread_once_t is_made = PTHREAD_ONCE_INIT;
static pthread_key_t workspace; /* of each thread */

static void workspace_make(void)
{
    ASSERT(pthread_key_create(&workspace, free) == 0);
}

#define GRID_RUN(be, kernel, blocks, op)                                                       \
    do {                                                                                       \
        const struct emulated *of = (be)->library;                                             \
        struct grid grid = {.n_blocks = (blocks), .factor = of->factor, .offset = of->offset}; \
        for (; grid.block < grid.n_blocks; grid.block++, grid.is_between = false)              \
            kernel(&grid, op);                                                                 \
    } while (0)

#include "num/grid/launch.h"

/* Of element (row, col) in a column-major array. */
static size_t place(bool trans, size_t ld, size_t row, size_t col)
{
    return trans ? row * ld + col : col * ld + row;
}

static double element(const struct num_gemm *op, const void *at, bool trans, size_t ld, size_t row,
                      size_t col)
{
    size_t i = place(trans, ld, row, col);
    return op->dtype == NUM_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static void platform_gemm(const struct num_backend *be, const struct num_gemm *op)
{
    (void)be;
    for (size_t j = 0; j < op->n; j++)
        for (size_t i = 0; i < op->m; i++) {
            void *c = num_at(op->dtype, op->c, j * op->ldc + i);
            double sum = op->beta == 0 ? 0 : op->beta * element(op, c, false, 0, 0, 0);
            for (size_t p = 0; p < op->k; p++)
                sum += op->alpha * element(op, op->a, op->trans_a, op->lda, i, p) *
                       element(op, op->b, op->trans_b, op->ldb, p, j);
            if (op->dtype == NUM_F64)
                *(double *)c = sum;
            else
                *(float *)c = (float)sum;
        }
}

static float decode(enum num_format format, uint16_t half)
{
    int power = half >> 10 & 31, digits = half & 1023;
    if (format == NUM_BF16)
        return format_float((uint32_t)half << 16);
    float value = power == 31  ? (digits ? NAN : INFINITY)
                  : power == 0 ? ldexpf((float)digits, -24)
                               : ldexpf((float)(digits + 1024), power - 25);
    return half & 0x8000 ? -value : value;
}

static void platform_gemm_half(const struct num_backend *be, const struct num_gemm *op)
{
    (void)be;
    const uint16_t *a = op->a, *b = op->b;
    for (size_t j = 0; j < op->n; j++)
        for (size_t i = 0; i < op->m; i++) {
            float *c = (float *)op->c + j * op->ldc + i, sum = 0;
            for (size_t p = 0; p < op->k; p++)
                sum += decode(op->format, a[place(op->trans_a, op->lda, i, p)]) *
                       decode(op->format, b[place(op->trans_b, op->ldb, p, j)]);
            *c = (float)op->alpha * sum + (op->beta == 0 ? 0 : (float)op->beta * *c);
        }
}

static void *platform_workspace(const struct num_backend *be, size_t bytes)
{
    void *at = xmalloc(bytes);
    (void)be;
    free(pthread_getspecific(workspace));
    ASSERT(pthread_setspecific(workspace, at) == 0);
    return at;
}

static void platform_failed(const struct num_backend *be, const char *what, const char *why)
{
    (void)be;
    BUG("%s: %s", what, why);
}

static void emulated_close(struct num_backend *be)
{
    (void)be;
    free(pthread_getspecific(workspace));
    ASSERT(pthread_setspecific(workspace, NULL) == 0);
}

void emulated_open(struct num_backend *be, enum emulated_order order)
{
    static const struct emulated orders[] = {[EMULATED_FORWARDS] = {1, 0},
                                             [EMULATED_BACKWARDS] = {255, 255},
                                             [EMULATED_MIXED] = {77, 130}};
    ASSERT(pthread_once(&is_made, workspace_make) == 0);
    *be = (struct num_backend){.name = "emulated", .description = "kernels on the host"};
    num_host_memory(be);
    grid_operations(be);
    be->close = emulated_close;
    be->library = xmalloc(sizeof(struct emulated));
    memcpy(be->library, &orders[order], sizeof(orders[order]));
}
