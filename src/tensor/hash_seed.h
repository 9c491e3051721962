/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <sys/random.h>

/* For the hashes of one table: nobody can write a file whose keys all fall on one place of it. */
static inline uint64_t hash_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
        seed = (uintptr_t)&seed; /* what the system lays out at random instead */
    return seed; /* NOLINT(clang-analyzer-core.StackAddressEscape): a number, not a place */
}
