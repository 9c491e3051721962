/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a splice into another pickle: its bytes are copied, except that memo indices are
 * renumbered, and that objects which are put into the memo and never got from it are not put there.
 */
#pragma once

#include "tensor/pickle/pickle_write.h"

struct pickle_copy {
    const struct pickle *from;
    uint32_t graph; /* the number of its graph, for the sink */
    const struct pickle_sink *sink;
    uint32_t *memo; /* by old memo index: the new one + 1; 0: none yet */
    uint32_t *n_memo;
    struct buf *out; /* the buffer that is passed to the sink whenever it is full */
};

/* ERR_DATA if the bytes are not those that were read before. */
MUST_CHECK int pickle_copy(const struct pickle_copy *copy, const struct pickle_splice *splice,
                           struct err *err);
/* How many nodes and splices a list has. */
uint32_t pickle_n_ids(const struct pickle *pickle, const struct pickle_node *list);
/* The next item of a walk through a list of graphs[*graph] if that item is a splice, else NULL.
 * *graph becomes the graph of the splice. */
const struct pickle_node *pickle_splice_next(const struct pickle *const *graphs, uint32_t *graph,
                                             struct pickle_walk walk);
