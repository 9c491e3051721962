/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening files of arrays:
 *   array_file.c   what a file of each kind holds
 *   array_set.c    all files, none of them twice
 *   array_index.c  model.safetensors.index.json and its shards
 */
#pragma once

#include "tensor/array/array.h"

/* `path` is borrowed. */
MUST_CHECK int array_file_open(struct array_file *file, enum tensor_kind kind, const char *path,
                               struct err *err);
void array_file_release(struct array_file *file);
/* Adds the file to the set; ERR_USAGE if the set has it already. */
MUST_CHECK int array_set_add(struct array_set *set, const char *path, struct err *err);
/* Adds the shards of an index file; ERR_DATA if they do not match the index. */
MUST_CHECK int array_index_add(struct array_set *set, const char *path, struct err *err);
