/* SPDX-License-Identifier: Apache-2.0
 *
 * Randomness that depends on nothing but its seed. Pure: core may use it.
 *
 * splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
 */
#pragma once

#include <stdint.h>

/* A bijective mixer of 64 bits. */
uint64_t mix64(uint64_t x);

struct rng {
    uint64_t state;
};

uint64_t rng_next(struct rng *rng);
/* Uniform in [0, bound), bound > 0; the bias is below 2^-32 for bounds up to 2^32. */
uint64_t rng_below(struct rng *rng, uint64_t bound);
/* Uniform in [0, 1). */
double rng_unit(struct rng *rng);

/*
 * The seed of one item: a function of the run's base seed and the item's index alone, so that it
 * is the same on 1, 2 or 8 devices, at every attempt, and after a resume.
 */
uint64_t item_seed(uint64_t base_seed, uint64_t item);
