/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a splice into another pickle. Its bytes are copied, with two changes: memo indices are
 * renumbered, and objects that are put into the memo and never got from it are not put there.
 */
#pragma once

#include "tensor/pickle/pickle_write.h"

struct pickle_copy {
    const struct pickle *from;
    uint32_t graph; /* the number of the splice's graph, for the sink */
    const struct pickle_sink *sink;
    uint32_t *memo; /* by old memo index: the new index + 1; 0: no new index yet */
    uint32_t *n_memo;
    struct buf *out; /* the buffer that is passed to the sink whenever it is full */
};

/* ERR_DATA if the bytes have changed since the pickle was read. */
MUST_CHECK int pickle_copy(const struct pickle_copy *copy, const struct pickle_splice *splice,
                           struct err *err);
/* The number of nodes and splices in a list. */
uint32_t pickle_n_ids(const struct pickle *pickle, const struct pickle_node *list);
/* The next item of a walk through a list of graphs[*graph] if that item is a splice, else NULL.
 * *graph becomes the graph of the splice. */
const struct pickle_node *pickle_splice_next(const struct pickle *const *graphs, uint32_t *graph,
                                             struct pickle_walk walk);
