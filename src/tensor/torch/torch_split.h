/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a file of torch.save into parts. A list, or a tensor along its first dimension, is divided
 * among the parts, and counts that equal its length change with it; everything else is in every
 * part. Each part has only the storages that it refers to. Nothing in the pickle is run.
 */
#pragma once

#include <sys/stat.h>

#include "base/outfile.h"
#include "base/stop.h"

enum {
    TORCH_PARTS_MAX = 100000
};

struct torch_split_opts {
    /*
     * Paths of the lists and tensors to split. Without paths, the root is split, or all lists and
     * tensors directly in it.
     */
    const char *const *keys;
    size_t n_keys;
    bool pass_through; /* copy unknown callables into the parts as they are */
    struct stop stop;
    void (*note)(void *context, const char *text);
    void *context;
    /* Exactly one of these two is not 0: */
    uint64_t n_parts; /* even sizes; the remainder goes to the first parts, one record each */
    uint64_t records_max;
};

struct torch_range {
    uint64_t first, n_records;
};

struct torch_split;

/*
 * ERR_DATA; ERR_USAGE if it is not clear which values to split: the message then lists the keys of
 * the file.
 */
MUST_CHECK int torch_split_open(struct torch_split **out, const char *path,
                                const struct torch_split_opts *opts, struct err *err);
void torch_split_close(struct torch_split *split);
/* Borrowed. There is at least one part. */
const struct torch_range *torch_split_parts(const struct torch_split *split, size_t *n_parts);
bool torch_split_is_input(const struct torch_split *split, const struct stat *st);
/* Writes a part. The folder in its zip is named after `name`, the part's file name. */
MUST_CHECK int torch_split_fill(struct torch_split *split, size_t part, const char *name,
                                struct outfile *out, struct err *err);
