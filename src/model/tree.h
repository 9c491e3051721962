/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of a model's modules, made from the names of its tensors. The tree is as in the class of transformers:
 * modules in the order of their registration, also modules without tensors, buffers that no file has, and tied
 * weights. core/partition.h cuts the tree.
 */
#pragma once

#include "core/partition.h"
#include "model/architecture.h"
#include "model/model.h"

enum {
    MODEL_DEPTH_MAX = 32, /* levels of modules */
    MODEL_MODULES_MAX = 1 << 22
};

struct model_tree_wish {
    struct str layout;       /* used instead of the table's (architecture.h); empty: none */
    uint32_t type_bytes;     /* of loaded float types; 0: as in config.json or the files */
    uint64_t context, batch; /* for the KV cache; 0: no cache */
};

struct model_tree {
    struct partition_model of;
    const struct architecture *architecture; /* NULL: not in the table */
    bool is_guessed;                         /*
 * neither the table nor the wish has a layout: modules are in the order of the files, and numbered modules are not
 * cut
 */
    uint32_t type_bytes;                     /* 0: as stored */
    size_t n_blocks, n_cached;
    uint64_t cache_bytes; /* of the KV cache of all blocks */
    bool lacks_cache;     /* blocks keep a KV cache, but config.json lacks its size */
    /* `of` points to these. */
    struct partition_module *modules;
    struct partition_tensor *tensors;
    struct name_index module_names, tensor_names;
};

/*
 * Makes a tree. Release it also after a failure. ERR_DATA if no model can have such names or sizes; ERR_USAGE if the
 * layout is malformed.
 */
MUST_CHECK int model_tree_make(const struct model *model, const struct model_tree_wish *wish,
                               struct model_tree *out, struct err *err);
void model_tree_release(struct model_tree *tree);
