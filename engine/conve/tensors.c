/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/tensors.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pread.h"

static const struct {
    const char *names[2];
    size_t bytes;
} types[] = {
    [TENSOR_F32] = {{"F32", "float32"}, 4},
    [TENSOR_F64] = {{"F64", "float64"}, 8},
    [TENSOR_F16] = {{"F16", "float16"}, 2},
    [TENSOR_BF16] = {{"BF16", "bfloat16"}, 2},
};

void tensor_file_release(struct tensor_file *file)
{
    for (size_t i = 0; i < file->n_tensors; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    file->tensors = NULL;
    file->n_tensors = file->cap_tensors = 0;
}

void tensor_file_add(struct tensor_file *file, const struct named_tensor *tensor)
{
    if (file->n_tensors == file->cap_tensors) {
        file->cap_tensors = file->cap_tensors ? 2 * file->cap_tensors : 32;
        file->tensors = xrealloc(file->tensors, file->cap_tensors * sizeof(*file->tensors));
    }
    file->tensors[file->n_tensors++] = *tensor;
}

const struct named_tensor *tensor_file_find(const struct tensor_file *file, const char *prefix,
                                            const char *name)
{
    size_t len = strlen(prefix);
    for (size_t i = 0; i < file->n_tensors; i++)
        if (strncmp(file->tensors[i].name, prefix, len) == 0 &&
            strcmp(file->tensors[i].name + len, name) == 0)
            return &file->tensors[i];
    return NULL;
}

enum tensor_type tensor_type_of(struct str name)
{
    for (size_t i = 0; i < countof(types); i++)
        for (size_t n = 0; n < countof(types[i].names); n++)
            if (str_equal(name, str_of(types[i].names[n])))
                return (enum tensor_type)i;
    return TENSOR_OTHER;
}

size_t tensor_n_elements(const struct tensor_file *file, const struct named_tensor *tensor)
{
    size_t n = 1;
    for (size_t d = 0; d < tensor->n_dims; d++)
        if (__builtin_mul_overflow(n, tensor->dims[d], &n))
            return 0;
    return n <= file->file_bytes ? n : 0;
}

/* ---- numbers ---- */

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Converts IEEE 754 binary16. */
static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f;
    uint32_t fraction = half & 0x3ff;
    if (exponent == 0) {
        float value = (float)fraction / (float)(1 << 24);
        return sign ? -value : value;
    }
    if (exponent == 0x1f)
        return float_of_bits(sign | 0x7f800000 | fraction << 13);
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static float element(enum tensor_type type, const char *at)
{
    uint64_t bits;
    double wide;
    switch (type) {
    case TENSOR_F32:
        return float_of_bits(le32_get(at));
    case TENSOR_F64:
        bits = le64_get(at);
        memcpy(&wide, &bits, sizeof(wide));
        return (float)wide;
    case TENSOR_F16:
        return float_of_half(le16_get(at));
    case TENSOR_BF16:
        return float_of_bits((uint32_t)le16_get(at) << 16);
    case TENSOR_OTHER:
        break;
    }
    BUG("tensor type %d", (int)type);
}

enum {
    CHUNK_ELEMENTS = 1 << 16
};

static int contiguous_read(const struct tensor_file *file, const struct named_tensor *tensor,
                           size_t n, float *out, struct err *err)
{
    size_t bytes = types[tensor->type].bytes;
    cleanup_free char *chunk = xmalloc(CHUNK_ELEMENTS * bytes);
    for (size_t done = 0; done < n;) {
        size_t take = MIN(n - done, (size_t)CHUNK_ELEMENTS);
        int rc =
            pread_exact(file->fd, chunk, take * bytes, tensor->at + done * bytes, file->path, err);
        if (rc != 0)
            return rc;
        for (size_t i = 0; i < take; i++)
            out[done + i] = element(tensor->type, chunk + i * bytes);
        done += take;
    }
    return 0;
}

/* Reads a view, such as transposed weights, element by element. Files have few of them. */
static int strided_read(const struct tensor_file *file, const struct named_tensor *tensor, size_t n,
                        float *out, struct err *err)
{
    size_t bytes = types[tensor->type].bytes;
    for (size_t i = 0; i < n; i++) {
        char at[sizeof(double)];
        uint64_t offset = 0;
        for (size_t d = tensor->n_dims, rest = i; d > 0; rest /= tensor->dims[d - 1], d--)
            offset += rest % tensor->dims[d - 1] * tensor->strides[d - 1];
        int rc = pread_exact(file->fd, at, bytes, tensor->at + offset * bytes, file->path, err);
        if (rc != 0)
            return rc;
        out[i] = element(tensor->type, at);
    }
    return 0;
}

int tensor_read(const struct tensor_file *file, const struct named_tensor *tensor, float *out,
                struct err *err)
{
    size_t n = 1;
    bool is_contiguous = true;
    if (tensor->type == TENSOR_OTHER)
        return fail(err, ERR_DATA, "%s: the elements of %s are no floats", file->path,
                    tensor->name);
    for (size_t d = tensor->n_dims; d > 0; d--) {
        is_contiguous &= tensor->dims[d - 1] == 1 || tensor->strides[d - 1] == n;
        n *= tensor->dims[d - 1];
    }
    return is_contiguous ? contiguous_read(file, tensor, n, out, err)
                         : strided_read(file, tensor, n, out, err);
}
