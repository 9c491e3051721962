/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/random.h>

/* A random seed for the hashes of one table, so that nobody can write a file whose keys all
 * collide. */
static inline uint64_t hash_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
        seed = (uintptr_t)&seed; /* the random address of the stack instead */
    return seed; /* NOLINT(clang-analyzer-core.StackAddressEscape): a number, not a place */
}
