/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of torch.save cut into parts: a list, or a tensor along its first dimension, goes into them
 * piece by piece, and counts that say how long it is with it; everything else is in every part. Of
 * the storages each part has those that it refers to. Nothing in the pickle is run.
 */
#pragma once

#include <sys/stat.h>

#include "base/outfile.h"
#include "base/stop.h"

enum {
    TORCH_PARTS_MAX = 100000
};

struct torch_split_opts {
    /* What is cut, by its path; none: the root, or all lists and tensors that stand in it. */
    const char *const *keys;
    size_t n_keys;
    bool pass_through; /* callables that are no data are carried over unseen */
    struct stop stop;
    void (*note)(void *context, const char *text);
    void *context;
    /* Exactly one of them is not 0: */
    uint64_t n_parts; /* sizes by divmod, the remainder to the first */
    uint64_t records_max;
};

struct torch_range {
    uint64_t first, n_records;
};

struct torch_split;

/* ERR_DATA, ERR_USAGE where it is not clear what to cut: the sentence has the keys there are. */
MUST_CHECK int torch_split_open(struct torch_split **out, const char *path,
                                const struct torch_split_opts *opts, struct err *err);
void torch_split_close(struct torch_split *split);
/* Borrowed. At least one. */
const struct torch_range *torch_split_parts(const struct torch_split *split, size_t *n_parts);
bool torch_split_is_input(const struct torch_split *split, const struct stat *st);
/* `name` is the part's own, which the folder within it is called by. */
MUST_CHECK int torch_split_fill(struct torch_split *split, size_t part, const char *name,
                                struct outfile *out, struct err *err);
