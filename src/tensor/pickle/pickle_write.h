/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs that were read become one pickle of protocol 2, with the opcodes that torch.load takes under
 * weights_only=True and no others. An object met twice is written once, within a file; files share
 * nothing but names. Storages get new numbers, in the order in which they are met first.
 *
 * What is written may be a graph made here, whose nodes of kind PICKLE_OF stand for those of others.
 */
#pragma once

#include "tensor/pickle/pickle.h"

/* A storage that the new file has to hold: number i of the list is record data/<i>. */
struct written_storage {
    uint32_t graph, storage;
};

struct pickle_sink {
    int (*write)(void *context, struct str bytes, struct err *err);
    void *context;
    /* Of graphs with splices: a piece of the pickle that the graph was read from, and what that is called. */
    int (*read)(void *context, uint32_t graph, uint64_t at, char *out, size_t len, struct err *err);
    const char *(*name)(void *context, uint32_t graph);
};

struct written_storages {
    struct written_storage *at;
    size_t len;
};

/*
 * The value `root` of graphs[graph] with all that it holds, in pieces of some 64 KiB. ERR_DATA for what
 * protocol 2 has no words for; what the sink says. free() storages->at, also after a failure.
 */
MUST_CHECK int pickle_write(const struct pickle *const *graphs, size_t n_graphs, uint32_t graph,
                            pickle_id root, const struct pickle_sink *sink,
                            struct written_storages *storages, struct err *err);
