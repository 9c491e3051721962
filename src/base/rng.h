/* SPDX-License-Identifier: Apache-2.0
 *
 * Randomness that depends on nothing but its seed. Pure: core and kernels of a GPU may use it.
 *
 * splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
 */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define RNG_FUNCTION static __host__ __device__ inline
#else
#define RNG_FUNCTION static inline
#endif

#define RNG_GAMMA 0x9e3779b97f4a7c15u /* 2^64 by the golden ratio */

/* A bijective mixer of 64 bits. */
RNG_FUNCTION uint64_t mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

struct rng {
    uint64_t state;
};

RNG_FUNCTION uint64_t rng_next(struct rng *rng)
{
    rng->state += RNG_GAMMA;
    return mix64(rng->state);
}

/* Uniform in [0, bound), bound > 0; the bias is below 2^-32 for bounds up to 2^32. */
RNG_FUNCTION uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)rng_next(rng) * bound) >> 64);
}

/* Uniform in [0, 1). */
RNG_FUNCTION double rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* What rng_unit() gives after `index` numbers of a generator that begins with `state`. */
RNG_FUNCTION double rng_unit_at(uint64_t state, uint64_t index)
{
    struct rng rng = {state + index * RNG_GAMMA};
    return rng_unit(&rng);
}

/*
 * The seed of one item: a function of the run's base seed and the item's index alone, so that it
 * is the same on 1, 2 or 8 devices, at every attempt, and after a resume.
 */
RNG_FUNCTION uint64_t item_seed(uint64_t base_seed, uint64_t item)
{
    return mix64(mix64(base_seed + RNG_GAMMA) + (item + 1) * RNG_GAMMA);
}
