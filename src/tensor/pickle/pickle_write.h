/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes graphs as one pickle of protocol 2, with only the opcodes that torch.load takes under
 * weights_only=True. An object that is referred to several times in a file is written once;
 * different files share only names. Storages get new numbers, in the order of their first use.
 *
 * The graph may be one that was made here; its nodes of kind PICKLE_OF stand for nodes of other
 * graphs.
 */
#pragma once

#include "tensor/pickle/pickle.h"

/* A storage that the new file must contain: entry i of the list is the record data/<i>. */
struct written_storage {
    uint32_t graph, storage;
};

struct pickle_sink {
    int (*write)(void *context, struct str bytes, struct err *err);
    void *context;
    /* For graphs with splices: read() reads a piece of the pickle that the graph was read from,
     * name() is its name for messages. */
    int (*read)(void *context, uint32_t graph, uint64_t at, char *out, size_t len, struct err *err);
    const char *(*name)(void *context, uint32_t graph);
};

struct written_storages {
    struct written_storage *at;
    size_t len;
};

/*
 * Writes the value `root` of graphs[graph] with all its parts, in pieces of some 64 KiB. ERR_DATA
 * for a value that protocol 2 cannot express; errors of the sink are returned. The caller calls
 * free() for storages->at, also after a failure.
 */
MUST_CHECK int pickle_write(const struct pickle *const *graphs, size_t n_graphs, uint32_t graph,
                            pickle_id root, const struct pickle_sink *sink,
                            struct written_storages *storages, struct err *err);
