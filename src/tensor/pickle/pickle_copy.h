/* SPDX-License-Identifier: Apache-2.0
 *
 * A splice, written into another pickle: its bytes as they are, but for the numbers of the memo. What is put
 * there and never asked for is left out.
 */
#pragma once

#include "tensor/pickle/pickle_write.h"

struct pickle_copy {
    const struct pickle *from;
    uint32_t graph; /* its number, for the sink */
    const struct pickle_sink *sink;
    uint32_t *
        memo; /* by index in the pickle it comes from: the number in the new one + 1, 0: none yet */
    uint32_t *n_memo;
    struct buf *out; /* passed to the sink now and then */
};

/* ERR_DATA if the bytes are not those that were read before. */
MUST_CHECK int pickle_copy(const struct pickle_copy *copy, const struct pickle_splice *splice,
                           struct err *err);
/* How many nodes and splices a list has. */
uint32_t pickle_n_ids(const struct pickle *pickle, const struct pickle_node *list);
/* The next item of a walk through a list of graphs[*graph], if it is a splice; *graph becomes its own. */
const struct pickle_node *pickle_splice_next(const struct pickle *const *graphs, uint32_t *graph,
                                             struct pickle_walk walk);
