/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of arrays become one: what is in one file only is kept; the same name in several goes by the
 * rule for its name (`NAME=cat0`, `same`, `union`, `first`, `drop`). Without a rule, arrays that are
 * the same are kept once and others are an error with the cure; npy files are put one behind the
 * other, and so are the arrays that all npz files have.
 */
#pragma once

#include "rule/rule.h"
#include "tensor/array/array_plan.h"

struct array_merge_opts {
    const struct merge_rules *rules;
    bool force;
    bool dry_run; /* all but the writing */
    struct stop stop;
    /* The whole output is on disk and about to be put in place. NULL: nobody wants to know. */
    int (*placing)(void *context, int fd, struct err *err);
    void *context;
};

/* ERR_DATA, ERR_USAGE: nothing is put in place. out_path "-" is refused for npz, which is no stream. */
MUST_CHECK int array_merge(const struct array_merge_opts *opts, enum tensor_kind kind,
                           const char *const *paths, size_t n_paths, const char *out_path,
                           uint64_t *n_bytes, struct err *err);

/*
 * Rows of the arrays that a merge would put behind those of other files. UINT64_MAX if there are none, or they
 * have not all as many: then nobody can say what is a record.
 */
MUST_CHECK int array_count(enum tensor_kind kind, const char *path, const struct merge_rules *rules,
                           uint64_t *n_records, struct err *err);
/* Without a rule; `is_shared`: all files have an array of this name, and there are several. */
enum merge_verb array_verb_by_kind(enum tensor_kind kind, const struct array *array,
                                   bool is_shared);

/* The __metadata__ of all files as one object, by rules for `__metadata__.KEY`. */
MUST_CHECK int array_metadata_merge(struct array_plan *plan, const struct merge_rules *rules,
                                    struct err *err);
