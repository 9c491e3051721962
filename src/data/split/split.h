/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of records split into parts, each a file of the same format on its own: every record is
 * in exactly one part, in the input's order, with unchanged bytes. A part is a stretch of the
 * input with what the format needs around it: the CSV header, the brackets of a JSON array. A
 * last line without its end gets one. Several files are one sequence of records.
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
    /* Exactly one of them is not 0: */
    uint64_t n_parts;     /* sizes by divmod, the remainder to the first parts */
    uint64_t records_max; /* of a part; the last one has what is left */
    uint64_t bytes_max;   /* of a part, but never less than one record */
};

struct split_part {
    uint64_t first, n_records;
    uint64_t n_bytes; /* known after split_check or split_write */
};

struct split;

/*
 * Reads the input to its end, to know its records, and decides which go where. ERR_DATA where it
 * is malformed, naming the place; ERR_USAGE for more than SPLIT_PARTS_MAX parts. stdin and
 * packed files are spooled into a nameless file in TMPDIR.
 */
MUST_CHECK int split_open(struct split **out, const struct split_opts *opts, struct err *err);
void split_close(struct split *split);
/* Borrowed. At least one, though the input be empty. */
const struct split_part *split_parts(const struct split *split, size_t *n_parts);
enum record_format split_format(const struct split *split);
uint64_t split_n_records(const struct split *split);
/* Last lines that had no end and got one. */
uint64_t split_n_terminated(const struct split *split);

/* Paths, sorted. */
struct split_list {
    char **paths;
    size_t n_paths;
};
void split_list_release(struct split_list *list);

struct split_target {
    const char *const *names; /* of every part */
    const char *folder;       /* that they are in; made first if it is not there */
    /* Files there that look like parts and are none, by split_strangers_find(). */
    struct split_list strangers;
    /* By split_journal_name_new(): a file that is there while parts get their names; or NULL. */
    const char *journal;
    bool force; /* replace what exists, remove strangers when the parts are there */
    struct stop stop;
    void (*note)(void *context, const char *text); /* what was cleared up; or NULL */
    void *context;
};

/* May the parts be put there? ERR_USAGE if one or a stranger exists, or is the input itself. */
MUST_CHECK int split_target_check(struct split *split, const struct split_target *target,
                                  struct err *err);

/*
 * Look at every record: the rows of CSV have as many fields as the header, the elements of an array
 * are JSON, and there are as many as were counted. ERR_DATA names the place.
 */
MUST_CHECK int split_check(struct split *split, struct err *err);
/*
 * The same, and write the parts: beside their places, synced, renamed when all are complete. On
 * failure nothing is left. Killed, it leaves all parts or none where their folder was not there
 * (split/split_folder.h), and elsewhere what the next split clears up (split/split_journal.h).
 * ERR_USAGE as split_target_check() has it.
 */
MUST_CHECK int split_write(struct split *split, const struct split_target *target, struct err *err);

/*
 * How parts are called: everything before the number, and behind it. From a pattern with {n}
 * (and {parts}), a folder, or nothing, which is beside the input: in.part_00.jsonl.
 */
struct split_names {
    char *before, *after;
    bool has_parts; /* from a pattern: {parts}, where it stands in them, is how many there are */
    uint64_t digits;
};

/* `output` NULL: beside the first input. ERR_USAGE if it is neither a folder nor a pattern. */
MUST_CHECK int split_names_init(struct split_names *names, const char *output,
                                const struct split_opts *opts, uint64_t digits_min,
                                struct err *err);
void split_names_release(struct split_names *names);
/* New strings. */
char *split_name_new(const struct split_names *names, size_t number, size_t n_parts);
char *split_journal_name_new(const struct split_names *names, size_t n_parts);
/*
 * Files in the target's folder that have the name of a part and are none of this split: of
 * another one with more parts, or fewer. Whoever takes the parts by a glob would take them too.
 * And those that a cut which was killed may have left: of more parts than files may be open each
 * is called <name>.new until all are there (base/outfile.h), and so is a folder that was not
 * there.
 */
MUST_CHECK int split_strangers_find(const struct split_names *names,
                                    const struct split_target *target, size_t n_parts,
                                    struct split_list *strangers, struct split_list *leftovers,
                                    struct err *err);
