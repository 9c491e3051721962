/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a merge of files, shared by the files that implement it:
 *   file_merge.c          options, the passes, the output
 *   file_merge_head.c     files opened: formats, headers
 *   file_merge_columns.c  which columns go where
 *   file_merge_lines.c    lines and JSONL
 *   file_merge_rows.c     CSV and TSV
 *   file_merge_array.c    JSON arrays
 *   file_merge_metadata.c files of one object each
 *   file_merge_convert.c  from one format to another
 *   file_merge_ids.c      each id once
 *   file_merge_place.c    where an offset of a file is, for messages
 */
#pragma once

#include "base/name_index.h"
#include "base/outfile.h"
#include "data/csv.h"
#include "data/file_merge/file_merge.h"
#include "data/source_impl.h"

enum {
    FILE_MERGE_WINDOW_BYTES = 1024 * 1024,
    /* Before a record gets more memory than this, the whole file is checked for a quote that is not
     * closed. */
    FILE_MERGE_RECORD_BYTES = 16 * FILE_MERGE_WINDOW_BYTES,
};

struct file_merge_input {
    struct source_file head; /* opened; where the records begin */
    enum record_format format;
    char separator; /* CSV, TSV */
    struct csv_row header;
    struct name_index names; /* of the header */
    size_t *field_of;        /* [n_columns]: field here, or NAME_NONE; NULL: same columns */
    size_t id_field;         /* CSV: the id's column in this file */
    uint64_t begins;         /* the sum of the sizes of the files before it */
    uint64_t n_records;
};

/* Part of a file in memory: `at` has len bytes of the file from offset `base` on, and room for one
 * more block. */
struct window {
    char *at;
    size_t len, cap;
    uint64_t base;
};

struct file_merge {
    const struct file_merge_opts *opts;
    struct file_merge_stats *stats;
    struct input_ring ring;
    struct file_merge_input *files;
    size_t n_files;
    uint64_t n_bytes; /* of all files */
    enum record_format format;
    bool is_metadata;
    struct buf header;         /* CSV: the output's header, as text without line end */
    struct name_index columns; /* its column names */
    struct window window;
    struct id_table *ids; /* NULL: ids are not checked in this pass */
    struct outfile file;
    struct outfile *out;  /* &file; NULL: nothing is written in this pass */
    bool has_notes;       /* in this pass */
    const char *line_end; /* "\n" or "\r\n", the first line end of all files; NULL: none so far */
    uint64_t n_records;
    struct buf blank_tail; /* JSON: white space behind the last element so far */
};

/* ---- file_merge_head.c ---- */

MUST_CHECK int file_merge_open(struct file_merge *merge, const char *const *paths, size_t n_paths,
                               struct err *err);
void file_merge_close(struct file_merge *merge);
void file_merge_note(const struct file_merge *merge, const char *fmt, ...) PRINTF(2, 3);

/* ---- file_merge_columns.c, of headers that were read ---- */

/* Finds the output's header, and which of its columns each file has. ERR_DATA where the headers
 * differ, or cannot be matched. */
MUST_CHECK int file_merge_columns(struct file_merge *merge, struct err *err);
/* Finds the column of --id in each file. */
MUST_CHECK int file_merge_id_columns(struct file_merge *merge, struct err *err);

/* ---- windows (file_merge_lines.c) ---- */

/* Drop the first `done` bytes and read on; *is_end when the window reaches the file's end. */
MUST_CHECK int window_slide(struct file_merge *merge, struct file_merge_input *file, size_t done,
                            bool *is_end, struct err *err);
void window_free(struct file_merge *merge);
/* At the end of a file: adds a newline if the last line lacks one. */
void window_terminate(struct file_merge *merge, const struct file_merge_input *file);
/* Makes room for a record that is longer than the window. */
MUST_CHECK int window_grow(struct file_merge *merge, struct file_merge_input *file,
                           struct err *err);

/* ---- one file of each kind, in a pass ---- */

MUST_CHECK int file_merge_lines(struct file_merge *merge, struct file_merge_input *file,
                                struct err *err);
MUST_CHECK int file_merge_rows(struct file_merge *merge, struct file_merge_input *file,
                               struct err *err);
MUST_CHECK int file_merge_array(struct file_merge *merge, struct file_merge_input *file,
                                struct err *err);
/* These write the opening and the closing bracket of the array. */
void file_merge_array_begin(struct file_merge *merge);
void file_merge_array_end(struct file_merge *merge);
MUST_CHECK int file_merge_metadata(struct file_merge *merge, struct err *err);
/* Gives each record to opts->look. */
MUST_CHECK int file_merge_look(struct file_merge *merge, struct err *err);
MUST_CHECK int file_merge_convert(struct file_merge *merge, enum out_format format,
                                  struct err *err);

/* ---- file_merge_place.c ---- */

/* Adds the place of the record at an offset of the file: "a.csv line 12", "b.json element 3". */
void file_merge_place(struct file_merge_input *file, uint64_t offset, struct buf *out);
/* Fails with ERR_DATA; the message has the place and what is wrong there. */
int file_merge_fail(struct file_merge_input *file, uint64_t offset, struct err *err,
                    const char *fmt, ...) PRINTF(4, 5);
/* As file_merge_fail(), for a record that should be a JSON value. */
int file_merge_not_json(struct file_merge_input *file, uint64_t offset, struct str record,
                        struct err *err);

/* ---- file_merge_ids.c ---- */

struct id_table;
/* hash_mask: the bits of the hashes that are used; UINT64_MAX except in tests. */
struct id_table *id_table_new(uint64_t hash_mask);
/*
 * Announces that about n_ids ids will be added: an empty table is made large enough at once, for up
 * to 3 million.
 */
void id_table_expect(struct id_table *table, uint64_t n_ids);
void id_table_free(struct id_table *table);
/*
 * Adds the id of a record: `raw` is a JSON value, or a field's raw text in CSV, and begins at
 * `offset` of the file. ERR_DATA if it is not an id. A duplicate is ERR_DATA too, from this call or
 * a later one, and names both places.
 */
MUST_CHECK int id_add(struct file_merge *merge, struct file_merge_input *file, struct str raw,
                      uint64_t offset, struct err *err);
/* Adds the last ids, which wait in a queue until this is called. */
MUST_CHECK int ids_settle(struct file_merge *merge, struct err *err);
