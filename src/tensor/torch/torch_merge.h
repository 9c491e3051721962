/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges files of torch.save into one, by rules. Dictionaries are merged key by key, lists are
 * concatenated, counts are added. A key that a file lacks, values of different kinds, and different
 * values without a rule for them are errors that name the path and the files. Nothing in a pickle
 * is run.
 */
#pragma once

#include "base/stop.h"
#include "base/texts.h"
#include "rule/merge_options.h"
#include "rule/rule.h"

struct torch_merge_opts {
    const struct merge_rules *rules;
    bool force;
    bool dry_run;        /* write nothing, but read and verify what would be copied */
    bool pass_through;   /* copy unknown callables into the output as they are */
    const char *id_path; /* path of the ids: one for each record, no two equal; NULL: not checked */
    bool is_renumbered;  /* give new numbers to ids if they are not unique */
    const struct texts *referred; /* PATH=REFERENCE,…: ids and references (torch_refer_check) */
    bool is_plain;   /* turn numpy's scalars and arrays into numbers, texts and tensors */
    bool is_compact; /* shrink storages to what tensors use */
    uint64_t splice_least_bytes; /* of a list that becomes a splice (pickle.h); 0: the default */
    const uint64_t *expect;      /* how many records there must be in all; NULL: any number */
    bool is_of_shares; /* a single file is a share too: batch_name becomes that of the whole */
    bool are_shared;   /* share blocks of large tensors with the inputs, unread, if possible */
    struct stop stop;
    void (*note)(void *context, const char *text);
    /* Called when the whole output is on disk and about to be put in place. NULL: not called. */
    int (*placing)(void *context, int fd, struct err *err);
    void *context;
};

/* The options that the user gave; `rules` are their rules, parsed already. */
struct torch_merge_opts torch_merge_opts_of(const struct merge_options *options,
                                            const struct merge_rules *rules);

struct torch_merge_stats {
    uint64_t n_bytes, n_storages, shared_bytes;
};

/* Checks a `referred` option. ERR_USAGE if it names no path of ids, or no paths of references to
 * them. */
MUST_CHECK int torch_refer_check(const char *text, struct err *err);

/*
 * How many records a file has: the number that its num_questions or a similar count states, or the
 * length of a list; UINT64_MAX if the file has neither. ERR_DATA if a count differs from the list
 * that it counts, and no rule is about that count.
 */
MUST_CHECK int torch_count(const char *path, const struct merge_rules *rules, uint64_t *n_records,
                           struct err *err);
/*
 * Merges the files. On an error nothing is put in place: ERR_DATA, ERR_USAGE, or ERR_FAILED for
 * another number of records than expected. out_path "-" is refused, because a zip cannot be written
 * to a pipe.
 */
MUST_CHECK int torch_merge(const struct torch_merge_opts *opts, const char *const *paths,
                           size_t n_paths, const char *out_path, struct torch_merge_stats *stats,
                           struct err *err);
