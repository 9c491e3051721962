/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "model/model_impl.h"
#include "tensor/safetensors.h"

static int tensor_take(struct model *model, const struct model_file *in,
                       const struct safetensors *file, const struct safetensors_tensor *tensor,
                       struct err *err)
{
    cleanup_buf struct buf name = BUF_INIT;
    uint64_t n = 1;
    bool is_one = json_key_to_text(tensor->name, &name);
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        is_one = is_one && !__builtin_mul_overflow(n, file->dims[tensor->dims_at + i], &n);
    if (!is_one)
        return fail(err, ERR_DATA,
                    "%s: tensor \"%.*s\" has a name that is no text, or a shape "
                    "beyond 64 bits",
                    in->path, (int)MIN(tensor->name.len, (size_t)80), tensor->name.at);
    const struct model_found found = {.name = buf_str(&name),
                                      .dtype = tensor->dtype,
                                      .bits = safetensors_dtype_bits(tensor->dtype),
                                      .n_elements = n,
                                      .bytes = tensor->end - tensor->begin};
    return model_tensor_add(model, in, &found, err);
}

int model_safetensors_read(struct model *model, const struct model_file *in, struct err *err)
{
    struct safetensors file = {0};
    int rc = safetensors_read(&file, in->path, in->fd, in->bytes, err);
    for (size_t i = 0; rc == 0 && i < file.n_tensors; i++)
        rc = tensor_take(model, in, &file, &file.tensors[i], err);
    safetensors_release(&file);
    model->format = MODEL_SAFETENSORS;
    return rc;
}
