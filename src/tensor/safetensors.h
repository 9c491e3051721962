/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors: a length, a JSON object that names tensors and the places of their bytes, and then
 * only those bytes. Checked as the format requires: the places follow one another without gaps from
 * 0 to the end of the file, and each is as large as its tensor's shape says. Source:
 * https://github.com/huggingface/safetensors#format.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    SAFETENSORS_HEADER_BYTES_MAX = 100000000, /* the limit of the reference reader */
    SAFETENSORS_DIMS_MAX = 64
};

struct safetensors_tensor {
    struct str name; /* as written in the header, with its escapes */
    struct str dtype;
    uint64_t begin, end;      /* offsets from data_at */
    uint32_t dims_at, n_dims; /* its dimensions in `dims` */
};

struct safetensors {
    struct buf header;
    struct str metadata;                /* the object "__metadata__"; empty if there is none */
    struct safetensors_tensor *tensors; /* in the order of their places */
    uint64_t *dims;
    size_t n_tensors, cap_tensors, n_dims, cap_dims;
    uint64_t data_at; /* in the file */
};

/* Bits of an element; 0 for an unknown type, because its size cannot be checked. */
unsigned safetensors_dtype_bits(struct str name);
/*
 * The reference writer places tensors by this rank of their type, the greatest rank first; 0 for an
 * unknown type.
 */
unsigned safetensors_dtype_rank(struct str name);
bool safetensors_is_one(struct str head, uint64_t file_bytes);
/* ERR_DATA naming the path and the tensor. Release also after a failure. */
MUST_CHECK int safetensors_read(struct safetensors *file, const char *path, int fd,
                                uint64_t file_bytes, struct err *err);
void safetensors_release(struct safetensors *file);
