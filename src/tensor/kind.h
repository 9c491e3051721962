/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds which kind of file of tensors a file is, by its first bytes. The name only says which kind
 * is expected: a file that is named like a file of tensors but is none is reported as damaged, and
 * is not read as text.
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

/* Enough bytes of a file's beginning to tell its kind: the first name in a zip may be this long. */
enum {
    TENSOR_HEAD_BYTES = 4096
};

const char *tensor_kind_name(enum tensor_kind kind);
/* The kind that the extension says. */
enum tensor_kind tensor_kind_of_name(const char *path);
/*
 * The kind that the first bytes say, or that the extension says if the file is a zip whose first
 * bytes do not tell its kind.
 */
enum tensor_kind tensor_kind_of_head(const char *path, struct str head, uint64_t file_bytes);
/*
 * An index file of a model's shards is TENSOR_SAFETENSORS. Anything but a regular file is
 * TENSOR_NONE: a pipe cannot be opened twice, so it is not read here.
 */
MUST_CHECK int tensor_kind_of(const char *path, enum tensor_kind *kind, struct err *err);
/*
 * As tensor_kind_of(), for an input that the user named. ERR_USAGE if the file does not exist;
 * ERR_DATA if its name is that of a file of tensors and its first bytes are not.
 */
MUST_CHECK int tensor_kind_of_input(const char *path, enum tensor_kind *kind, struct err *err);
