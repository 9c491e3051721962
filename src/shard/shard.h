/* SPDX-License-Identifier: Apache-2.0
 *
 * Shard commands: a program is started once for each shard, a range of the items, and leaves one
 * file. For the feeder a shard is an item, and its worker asks for one item as soon as it has a
 * seat; the process is started when the shard is known. The end of the process, with the files that
 * it left (collect.c), is judged by core like the end of any worker.
 *
 *   check.c   checks of the request           kinds.c    which files a shard leaves
 *   plan.c    how many shards, their values   input.c    the file at {input}
 *   worker.c  one attempt at one shard        collect.c  the files that it leaves behind
 *   transfer.c  its files on another host     attempt.h  what these two share
 *   rows.c    shards in the ledger            claim.c    which shard owns a file
 *   join.c    all files into one              retake.c   files under other names
 *   part.c    results of other runs           progress_parser.c  progress from output
 *   work.c    the value for map/work.h
 *
 * The file is synced first; then a line about it is committed (struct shard_result).
 */
#pragma once

#include "base/share.h"
#include "map/outputs.h"
#include "map/session.h"
#include "map/template.h"
#include "map/work.h"
#include "shard/collect.h"
#include "shell/shell.h"
#include "store/store.h"
#include "tensor/kind.h"

/*
 * One of the files that each shard leaves: that of {output} or --collect, which goes to -o, or one
 * of
 * --also.
 */
struct shard_kind {
    char *glob; /* with placeholders; NULL: that of {output} */
    char *out_path;
    enum record_format format; /* of the shards' files; FORMAT_AUTO: the names of the files say
                                * it */
    enum out_format out_format;
    enum tensor_kind tensors;   /* the kind that their names promise; TENSOR_NONE: records */
    bool is_counted, takes_any; /* the records are counted; any number of them is accepted */
    char **patterns;            /* [n_patterns], of the first shards; NULL until needed */
    uint64_t n_patterns;
    struct shard_claims {
        uint32_t *slots; /* [n_slots], a power of two: a shard's number plus 1; 0: free */
        size_t n_slots, n_used;
    } claims;
};

/* A file of a committed shard. */
struct shard_file {
    char *path;   /* absolute */
    char *origin; /* HOST:PATH, if its program left it on another host; NULL: at `path` */
    uint64_t bytes;
    uint64_t records; /* UINT64_MAX: not counted */
};
/* In collect.c: makes a shard_file of a collected file, whose paths are moved. */
struct shard_file collected_take(struct collected *collected);

struct shard_result {
    struct shard_file *files; /* [n_kinds], one of each; NULL: the shard is not committed */
};

/* The shards of a run. */
struct shards {
    uint64_t n_items, n_shards;
    uint64_t n_items_done, n_items_failed; /* of shards that are committed, or given up */
    uint64_t n_items_here;                 /* n_items_done by this session */
    uint64_t *seat_items; /* n_items_here for each seat, also for seats that may come */
    uint64_t n_unnamed;   /* programs that ended well and left no file that a pattern names */
    uint32_t uses;        /* of the command's placeholders: template_uses_all() */
    char stamp[RUN_STAMP_BYTES];  /* {run} */
    char **suffixes;              /* [n_shards], or NULL: shard_<k> */
    char *input_dir, *output_dir; /* in the run's folder */
    struct shard_kind *kinds;     /* the first is that of -o */
    size_t n_kinds;
    bool is_union;                /* files may have different columns */
    const char *extension;        /* of {output}, with its dot; "" for none */
    struct shard_result *results; /* [n_shards] */
    bool *had_other_file; /* [n_shards]: a fetched file was not the one that the host had found */
    struct shard_probe {
        char *path; /* a file in the run's folder that hosts look for; NULL: none yet */
        char token[33];
        uint8_t *told; /* [n_told], by host: 0: not logged yet; else 1 + whether it shares */
        size_t n_told;
    } probe;
    uv_mutex_t source_lock; /* inputs are written by other threads, one at a time */
};

/* ---- what is asked ---- */

/*
 * Sets request->work: to shards if the command has placeholders of shards, else to records.
 * ERR_USAGE for options of the other kind of work, and for shards that are impossible.
 */
MUST_CHECK int work_choose(struct map_request *request, struct err *err);
extern const struct work shard_work;

/* ---- the files of a shard ---- */

/*
 * ERR_USAGE for a malformed --also, or for files that cannot be joined; otherwise this error would
 * come only at the end.
 */
MUST_CHECK int shard_kinds_check(const struct map_request *request, struct err *err);
/* Makes all kinds of the request; free them with shard_kinds_free. */
void shard_kinds_make(const struct session *s, const char *extension, struct shards *shards);
void shard_kinds_free(struct shards *shards);
/* ERR_USAGE if --collect or --also names the same file for all shards. */
MUST_CHECK int shard_kinds_tell_apart(const struct shards *shards, struct err *err);
/* The option that names the files of this kind, for messages. */
const char *shard_kind_option(size_t kind);
/* The option that allows any number of records in such a file. */
const char *shard_kind_uncounted(size_t kind);
/*
 * Returns the extension of the path if such files cannot be joined, a known one in small letters;
 * else NULL.
 */
const char *shard_joinless(const char *path);
/* A given option that is only for files of tensors; NULL: there is none. */
const char *shard_tensors_option(const struct map_request *request);
/* The kind of tensors that a file's name promises. */
enum tensor_kind shard_tensors(const char *path);

/* ---- the run ---- */

/*
 * Sizes the shards, or takes their sizes from the run that is resumed. session_source(s) has been
 * opened.
 */
MUST_CHECK int shards_begin(struct session *s, struct err *err);
/* Reopens the shards of a run that is only read. *are_there false: the run has none. */
MUST_CHECK int shards_reopen(struct session *s, bool *are_there, struct err *err);
void shards_free(struct shards *shards);
/* Makes the probe if there is none yet: a file in `folder` that holds a random token. */
MUST_CHECK int shard_probe_make(struct shard_probe *probe, const char *folder, struct err *err);
void shard_probe_drop(struct shard_probe *probe);
static inline struct shards *shards_of(const struct session *s)
{
    return session_work_data(s);
}
/* The number of committed shards. */
uint64_t shards_committed(const struct shards *shards);
/* Counts the shard's items as failed. */
void shard_give_up(struct shards *shards, uint64_t shard);
struct share shard_share(const struct shards *shards, uint64_t shard);
/* "shard 3 (items 30 to 39)" */
void shard_name(const struct shards *shards, uint64_t shard, struct buf *out);
/*
 * An attempt at a shard: its seat, its batch size, and its number among all starts of workers in
 * the run.
 */
struct shard_at {
    uint64_t shard;
    uint32_t seat, number;
    uint64_t batch;
    const char
        *folder; /* for its files, on a host that does not share the run's; NULL: the run's */
};
/* The values of the placeholders; `text` holds them, each followed by a NUL. */
void shard_values(const struct session *s, const struct shard_at *at,
                  struct template_values *values, struct buf *text);
/* The command with its placeholders filled in, NULL-terminated; free it with shard_command_free. */
char **shard_command_new(const struct session *s, const struct template_values *values);
void shard_command_free(char **command);
/* Adds the words of a command, quoted for a shell. */
void shard_command_format(const char *const *command, struct buf *out);
/*
 * For --dry-run of a resumed run, after shards_begin: takes the shards that the run was cut into.
 */
MUST_CHECK int shards_recall(struct session *s, struct err *err);
/* For --dry-run: prints what would run where; leaves out shards that are done. */
void shards_print(const struct session *s);
/*
 * For --dry-run with other hosts: asks them whether they share the run's folder, and prints the
 * answers.
 */
void shards_print_sharing(struct session *s);
/*
 * Returns another shard whose file of this kind lies at `place` or was fetched from there.
 * UINT64_MAX: there is none, and the file belongs to `shard` as soon as that shard has its result.
 */
uint64_t shard_claim(struct shards *shards, size_t of_kind, const char *place, uint64_t shard);
/* On resume: checks which files still exist; a shard whose file does not is run again. */
MUST_CHECK int shards_restore(struct session *s, struct err *err);

/* ---- parts of the work in runs of their own (part.c) ---- */

/* Commits what the runs in the folder of --take have done. *has_taken: there is such a folder. */
MUST_CHECK int shards_take(struct session *s, bool *has_taken, struct err *err);
/* *out becomes the shards of --part. False: without --part, the run has all shards. */
bool shards_own(const struct session *s, struct item_span *out, uint64_t *n_shards);
/* Removes what the runs of --take keep for this one, if they are below its folder. */
void shards_taken_drop(const struct session *s);

/* ---- files that are there already (retake.c) ---- */

/* The end of a program that ended well. */
struct shard_end {
    uint64_t shard;
    const struct template_values *values;
    int64_t since_ns; /* the program's files are not older, by the clock of its machine
                       * (clock_file_ns) */
    const char *host; /* a host that does not share the run's folder; NULL: the files are here */
    struct str work_json;
};
/* Notes the end of a program, whether or not its files are found. */
void shard_end_note(struct session *s, const struct shard_end *end);
/*
 * A resume that names --collect or --also: finds the files of shards whose program has ended well
 * by these names, counts and commits them; no shard is run for that. ERR_USAGE, and nothing is
 * changed, if a shard that has its result left no such file, or no shard did.
 */
MUST_CHECK int shards_retake(struct session *s, struct err *err);
/*
 * Fetches a shard's files of these kinds from the host where its program has ended at an earlier
 * time, and turns the loop until they are here. *is_shared: the host shares the folder now, and the
 * files are looked for here. Kinds without a pattern are skipped.
 */
MUST_CHECK int shard_fetch_again(struct session *s, const struct shard_end *end,
                                 struct collected *found, bool *is_shared, struct err *err);
/*
 * Returns the --collect and --also that such a resume gave to the run in this folder, as words of a
 * command line, NULL-terminated; free() each, and the list. NULL: there are none. *are_taken false:
 * that resume was killed before all files were taken.
 */
char **shard_words_read(const char *run_dir, bool *are_taken);

/* ---- a worker ---- */

/* Fills `ask` for the shard's file of this kind; *pattern owns the texts that `ask` refers to. */
void shard_ask(const struct session *s, uint64_t number, size_t which,
               const struct template_values *values, struct buf *pattern, struct collect *ask);
/* Returns another shard to which the file may belong, or UINT64_MAX. */
uint64_t shard_other_owner(const struct session *s, uint64_t own, size_t of_kind,
                           const struct collected *found);

extern const struct worker_ops shard_worker_ops;
/* Writes the shard's records into a file at `path`. May be called on any thread. */
MUST_CHECK int shard_input_write(struct session *s, uint64_t shard, const char *path,
                                 struct err *err);
/* The progress of a shard; all 0 if it is not known. */
struct shard_progress {
    uint64_t items_done, correct, seen;
};
struct shard_progress shard_progress_of(const struct worker *worker);

/* ---- what is kept (rows.c) ---- */

/*
 * Adds members of an object about a shard's files: "path", "bytes", "records", and "also", a list.
 */
void shard_files_add(const struct shards *shards, const struct shard_result *result,
                     struct buf *json_out);
void shard_result_free(struct shards *shards, struct shard_result *result);
/*
 * Reads the line about a shard's files that a row of the run in `run_dir` names, without its end.
 * ERR_DATA if the line is damaged.
 */
MUST_CHECK int shard_line_read(const char *run_dir, const struct range_row *row, uint64_t n_shards,
                               struct buf *out, struct err *err);
/* Reads all results from the ledger. */
MUST_CHECK int shard_rows_read(struct session *s, struct err *err);
/* True if the file exists unchanged. Otherwise *why says what has changed. */
bool shard_file_is_intact(const struct shard_file *file, struct buf *why);

/* ---- the end ---- */

/*
 * Checks that each shard is there once, and makes the outputs of their files, each one file or one
 * folder. If no shard has files, nothing is made. stats->n_results counts records; UINT64_MAX if
 * they cannot be counted.
 */
MUST_CHECK int shards_join(struct session *s, struct result_merge_stats *stats, struct err *err);
/*
 * For `muster results`: joins the files of the committed shards into request->out_path. *are_there
 * false: the run has no shards. stats->n_failed_items: shards that are missing.
 */
MUST_CHECK int shards_so_far(struct store *store, const struct map_request *request,
                             bool *are_there, struct result_merge_stats *stats, struct err *err);
/* Adds members of an object about a shard: "shard":3,"start":30,"count":10 */
void shard_members_add(const struct shards *shards, uint64_t shard, struct buf *out);
