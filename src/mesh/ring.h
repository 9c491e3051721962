/* SPDX-License-Identifier: Apache-2.0
 *
 * An all-reduce over all ranks in a ring, as gloo and NCCL do it: each rank receives from the rank before it and
 * sends to the rank after it. The right sum is known beforehand, so every rank checks all of its numbers.
 */
#pragma once

#include "mesh/greeting.h"

enum {
    RING_BYTES = 1 << 20,
    RING_MAX_MS = 20000
};

struct ring {
    uint32_t index, count; /* the position of this rank, and the number of ranks in the ring */
    struct greeting greeting;
};

struct ring_result {
    enum link_state state;
    bool is_of_next;  /* `state`: of the link to the next rank, else of that from the rank before */
    uint64_t took_ns; /* time of the sum of RING_BYTES; 0: not done */
    uint64_t n_wrong; /* LINK_CORRUPTED: how many numbers of the sum are wrong */
};

void ring_run(const struct ring *ring, struct ring_result *out);
