/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that are written once: nvcc makes kernels of them, a C compiler functions that go over
 * the blocks and threads of a grid in loops (tests/unit/engine/emulated.c), so that a machine
 * without a GPU can show what they compute.
 *
 * A kernel is a sequence of phases. EACH_THREAD begins one, GRID_SYNC() ends it; what one thread
 * must tell another, or itself in a later phase, goes through GRID_SHARED arrays. Within a phase
 * no thread reads what another one writes, so that they may be run in any order: a test runs them
 * forwards, backwards and mixed, and wants the same bits. Loops around phases run alike in all
 * threads of a block.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

#define GRID_NONE UINT32_MAX /* no column */

enum {
    GRID_THREADS = 256, /* of a block, always */
    GRID_IMAGE_MAX = 1024,
    GRID_STAGE = 3072 /* elements of dz in shared memory; with an image or two, below 48 KiB */
};

#ifdef __CUDACC__
#define GRID_FUNCTION static __device__ inline
#define GRID_KERNEL(name, type) \
    static __global__ void __launch_bounds__(GRID_THREADS) KERNEL(name)(const type op)
#define GRID_SHARED    __shared__
#define GRID_BLOCK     ((size_t)blockIdx.x)
#define GRID_BLOCKS    ((size_t)gridDim.x)
#define GRID_SYNC()    __syncthreads()
#define EACH_THREAD(t) for (unsigned t = threadIdx.x, once = 1; once; once = 0)
#else
/* Where an emulated block is. */
struct grid {
    size_t block, n_blocks;
    unsigned factor, offset; /* threads in the order i factor + offset */
    bool is_between;         /* a phase has ended, and no GRID_SYNC() came yet */
};

/* There is a barrier between any two phases of a block: here it would not be missed. */
static inline unsigned grid_phase(struct grid *grid)
{
    ASSERT(!grid->is_between);
    grid->is_between = true;
    return 0;
}

#define GRID_FUNCTION           static inline
#define GRID_KERNEL(name, type) static void KERNEL(name)(struct grid * grid, const type op)
#define GRID_SHARED
#define GRID_BLOCK  (grid->block)
#define GRID_BLOCKS (grid->n_blocks)
#define GRID_SYNC() (void)(grid->is_between = false)
#define EACH_THREAD(t)                                                      \
    for (unsigned at_##t = grid_phase(grid), t;                             \
         at_##t < GRID_THREADS &&                                           \
         (t = (at_##t * grid->factor + grid->offset) % GRID_THREADS, true); \
         at_##t++)
#endif

/* Element by element, however many there are. */
#define EACH_ELEMENT(i, t, n) \
    for (size_t i = GRID_BLOCK * GRID_THREADS + t; i < (n); i += GRID_BLOCKS * GRID_THREADS)
/* A block a group. */
#define EACH_GROUP(i, n) for (size_t i = GRID_BLOCK; i < (n); i += GRID_BLOCKS)

/* partial[0] becomes the sum of all, in an order that depends on nothing. */
#define GRID_SUM(partial)                                         \
    for (unsigned half = GRID_THREADS / 2; half > 0; half /= 2) { \
        GRID_SYNC();                                              \
        EACH_THREAD (t)                                           \
            if (t < half)                                         \
                (partial)[t] += (partial)[t + half];              \
    }                                                             \
    GRID_SYNC()
