/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges files of records that are on disk already into one file, in the order given, and checks
 * them on the way. Bytes that need not change are copied as they are. Memory is bounded; the output
 * appears at its place whole, or not at all.
 *
 *   lines      each line is a record; blank ones count
 *   jsonl      a JSON value a line; blank lines are copied and do not count. Checked are the last
 *              line of each window that is read, and so that of the file (a file that was cut off
 *              is refused), and every line with `is_checked` or an id
 *   json       arrays: their elements, all of which are checked. Files that hold one object each
 *              are metadata instead: they become one object (data/file_merge/metadata.h)
 *   csv, tsv   the first file's header; columns in another order are put into this one. Rows with
 *              too few or too many fields, and quotes that are not closed, are refused. Blank lines
 *              do not count; they are copied only where rows are copied in whole windows
 *
 * Except in arrays, line ends become those of the first file, and a newline that is missing at the
 * end of a file is added. A byte-order mark is dropped. An empty file has no records.
 */
#pragma once

#include "base/stop.h"
#include "data/result_merge.h"
#include "data/source.h"
#include "rule/rule.h"

struct file_merge_opts {
    enum record_format format;  /* of all; FORMAT_AUTO: by extension, else by the first bytes */
    enum out_format out_format; /* OUT_AUTO: by the output's extension, else the files' format */
    const struct merge_rules *rules; /* NULL, or for metadata: what becomes of its members */
    /*
     * Every record must have this field, and no two the same value. For metadata it is a path
     * pattern. NULL: ids are not checked.
     */
    const char *id_field;
    bool is_union;   /* CSV: columns that only some files have are empty in the others */
    bool is_checked; /* JSONL: check that every line is a JSON value */
    uint64_t expect; /* how many records there must be (metadata: by its counts); UINT64_MAX: any */
    bool force;      /* replace an output that exists */
    /*
     * Called with every record as a JSON object before anything is written; an error ends the
     * merge. look_end() is called after the last record. NULL: not called.
     */
    int (*look)(void *context, struct str object, struct err *err);
    int (*look_end)(void *context, struct err *err);
    void *look_context;
    /* Called with one sentence about what was corrected or what the user should know. NULL: not
     * called. */
    void (*note)(void *context, const char *text);
    struct stop stop;
    /* Called when the whole output is on disk and about to be put in place. NULL: not called. */
    int (*placing)(void *context, int fd, struct err *err);
    void *context;
};

struct file_merge_stats {
    enum record_format format;  /* of the files, as it was found */
    enum out_format out_format; /* of the output */
    bool is_metadata;           /* the files were one object each and became one object */
    uint64_t n_records;         /* metadata: files */
    uint64_t n_told;            /* metadata: records that its counts state; UINT64_MAX: unknown */
    uint64_t n_bytes;           /* of the output */
    uint64_t *file_records;     /* [n_paths], of each file; the caller's; NULL: not filled */
};

/*
 * The number of records of one file. For metadata it is the number that the counts say, UINT64_MAX
 * if they say none; there a count that one of `rules` (which may be NULL) is about is not compared
 * with the list that it counts. ERR_DATA, naming the line or element, where the file is malformed.
 */
MUST_CHECK int file_merge_count(const char *path, enum record_format format,
                                const struct merge_rules *rules, uint64_t *n_records,
                                struct err *err);
/*
 * Writes the merge to `output`: to a file beside it that is synced and renamed. "-" is stdout,
 * which gets its first byte after all files were checked. On any error nothing is put in place.
 *
 * returns  ERR_USAGE  a file does not exist, is named twice, or is the output; the output exists;
 *                     formats differ; a file has no column for the id
 *          ERR_DATA   malformed records; columns that differ, or that cannot be told apart; an id
 *                     that is missing or there twice
 *          ERR_FAILED another number of records than expected
 */
MUST_CHECK int file_merge_write(const struct file_merge_opts *opts, const char *const *paths,
                                size_t n_paths, const char *output, struct file_merge_stats *stats,
                                struct err *err);
/*
 * Fails with the errors of file_merge_write(), but writes nothing; `output` need not be writable.
 */
MUST_CHECK int file_merge_check(const struct file_merge_opts *opts, const char *const *paths,
                                size_t n_paths, const char *output, struct file_merge_stats *stats,
                                struct err *err);
