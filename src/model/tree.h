/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules of a model, made from the names of its tensors: in the order in which they are
 * registered, with those that have no tensors, with buffers that no file has, and with tied
 * weights, as the class of transformers would have them. core/partition.h cuts it.
 */
#pragma once

#include "core/partition.h"
#include "model/architecture.h"
#include "model/model.h"

enum {
    MODEL_DEPTH_MAX = 32, /* modules in modules */
    MODEL_MODULES_MAX = 1 << 22
};

struct model_tree_wish {
    struct str layout;   /* instead of the table's (architecture.h); empty: none */
    uint32_t type_bytes; /* of float types as they are loaded; 0: as config.json or the files say */
    uint64_t context, batch; /* for the KV cache; 0: without it */
};

struct model_tree {
    struct partition_model of;
    const struct architecture *architecture; /* NULL: not in the table */
    bool is_guessed;     /* neither the table nor the wish has a layout: the order is that of the
                      * files, and numbered modules are not cut */
    uint32_t type_bytes; /* 0: as stored */
    size_t n_blocks, n_cached;
    uint64_t cache_bytes; /* of the KV cache of all blocks */
    bool lacks_cache;     /* blocks keep one, and config.json does not say of which size */
    /* What `of` points to. */
    struct partition_module *modules;
    struct partition_tensor *tensors;
    struct name_index module_names, tensor_names;
};

/* ERR_DATA if names, or sizes, are such as no model has; ERR_USAGE if the layout is malformed.
 * Release also after a failure. */
MUST_CHECK int model_tree_make(const struct model *model, const struct model_tree_wish *wish,
                               struct model_tree *out, struct err *err);
void model_tree_release(struct model_tree *tree);
