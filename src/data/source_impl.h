/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a source, shared by the files that implement it:
 *   source.c  opening, and scanning forward: finding how many records there are
 *   head.c    what a file's beginning and its end tell
 *   index.c   a sparse list of places where records begin
 *   read.c    reads items by their numbers, with cursors
 *   convert.c a record's bytes into the item
 * and by those that split the files into parts, split/.
 */
#pragma once

#include "data/boundaries/boundary_scan.h"
#include "data/csv.h"
#include "data/input.h"
#include "data/source.h"

enum {
    WINDOW_BYTES = SOURCE_SCAN_BYTES, /* of one read; a longer record needs more */
    INDEX_STRIDE_BYTES = 64 * 1024,
    INDEX_ENTRIES = 2048, /* enough where nearly all items are read in order */
    INDEX_ENTRIES_ANY_ORDER = 65536,
    N_CURSORS = 1,
    N_PLACES = 64, /* positions that cursors left when they were moved */
};

/* Record `item` (of the whole source) begins at `offset` of its file, on line `line` (from 1). */
struct index_entry {
    uint64_t item, offset, line;
};

/*
 * Ascending by item. When the index is full, every second entry is dropped and the stride doubles.
 */
struct sparse_index {
    struct index_entry *entries;
    size_t n_entries, entries_max;
    uint64_t stride_bytes;
    uint64_t next_offset; /* in the file being scanned; no entry is made before this offset */
};
void index_add(struct sparse_index *index, struct index_entry entry);
/* The last entry with item <= `item`, NULL if there is none. */
const struct index_entry *index_find(const struct sparse_index *index, uint64_t item);

/*
 * Counts the records of lines or of an array that end in [from, to), by reading the bytes again;
 * for messages.
 */
uint64_t ends_count(struct input *input, enum record_format format, uint64_t from, uint64_t to);

struct source_file {
    struct input input;
    uint64_t first_item, n_items;
    bool is_begun;                 /* the head has been read */
    bool has_header;               /* CSV: the file is not empty */
    bool is_scanned;               /* scanned to the end */
    uint64_t begin_at, begin_line; /* of the first record */
    /*
     * The scanner's state. n_items counts the records that end in whole blocks, up to scan_at;
     * n_tail counts those that end in the bytes behind scan_at.
     */
    uint64_t scan_at, n_newlines, n_tail;
    uint64_t last_end_at;
    struct boundary_scan scan;
};

/*
 * A position to read from, with the bytes around it: at[0..len) are the bytes of the file from
 * `base` on, and base <= offset.
 */
struct cursor {
    bool is_set;
    size_t file;
    uint64_t item, offset, line; /* of the record that is read next */
    uint64_t base;
    char *at;
    size_t len, cap;
    uint64_t used_at;
};

/* A search for record ends from a cursor on. */
struct find {
    uint64_t ends_max;
    size_t bytes_max; /* scans about so many bytes; more only if the first record is longer */
    bool is_strict;   /* not even for the first record: n_ends may be 0 */
    struct boundary_tally tally;
    bool has_end; /* false: the last record of a file, without newline */
};

struct source {
    struct source_opts opts; /* its strings are copies, owned by these: */
    char **paths, *spool_dir, *weight_field;
    enum record_format format;
    bool is_converted; /* csv, tsv: records become JSON objects */
    char separator;
    struct input_ring ring;
    struct source_file *files;
    size_t n_files;
    size_t scan_file; /* the file that is being scanned; n_files when all are done */
    uint64_t n_known;
    bool is_complete;
    char *scan_buffer;
    size_t window_bytes; /* WINDOW_BYTES, less in tests */

    struct csv_row header; /* CSV: the columns' names */
    struct buf keys;       /* `"name":` for each column, one behind the other */
    size_t *key_ends;

    struct sparse_index index;
    struct cursor cursors[N_CURSORS];
    uint64_t n_uses;
    struct index_entry places[N_PLACES]; /* a ring, for positions of cursors */
    uint64_t n_places;
    struct csv_row row;
    struct buf item; /* scratch */
};

/* For tests: with small windows a boundary falls on every kind of byte. window_bytes is a multiple
 * of 64. */
void source_tune(struct source *source, size_t window_bytes, uint64_t index_stride_bytes);

/*
 * Gives the cursor that is at the item; if there is none, moves the one that was idle longest
 * there.
 */
MUST_CHECK int cursor_at(struct source *source, uint64_t item, struct cursor **out,
                         struct err *err);
MUST_CHECK int cursor_find(struct source *source, struct cursor *c, struct find *find,
                           struct err *err);
void cursor_advance(struct cursor *c, const struct boundary_tally *tally);
/*
 * Gives the record at the cursor, trimmed, and its line, and moves the cursor on. The record is
 * valid until the cursor moves again.
 */
MUST_CHECK int cursor_take(struct source *source, struct cursor *c, struct str *record,
                           uint64_t *line, struct err *err);
/* Moves the caller's own cursor forward to a place where a record begins. */
void cursor_seek(struct cursor *c, size_t file, uint64_t offset);

/* Reads the beginning of a file as soon as enough of it is there; then sets is_begun. */
MUST_CHECK int head_begin(struct source *source, struct source_file *file, struct err *err);
/* Checks a plain file's end, before anything is scanned. */
MUST_CHECK int head_check_end(struct source *source, struct source_file *file, struct err *err);
/* Checks that the last record, which begins at `from` and has no newline, is complete. */
MUST_CHECK int head_check_last(struct source *source, struct source_file *file, uint64_t from,
                               struct err *err);
/* ERR_DATA for a CSV file that ends inside quotes: reads it again to say where. */
int head_blame_quotes(struct source *source, struct source_file *file, struct err *err);

/*
 * The record's bytes without its line end and without the blank lines before it, which
 * *n_lines_before counts. With `keeps_cr` only the LF counts as the line end.
 */
struct str record_trim(const struct source *source, struct str record, bool has_end, bool keeps_cr,
                       uint64_t *n_lines_before);
/* Is this a line of JSONL that is not a JSON value? False for other formats and raw sources. */
bool line_is_malformed(const struct source *source, struct str line);
/*
 * Adds the item that the trimmed record becomes, on one line. ERR_RECORD, and nothing added, if the
 * record is no item.
 */
MUST_CHECK int record_convert(struct source *source, struct str record, struct buf *out,
                              struct err *err);
/* Adds "name line 12" or "name element 3". */
void place_add(const struct source *source, const struct source_file *file, uint64_t item,
               uint64_t line, struct buf *out);
