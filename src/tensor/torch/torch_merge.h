/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of torch.save become one, by rules. Dictionaries are gone through key by key, lists are put
 * behind one another, counts are added; a key that a file lacks, values of different kinds, and values
 * that differ where no rule says what becomes of them are errors that name the path and the files.
 * Nothing in a pickle is run.
 */
#pragma once

#include "rule/rule.h"

struct torch_merge_opts {
    const struct merge_rules *rules;
    bool force;
    bool dry_run;      /* all but the writing */
    bool pass_through; /* callables that are no data are carried over unseen */
    bool
        are_shared; /* large tensors share their bytes with the inputs, unread, where that is possible */
    void (*note)(void *context, const char *text);
    void *context;
};

struct torch_merge_stats {
    uint64_t n_bytes, n_storages, shared_bytes;
};

/* True if the file begins as torch's do, or is a zip. What is no file is for others to judge. */
MUST_CHECK int torch_is_one(const char *path, bool *is_one, struct err *err);
/* ERR_DATA, ERR_USAGE: nothing is put in place. out_path "-" is refused: a zip is not written to a pipe. */
MUST_CHECK int torch_merge(const struct torch_merge_opts *opts, const char *const *paths,
                           size_t n_paths, const char *out_path, struct torch_merge_stats *stats,
                           struct err *err);
