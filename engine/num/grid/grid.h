/* SPDX-License-Identifier: Apache-2.0
 *
 * The macros that let a kernel be written once for two compilers. nvcc makes a CUDA kernel of it. A
 * C compiler makes a function of it that loops over the blocks and threads of a grid
 * (tests/unit/engine/emulated.c), so that tests can run the kernels on a machine without a GPU.
 *
 * A kernel is a sequence of phases. EACH_THREAD begins a phase, GRID_SYNC() ends it. A value that a
 * thread passes to another thread, or to itself in a later phase, goes through a GRID_SHARED array.
 * Within a phase no thread reads what another thread writes, so that the threads may run in any
 * order: a test runs them forwards, backwards and mixed, and expects the same bits. A loop around
 * phases runs the same number of times in all threads of a block.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/rng.h"

#define GRID_NONE UINT32_MAX /* no column */

enum {
    GRID_THREADS = 256, /* threads of each block */
    GRID_IMAGE_MAX = 1024,
    WHERE_ROWS = 32,  /* rows of a block of add_where */
    GRID_STAGE = 3072 /* elements of dz in shared memory; with two images below 48 KiB */
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
/* The state of an emulated block. */
struct grid {
    size_t block, n_blocks;
    unsigned factor, offset; /* the i-th thread to run is i factor + offset */
    bool is_between;         /* true if a phase has begun, and no GRID_SYNC() came after it */
};

/*
 * Asserts that there is a GRID_SYNC() between any two phases: an emulated block would run without
 * it as well.
 */
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

/*
 * Loops over all i < n, shared out among the threads of all blocks; n may be larger than their
 * number.
 */
#define EACH_ELEMENT(i, t, n) \
    for (size_t i = GRID_BLOCK * GRID_THREADS + t; i < (n); i += GRID_BLOCKS * GRID_THREADS)
/* Loops over all i < n, shared out among the blocks. */
#define EACH_GROUP(i, n) for (size_t i = GRID_BLOCK; i < (n); i += GRID_BLOCKS)

/* partial[0] becomes the sum of all elements, always added in the same order. */
#define GRID_SUM(partial)                                         \
    for (unsigned half = GRID_THREADS / 2; half > 0; half /= 2) { \
        GRID_SYNC();                                              \
        EACH_THREAD (t)                                           \
            if (t < half)                                         \
                (partial)[t] += (partial)[t + half];              \
    }                                                             \
    GRID_SYNC()
