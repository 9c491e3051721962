/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kind of file of tensors a file is: by its first bytes. Its name only says what is to be expected:
 * what is named as tensors and is none is damaged, and no text.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum tensor_kind {
    TENSOR_NONE,
    TENSOR_TORCH,
    TENSOR_SAFETENSORS,
    TENSOR_NPY,
    TENSOR_NPZ,
    N_TENSOR_KINDS
};

/* Bytes at a file's beginning that tell its kind: a zip's first name may be as long as that. */
enum {
    TENSOR_HEAD_BYTES = 4096
};

const char *tensor_kind_name(enum tensor_kind kind);
/* By the extension: what is expected of it. */
enum tensor_kind tensor_kind_of_name(const char *path);
enum tensor_kind tensor_kind_of_head(struct str head, uint64_t file_bytes);
/*
 * The index of a model's shards stands for them. TENSOR_NONE of what is no file: a pipe is not opened
 * twice, so it is not looked into.
 */
MUST_CHECK int tensor_kind_of(const char *path, enum tensor_kind *kind, struct err *err);
/* The same of what a user names: it is there, and ERR_DATA says that it is not what its name says. */
MUST_CHECK int tensor_kind_of_input(const char *path, enum tensor_kind *kind, struct err *err);
