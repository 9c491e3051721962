/* SPDX-License-Identifier: Apache-2.0
 *
 * model.safetensors.index.json: which shard each tensor of a model is in, and how many bytes all
 * tensors have. Source: what transformers and huggingface_hub write.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    SAFETENSORS_INDEX_BYTES_MAX = 100000000 /* the same limit as for a header */
};

/* Does the path end with .index.json, and the file hold an object with a weight_map? */
bool safetensors_index_is_one(const char *path);
/* Gives the weight_map, a view of `text`, and the total_size, UINT64_MAX if there is none. ERR_DATA
 * if the file is malformed. */
MUST_CHECK int safetensors_index_read(const char *path, struct buf *text, struct str *weight_map,
                                      uint64_t *total_size, struct err *err);
