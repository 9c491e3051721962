/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rng.h"

static const uint64_t golden_gamma = 0x9e3779b97f4a7c15u;

uint64_t mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t rng_next(struct rng *rng)
{
    rng->state += golden_gamma;
    return mix64(rng->state);
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)rng_next(rng) * bound) >> 64);
}

double rng_unit(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t item_seed(uint64_t base_seed, uint64_t item)
{
    return mix64(mix64(base_seed + golden_gamma) + (item + 1) * golden_gamma);
}
