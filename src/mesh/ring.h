/* SPDX-License-Identifier: Apache-2.0
 *
 * An all-reduce over all ranks, in a ring as gloo and NCCL do it: each rank receives from the one before it and sends to
 * the one after it. The sum is known beforehand, so every rank checks all of it.
 */
#pragma once

#include "mesh/greeting.h"

enum {
    RING_BYTES = 1 << 20,
    RING_MAX_MS = 20000
};

struct ring {
    uint32_t index, count; /* of this rank among those in the ring */
    struct greeting greeting;
};

struct ring_result {
    enum link_state state;
    bool
        is_of_next; /* state: of the connection to the next rank; else of that from the one before */
    uint64_t took_ns; /* of the sum of RING_BYTES; 0: not done */
    uint64_t n_wrong; /* numbers of the sum, LINK_CORRUPTED */
};

void ring_run(const struct ring *ring, struct ring_result *out);
