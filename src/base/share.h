/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way to cut a number of things into even shares: each has total / n_shares of them, and
 * the first total % n_shares shares have one more. In order, without gaps. Pure.
 */
#pragma once

#include <stdint.h>

struct share {
    uint64_t start, count;
};

/* Precondition: index < n_shares. */
struct share share_of(uint64_t total, uint64_t n_shares, uint64_t index);
