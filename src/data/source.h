/* SPDX-License-Identifier: Apache-2.0
 *
 * Records in: one or several files as one sequence of items 0, 1, 2 …, in the order given.
 * Read by pread with a sparse index, never mapped, so memory is bounded however large the file.
 * stdin, .gz and .zst are spooled (decompressed) into `spool_dir` as they are read, so that an item
 * can be read again after a crash, and so that a resume finds them.
 *
 * An item is a byte string:
 *   lines   the line without its LF or CRLF; empty lines are items
 *   jsonl   one JSON value a line; blank lines are skipped; a BOM at the very start is dropped
 *   json    the elements of one top-level array
 *   csv,tsv one record of RFC 4180 (quoted newlines allowed), as a JSON object keyed by the header;
 *           every file must have the same header
 */
#pragma once

#include "data/format.h"

enum {
    SOURCE_SCAN_BYTES = 128 * 1024
};

struct source_opts {
    const char *const *paths; /* "-" is stdin */
    size_t n_paths;
    enum record_format format;
    bool is_raw;    /* records as they are: CSV rows stay CSV text, lines keep a CR at their end */
    uint64_t limit; /* the first N items only; 0 = all */
    const char *spool_dir;    /* where spools live; made when first needed */
    bool reuse_spool;         /* resume: read the earlier run's spool instead of stdin */
    bool streams_are_typed;   /* resume: source_verify() compares the streams with the spools */
    bool in_any_order;        /* items will be read in any order: index more places */
    const char *weight_field; /* of JSON objects or CSV rows, for source_weight(); NULL = bytes */
    char *scratch; /* [SOURCE_SCAN_BYTES], borrowed during each scan; NULL: it is allocated */
};

struct source;
struct csv_row;

/*
 * Opens the files and reads only their beginnings and ends. ERR_USAGE for a file that does not
 * exist or is not readable, ERR_DATA for one that is plainly malformed: a JSON file that is not an
 * array, a truncated last JSONL record (naming the byte offset), CSV headers that differ, a
 * duplicate column name, NUL bytes in CSV.
 */
MUST_CHECK int source_open(struct source **out, const struct source_opts *opts, struct err *err);
void source_close(struct source *source);

enum record_format source_format(const struct source *source);
/* True if items are JSON values (jsonl, json, csv/tsv unless raw). */
bool source_is_json(const struct source *source);

/*
 * Indexes further: reads about `bytes_max` bytes and returns; the number of known items grows.
 * Reads from a stream only what is available, so it never waits for one. ERR_DATA names file, line
 * or offset, and the cure.
 */
MUST_CHECK int source_scan(struct source *source, size_t bytes_max, struct err *err);
/* Scans to the end; waits for streams that have no bytes yet. */
MUST_CHECK int source_scan_all(struct source *source, struct err *err);
uint64_t source_known(const struct source *source);
bool source_is_complete(const struct source *source);
/* A descriptor to poll for reading before the next source_scan, -1 if scanning never blocks. */
int source_wait_fd(const struct source *source);
/* Bytes scanned so far, and in total (0: unknown yet): for an estimate of the item count. */
uint64_t source_bytes_scanned(const struct source *source);
uint64_t source_bytes_total(const struct source *source);

/*
 * Appends known items [first, first+count) to `out` as lines, one item a line, each ended by one
 * LF. Stops early at about bytes_max, but never before one item. *n_out is the number of items
 * written. Insignificant newlines inside an item (an element of a JSON array) are dropped. Runs of
 * verbatim lines are copied in blocks, at memory speed.
 *
 * Stops before a malformed record too, one that is no item although its neighbours are: a line of
 * JSONL that is not a JSON value (unless raw), a CSV row with too few fields. If the first record
 * is malformed, the error is ERR_RECORD and names its place.
 */
MUST_CHECK int source_lines(struct source *source, uint64_t first, uint64_t count, size_t bytes_max,
                            struct buf *out, uint64_t *n_out, struct err *err);
/* Appends the bytes of one item, without LF, to `out`. */
MUST_CHECK int source_item(struct source *source, uint64_t item, struct buf *out, struct err *err);
/*
 * Appends one item as a JSON value for the channel: JSON verbatim on one line (*key_out = "data"),
 * a text line as a JSON string ("data"), invalid UTF-8 as base64 ("data_b64"). ERR_RECORD if the
 * record is malformed, naming its place.
 */
MUST_CHECK int source_item_json(struct source *source, uint64_t item, struct buf *out,
                                const char **key_out, struct err *err);
/*
 * Appends the bytes of the record as they are in the file, well-formed or not. A text line includes
 * the CR before its LF.
 */
MUST_CHECK int source_record(struct source *source, uint64_t item, struct buf *out,
                             struct err *err);
/* Adds the columns' names as a line, for CSV and TSV; adds nothing for other formats. */
void source_header(const struct source *source, struct buf *out);
/*
 * The columns of CSV and TSV, borrowed. There are none for other formats, and none before the
 * header has been read.
 */
const struct csv_row *source_columns(const struct source *source);
/* Adds where an item is, for messages: "train.jsonl line 812" or "a.json element 4". */
void source_position(struct source *source, uint64_t item, struct buf *out);
/*
 * The weight of an item, before it is processed: its bytes, or the number in weight_field (ERR_DATA
 * if there is none of at least 0). A malformed record weighs 0.
 */
MUST_CHECK int source_weight(struct source *source, uint64_t item, double *out, struct err *err);

/*
 * Describes the input as a JSON object for the manifest: per file its absolute path, bytes, mtime,
 * and a hash over samples of the content (XXH3 of head, tail and 16 blocks between).
 * source_verify() says what has changed since: "train.jsonl has grown from 10 to 12 bytes since the
 * run began" (ERR_USAGE). With streams_are_typed it also reads the streams to their end and
 * compares them with the spools; a terminal is left out, because no user types the whole input
 * again.
 */
void source_identity(struct source *source, struct buf *json_out);
MUST_CHECK int source_verify(struct source *source, struct str identity_json, struct err *err);
