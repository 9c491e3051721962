/* SPDX-License-Identifier: Apache-2.0
 *
 * Ours: plain names, and in __metadata__ what the sizes do not say. Others' are read too, as
 * torch's state dicts are.
 */
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/parse.h"
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
    uint64_t size;
    int rc = 0;
    if (metadata_get(metadata, "conve.layout", &text)) {
        for (enum conve_layout layout = LAYOUT_WIDTH; layout <= LAYOUT_HEIGHT; layout++)
            if (str_equal(buf_str(&text), str_of(conve_layout_name(layout))))
                file->layout = layout;
        if (file->layout == LAYOUT_AUTO)
            rc = fail(err, ERR_DATA, "conve.layout: expected width or height, found '%s'",
                      buf_text(&text));
    }
    if (rc == 0 && metadata_get(metadata, "conve.height", &text)) {
        rc = u64_parse(buf_str(&text), 1, UINT32_MAX, &size, err);
        file->height = rc == 0 ? size : 0;
    }
    file->is_reciprocal =
        metadata_get(metadata, "conve.reciprocal", &text) && str_equal(buf_str(&text), STR("true"));
    if (rc == 0 && metadata_get(metadata, "conve.bn_eps", &text))
        rc = double_parse(buf_str(&text), &file->bn_eps, err);
    if (rc == 0 && (file->bn_eps < 0 || file->bn_eps > 1))
        rc = fail(err, ERR_DATA, "conve.bn_eps: expected 0 to 1, found %g", file->bn_eps);
    if (rc == 0 && metadata_get(metadata, CONVE_LEARNING_RATE, &text))
        rc = double_parse(buf_str(&text), &file->learning_rate, err);
    if (rc == 0 && !(file->learning_rate >= 0 && isfinite(file->learning_rate)))
        rc = fail(err, ERR_DATA, CONVE_LEARNING_RATE ": expected a number above 0, found %g",
                  file->learning_rate);
    return rc == 0 ? 0 : wrap(err, ERR_DATA, "%s: __metadata__", file->path);
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
