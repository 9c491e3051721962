/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of torch.save become one, by rules. Dictionaries are gone through key by key, lists are put
 * behind one another, counts are added; a key that a file lacks, values of different kinds, and values
 * that differ where no rule says what becomes of them are errors that name the path and the files.
 * Nothing in a pickle is run.
 */
#pragma once

#include "base/stop.h"
#include "base/texts.h"
#include "rule/merge_options.h"
#include "rule/rule.h"

struct torch_merge_opts {
    const struct merge_rules *rules;
    bool force;
    bool dry_run;        /* all but the writing: what would be copied is read, and verified */
    bool pass_through;   /* callables that are no data are carried over unseen */
    const char *id_path; /* NULL, or of values that every record has, no two of them equal */
    bool is_renumbered;  /* ids that are not are numbered anew */
    const struct texts
        *referred;   /* PATH=REFERENCE,…: ids that others refer to (torch_refer_check) */
    bool is_plain;   /* numpy's scalars and arrays become numbers, texts and tensors */
    bool is_compact; /* storages lose what no tensor shows */
    uint64_t splice_least_bytes; /* of a list in a pickle; 0: as it is best */
    const uint64_t *expect;      /* NULL, or how many records there must be in all */
    bool
        is_of_shares; /* a single file is a share of a job too, and the output the whole: batch_name says so */
    bool are_shared; /* large tensors share blocks with the inputs, unread, where that can be */
    struct stop stop;
    void (*note)(void *context, const char *text);
    /* The whole output is on disk and about to be put in place. NULL: nobody wants to know. */
    int (*placing)(void *context, int fd, struct err *err);
    void *context;
};

/* Those that a user says; the rules among them are parsed already. */
struct torch_merge_opts torch_merge_opts_of(const struct merge_options *options,
                                            const struct merge_rules *rules);

struct torch_merge_stats {
    uint64_t n_bytes, n_storages, shared_bytes;
};

/* ERR_USAGE for what names no ids, or no paths of what refers to them. */
MUST_CHECK int torch_refer_check(const char *text, struct err *err);

/*
 * How many records a file holds: what its num_questions or the like says, the length of a list;
 * UINT64_MAX where neither is there. ERR_DATA where it says one thing and holds another, and no rule is about
 * that count.
 */
MUST_CHECK int torch_count(const char *path, const struct merge_rules *rules, uint64_t *n_records,
                           struct err *err);
/*
 * ERR_DATA, ERR_USAGE, ERR_FAILED for another number of records: nothing is put in place. out_path "-" is
 * refused: a zip is not written to a pipe.
 */
MUST_CHECK int torch_merge(const struct torch_merge_opts *opts, const char *const *paths,
                           size_t n_paths, const char *out_path, struct torch_merge_stats *stats,
                           struct err *err);
