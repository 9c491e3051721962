/* SPDX-License-Identifier: Apache-2.0
 *
 * model.safetensors.index.json: which of its shards each tensor of a model is in, and how many bytes
 * all of them have. Source: what transformers and huggingface_hub write.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    SAFETENSORS_INDEX_BYTES_MAX = 100000000 /* as many as a header may have */
};

/* Does it end in .index.json, and hold an object with a weight_map? */
bool safetensors_index_is_one(const char *path);
/* The members of the weight_map, and its total_size, UINT64_MAX if there is none. ERR_DATA. */
MUST_CHECK int safetensors_index_read(const char *path, struct buf *text, struct str *weight_map,
                                      uint64_t *total_size, struct err *err);
