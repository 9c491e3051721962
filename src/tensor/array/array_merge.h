/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges files of arrays into one. An array that only one file has is kept. The rule for a name
 * (`NAME=cat0`, `same`, `union`, `first`, `drop`) decides about the arrays of that name in several
 * files. Without a rule, equal arrays are kept once, and different ones are an error that names the
 * cure; but npy files are concatenated, and so are the arrays that all npz files have.
 */
#pragma once

#include "rule/rule.h"
#include "tensor/array/array_plan.h"

struct array_merge_opts {
    const struct merge_rules *rules;
    bool force;
    bool dry_run; /* do everything except writing */
    struct stop stop;
    /* Called when the whole output is on disk and about to be put in place. NULL: not called. */
    int (*placing)(void *context, int fd, struct err *err);
    void *context;
};

/* On an error (ERR_DATA, ERR_USAGE) nothing is put in place. out_path "-" is refused for npz, which
 * cannot be written as a stream. */
MUST_CHECK int array_merge(const struct array_merge_opts *opts, enum tensor_kind kind,
                           const char *const *paths, size_t n_paths, const char *out_path,
                           uint64_t *n_bytes, struct err *err);

/*
 * The number of rows of the arrays that a merge would concatenate with those of other files.
 * UINT64_MAX if there is no such array, or if their numbers of rows differ, so that it is unclear
 * what a record is.
 */
MUST_CHECK int array_count(enum tensor_kind kind, const char *path, const struct merge_rules *rules,
                           uint64_t *n_records, struct err *err);
/* The verb for an array without a rule. `is_shared`: there are several files, and all have an array
 * of this name. */
enum merge_verb array_verb_by_kind(enum tensor_kind kind, const struct array *array,
                                   bool is_shared);

/* Merges the __metadata__ of all files into one object, by rules for `__metadata__.KEY`. */
MUST_CHECK int array_metadata_merge(struct array_plan *plan, const struct merge_rules *rules,
                                    struct err *err);
