/* SPDX-License-Identifier: Apache-2.0
 *
 * The merge of files of records that are on disk already: into one, in the order given, and checked
 * on the way. What need not change is copied byte for byte. Memory is bounded; the output appears
 * at its place whole, or not at all.
 *
 *   lines      a line each; blank ones count
 *   jsonl      a JSON value a line; blank lines are copied and do not count. The last line of each
 *              window that is read is looked at, the file's among them (a part that was cut off is
 *              refused), every one with `is_checked` or an id
 *   json       arrays: their elements, every one looked at. Files that hold one object each are
 *              metadata instead: they become one object (data/file_merge/metadata.h)
 *   csv, tsv   the first file's header; columns in another order are put into this one. Rows with
 *              too few or too many fields, and quotes that are not closed, are refused. Blank lines
 *              do not count; they are copied where rows need not be looked at one by one
 *
 * But for arrays, line ends become the first file's, and a newline that is missing at the end of a
 * file is added. A byte-order mark is dropped. Files of no bytes have no records.
 */
#pragma once

#include "base/stop.h"
#include "data/result_merge.h"
#include "data/source.h"
#include "rule/rule.h"

struct file_merge_opts {
    enum record_format format;  /* FORMAT_AUTO: by extension, else by the first bytes; all alike */
    enum out_format out_format; /* OUT_AUTO: by the output's extension, else as the files are */
    const struct merge_rules *rules; /* NULL, or for metadata: what becomes of its members */
    /* NULL: ids are not looked at; else every record has it, once each. Of metadata a path. */
    const char *id_field;
    bool is_union;   /* CSV: columns that only some files have are empty in the others */
    bool is_checked; /* JSONL: every line must be a JSON value */
    uint64_t expect; /* records there must be in all, or be told of; UINT64_MAX: no matter */
    bool force;      /* replace an output that exists */
    /* Every record as a JSON object, before anything is written; an error ends it all. NULL: no. */
    int (*look)(void *context, struct str object, struct err *err);
    int (*look_end)(void *context, struct err *err);
    void *look_context;
    /* What was put right, and what the user should know of: one sentence. NULL: nobody listens. */
    void (*note)(void *context, const char *text);
    struct stop stop;
    /* The whole output is on disk and about to be put in place. NULL: nobody wants to know. */
    int (*placing)(void *context, int fd, struct err *err);
    void *context;
};

struct file_merge_stats {
    enum record_format format;  /* that was found */
    enum out_format out_format; /* and made */
    bool is_metadata;           /* objects that became one */
    uint64_t n_records;         /* metadata: files */
    uint64_t n_told;  /* metadata: of how many records it tells, by num_questions or the like */
    uint64_t n_bytes; /* of the output */
    uint64_t *file_records; /* n_paths; NULL, or an array of the caller's */
};

/*
 * Records of one file; of metadata, of how many it tells, UINT64_MAX if it does not. `rules`, or NULL: of
 * metadata, what they are about is not compared with what it counts. ERR_DATA with line or element where
 * it is malformed.
 */
MUST_CHECK int file_merge_count(const char *path, enum record_format format,
                                const struct merge_rules *rules, uint64_t *n_records,
                                struct err *err);
/*
 * Into `output`: beside it, synced, renamed; "-" is stdout, which gets its first byte when all
 * files have been looked through. On any error nothing is put in place.
 *
 * returns  ERR_USAGE  a file is not there, or is named twice, or is the output; the output exists;
 *                     formats differ; a file has no column for the id
 *          ERR_DATA   malformed records; columns that differ, or that cannot be told apart; an id
 *                     that is missing or there twice
 *          ERR_FAILED another number of records than expected
 */
MUST_CHECK int file_merge_write(const struct file_merge_opts *opts, const char *const *paths,
                                size_t n_paths, const char *output, struct file_merge_stats *stats,
                                struct err *err);
/* All that file_merge_write() would refuse, and nothing written; `output` need not be writable. */
MUST_CHECK int file_merge_check(const struct file_merge_opts *opts, const char *const *paths,
                                size_t n_paths, const char *output, struct file_merge_stats *stats,
                                struct err *err);
