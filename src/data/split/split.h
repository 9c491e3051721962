/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits files of records into parts. Each part is a complete file of the same format; every record
 * is in exactly one part, in the input's order, with unchanged bytes. A part is a stretch of the
 * input with what the format needs around it: the CSV header, the brackets of a JSON array. A last
 * line without a line end gets one. Several files are one sequence of records.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/stop.h"
#include "data/source.h"

enum {
    SPLIT_PARTS_MAX = 100000
};

struct split_opts {
    const char *const *paths; /* "-" is stdin */
    size_t n_paths;
    enum record_format format;
    /* Exactly one of these three is not 0: */
    uint64_t n_parts;     /* even sizes; the remainder goes to the first parts, one record each */
    uint64_t records_max; /* of a part; the last part has the rest */
    uint64_t bytes_max;   /* of a part, but never less than one record */
};

struct split_part {
    uint64_t first, n_records;
    uint64_t n_bytes; /* known after split_check or split_write */
};

struct split;

/*
 * Reads the input to its end to find its records, and assigns them to parts. ERR_DATA where the
 * input is malformed, naming the place; ERR_USAGE for more than SPLIT_PARTS_MAX parts. stdin and
 * packed files are spooled into a nameless file in TMPDIR.
 */
MUST_CHECK int split_open(struct split **out, const struct split_opts *opts, struct err *err);
void split_close(struct split *split);
/* Borrowed. There is at least one part, even if the input is empty. */
const struct split_part *split_parts(const struct split *split, size_t *n_parts);
enum record_format split_format(const struct split *split);
uint64_t split_n_records(const struct split *split);
/* The number of last lines that had no line end and got one. */
uint64_t split_n_terminated(const struct split *split);

/* Paths, sorted. */
struct split_list {
    char **paths;
    size_t n_paths;
};
void split_list_release(struct split_list *list);

struct split_target {
    const char *const *names; /* paths of all parts, sorted */
    const char *folder;       /* the folder of the parts; made if it does not exist */
    /* Parts of an earlier split that look like parts of this one, from split_stale_find(). */
    struct split_list stale;
    /*
     * The path from split_journal_name_new(): that file exists while parts get their names. NULL:
     * no journal.
     */
    const char *journal;
    bool force; /* replace files that exist; remove `stale` when the parts are in place */
    struct stop stop;
    void (*note)(void *context, const char *text); /* what was cleared up; NULL: not called */
    /* Called when all parts are on disk and about to be put in place. NULL: not called. */
    int (*placing)(void *context, struct err *err);
    void *context;
};

/*
 * May the parts be put at these paths? ERR_USAGE if a part or a stale part exists there, or a part
 * is the input itself.
 */
MUST_CHECK int split_target_check(struct split *split, const struct split_target *target,
                                  struct err *err);

/*
 * Checks every record: rows of CSV must have as many fields as the header, elements of an array
 * must be JSON, and there must be as many records as were counted. ERR_DATA names the place.
 */
MUST_CHECK int split_check(struct split *split, struct err *err);
/*
 * As split_check(), and writes the parts: beside their places, synced, renamed when all are
 * complete. A failure leaves no files behind. A process that is killed leaves all parts or none
 * where their folder did not exist before (split/split_folder.h); elsewhere the next split clears
 * up what is left (split/split_journal.h). ERR_USAGE as from split_target_check().
 */
MUST_CHECK int split_write(struct split *split, const struct split_target *target, struct err *err);

/*
 * The names of parts: the text before the number, and the text behind it. They come from a pattern
 * with {n} (and {parts}), from a folder, or by default from the input's path: in.part_00.jsonl.
 */
struct split_names {
    char *before, *after;
    bool has_parts;         /* a pattern with {parts}: the number of parts replaces it */
    bool has_own_extension; /* a pattern that ends in the first input's extension */
    uint64_t digits;
};

/*
 * `output` NULL: beside the first input. ERR_USAGE if `output` is neither a folder nor a pattern.
 */
MUST_CHECK int split_names_init(struct split_names *names, const char *output,
                                const struct split_opts *opts, uint64_t digits_min,
                                struct err *err);
/*
 * ERR_USAGE if a pattern names the parts as packed files, or as files of a format that they do not
 * have. `asked` is the format that the user named.
 */
MUST_CHECK int split_names_check(const struct split_names *names, enum record_format asked,
                                 enum record_format format, struct err *err);
void split_names_release(struct split_names *names);
/* New strings. */
char *split_name_new(const struct split_names *names, size_t number, size_t n_parts);
char *split_journal_name_new(const struct split_names *names, size_t n_parts);
/*
 * Finds `stale` parts: files in the target's folder that are named like parts of this split but are
 * parts of an earlier one, with more or fewer parts. A glob for the parts would match them too.
 * Also finds `leftovers` of a split that was killed: a folder that did not exist is called
 * <name>.new until all parts are in it, and so is each part if there are more parts than files can
 * be open (base/outfile.h).
 */
MUST_CHECK int split_stale_find(const struct split_names *names, const struct split_target *target,
                                size_t n_parts, struct split_list *stale,
                                struct split_list *leftovers, struct err *err);
