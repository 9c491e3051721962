/* SPDX-License-Identifier: Apache-2.0
 *
 * muster split of files of tensors: the parts of any kind, as a source of files.
 */
#pragma once

#include "base/stop.h"
#include "data/split/split_put.h"
#include "opt/cmd.h"
#include "tensor/kind.h"

struct tensor_parts_opts {
    enum tensor_kind kind;
    const char *path;
    const struct texts *keys; /* of a torch file: the keys that are split */
    bool by_rows, pass_through;
    uint64_t n_parts, records_max, bytes_max; /* exactly one is not 0 */
    struct stop stop;
    void (*note)(void *context, const char *text);
    void *context;
};

struct tensor_parts;

MUST_CHECK int tensor_parts_open(struct tensor_parts **out, const struct tensor_parts_opts *opts,
                                 struct err *err);
void tensor_parts_close(struct tensor_parts *parts);
/* Borrowed; the sizes of parts are known when they have been filled. */
const struct split_part *tensor_parts_list(const struct tensor_parts *parts, size_t *n_parts);
/* The unit that is counted: "row", "tensor", "record". */
const char *tensor_parts_unit(const struct tensor_parts *parts);
/*
 * The names of the parts, as in split_names_init(); for whole tensors of safetensors the names that
 * transformers uses, model-00001-of-00004.safetensors, with the index last. New strings, one for
 * each file.
 */
MUST_CHECK int tensor_parts_names(struct tensor_parts *parts, const char *output,
                                  uint64_t digits_min, struct split_names *names, char ***paths,
                                  size_t *n_paths, struct err *err);
/* `paths` of tensor_parts_names() are borrowed. */
struct split_source tensor_parts_source(struct tensor_parts *parts, char *const *paths,
                                        size_t n_paths);
