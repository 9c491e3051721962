/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF, the files of llama.cpp: values that describe a model (its architecture, its context), the
 * names, shapes and types of its tensors, and then only their bytes. Versions 2 and 3,
 * little-endian. Only the header is read, a window at a time, so that a vocabulary of megabytes is
 * passed over. Checked as the reference reader does: the tensors follow one another in the order
 * of the header, each aligned, and the last one ends within the file. Source:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/name_index.h"

enum {
    GGUF_DIMS_MAX = 4,
    GGUF_TEXT_BYTES = 64,
    GGUF_HEADER_BYTES_MAX = 1 << 28,
    GGUF_TENSORS_MAX = 1 << 20,
    GGUF_VALUES_MAX = 1 << 16
};

struct gguf_tensor {
    const char *type; /* "Q4_K" */
    uint64_t dims[GGUF_DIMS_MAX];
    uint32_t n_dims;
    uint64_t n_elements, bytes;
};

struct gguf_value {
    char text[GGUF_TEXT_BYTES]; /* a string's value, or its beginning; else empty */
    uint64_t number;   /* a whole number's value; in a list of them the largest; 0 if negative */
    uint64_t n_values; /* 1, or the length of a list */
    bool is_number;    /* `number` has been set */
};

struct gguf {
    uint32_t version;
    struct name_index keys, names; /* of the values and of the tensors, in order */
    struct gguf_value *values;
    struct gguf_tensor *tensors;
    size_t n_values, cap_values, n_tensors, cap_tensors;
    uint64_t data_at; /* in the file */
};

bool gguf_is_one(struct str head);
/* ERR_DATA naming the path, the byte and the reason. Release also after a failure. */
MUST_CHECK int gguf_read(struct gguf *file, const char *path, int fd, uint64_t file_bytes,
                         struct err *err);
void gguf_release(struct gguf *file);
/* NULL if there is no such key. */
const struct gguf_value *gguf_get(const struct gguf *file, struct str key);
