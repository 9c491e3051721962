/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads safetensors. Files that muster writes have plain names, and in __metadata__ what the sizes
 * do not say. Files of other programs are read like torch's state dicts.
 */
#include <stdlib.h>

#include "base/json.h"
#include "base/xalloc.h"
#include "conve/model.h"
#include "conve/tensors.h"
#include "tensor/safetensors.h"

static bool metadata_get(struct str metadata, const char *key, struct buf *text)
{
    struct str value;
    buf_reset(text);
    return json_get(metadata, key, &value) && json_to_text(value, text);
}

static int metadata_read(struct tensor_file *file, struct str metadata, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    const char *key;
    int rc = 0;
    for (size_t i = 0; rc == 0 && (key = tensor_file_fact_key(i)) != NULL; i++)
        if (metadata_get(metadata, key, &text))
            rc = tensor_file_fact(file, str_of(key), buf_str(&text), err);
    return rc;
}

int tensors_of_safetensors(struct tensor_file *file, struct err *err)
{
    struct safetensors in = {0};
    int rc = safetensors_read(&in, file->path, file->fd, file->file_bytes, err);
    for (size_t i = 0; rc == 0 && i < in.n_tensors; i++) {
        const struct safetensors_tensor *from = &in.tensors[i];
        struct named_tensor tensor = {.type = tensor_type_of(from->dtype),
                                      .n_dims = from->n_dims,
                                      .at = in.data_at + from->begin};
        if (from->n_dims > CONVE_DIMS_MAX)
            continue;
        size_t stride = 1;
        for (size_t d = from->n_dims; d > 0; d--) {
            tensor.dims[d - 1] = in.dims[from->dims_at + d - 1];
            tensor.strides[d - 1] = stride;
            stride *= tensor.dims[d - 1];
        }
        tensor.name = xstrndup(from->name.at, from->name.len);
        tensor_file_add(file, &tensor);
    }
    if (rc == 0 && in.metadata.len)
        rc = metadata_read(file, in.metadata, err);
    safetensors_release(&in);
    return rc;
}
