/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what is in a file of tensors. Its kind is found by its first bytes, and the file is
 * checked.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "tensor/tree.h"

struct torch_file;

/*
 * Adds a tree of the file's keys, types, shapes and bytes to `out`; with is_json, one JSON object.
 * For a file of torch it also lists the callables that the file names, and those of them that
 * torch.load refuses by default. ERR_USAGE if the file cannot be opened; ERR_DATA, naming the byte
 * and the reason, if the file is damaged or is none of .pt, .safetensors, .npy and .npz.
 */
MUST_CHECK int inspect_file(const char *path, bool is_json, struct buf *out, struct err *err);

void torch_tree(const struct torch_file *file, struct tree *tree);
