/* SPDX-License-Identifier: Apache-2.0
 *
 * Shard commands: a program is started once for each shard, a range of the items, and leaves one file
 * behind. For the feeder a shard is an item, and its worker one that asks for one item as soon as its
 * seat is filled; only then, with the shard known, is the process started. What it says at its end
 * (collect.c), core judges as it does any worker's end.
 *
 *   check.c   what is refused                 kinds.c    which files a shard leaves
 *   plan.c    how many shards, what is filled in  input.c  the file at {input}
 *   worker.c  one attempt at one shard        collect.c  the files that it leaves behind
 *   rows.c    what is kept about them         claim.c    whose a file is
 *   join.c    the files of all, in one        retake.c   what is there already, by other names
 *   work.c    what map/work.h asks for        progress_parser.c  how far a program is
 *
 * Committed is a line about the file (struct shard_result), the file itself before that.
 */
#pragma once

#include "base/share.h"
#include "map/outputs.h"
#include "map/session.h"
#include "map/template.h"
#include "map/work.h"
#include "shard/collect.h"
#include "tensor/kind.h"

/* One of the files that each shard leaves behind: that of {output} or --collect, which goes to -o, and
 * those of --also. */
struct shard_kind {
    char *glob; /* with placeholders; NULL: {output} */
    char *out_path;
    enum record_format format; /* of the shards' files; FORMAT_AUTO: their names say it */
    enum out_format out_format;
    enum tensor_kind tensors;   /* that all of them are, by their names; TENSOR_NONE: records */
    bool is_counted, takes_any; /* its records are counted; and any number of them will do */
    char **patterns;            /* [n_patterns], for the first shards; NULL until asked */
    uint64_t n_patterns;
    struct shard_claims {
        uint32_t *slots; /* [n_slots], a power of two: a shard and 1; 0: free */
        size_t n_slots, n_used;
    } claims;
};

/* A file of a shard that is committed. */
struct shard_file {
    char *path; /* absolute */
    uint64_t bytes;
    uint64_t records; /* UINT64_MAX: not counted */
};

struct shard_result {
    struct shard_file *files; /* [n_kinds], one of each; NULL: the shard is not committed */
};

/* What is known of the shards of a run. */
struct shards {
    uint64_t n_items, n_shards;
    uint64_t n_items_done, n_items_failed; /* of shards that are committed, or given up */
    uint64_t n_items_here;                 /* the former, by this session */
    uint64_t *seat_items;                  /* the same for each seat */
    uint64_t n_unnamed; /* programs that ended well and left no file that a pattern names */
    uint32_t uses;      /* of the command's placeholders: template_uses_all() */
    char stamp[RUN_STAMP_BYTES];  /* {run} */
    char **suffixes;              /* [n_shards], or NULL: shard_<k> */
    char *input_dir, *output_dir; /* in the run's folder */
    struct shard_kind *kinds;     /* the first is that of -o */
    size_t n_kinds;
    bool is_union;                /* columns that only some of the files have are put together */
    const char *extension;        /* of {output}, with its dot; "" for none */
    struct shard_result *results; /* [n_shards] */
    uv_mutex_t source_lock;       /* inputs are written in the background, one at a time */
};

/* ---- what is asked ---- */

/*
 * request->work: records, or shards where the command's words say so. ERR_USAGE for options that are not for that, and
 * for shards that cannot be.
 */
MUST_CHECK int work_choose(struct map_request *request, struct err *err);
extern const struct work shard_work;

/* ---- the files of a shard ---- */

/* ERR_USAGE for an --also that is none, or files that cannot be joined: it would be said at the end. */
MUST_CHECK int shard_kinds_check(const struct map_request *request, struct err *err);
/* All of the request's; give them back with shard_kinds_free. */
void shard_kinds_make(const struct session *s, const char *extension, struct shards *shards);
void shard_kinds_free(struct shards *shards);
/* ERR_USAGE if what --collect or --also names is one file for all shards. */
MUST_CHECK int shard_kinds_tell_apart(const struct shards *shards, struct err *err);
/* As --collect or --also names them, for messages. */
const char *shard_kind_option(size_t kind);
/* The option by which such a file may hold any number of records. */
const char *shard_kind_uncounted(size_t kind);
/* The extension of what cannot be joined, in small letters; else NULL. */
const char *shard_joinless(const char *path);
/* The option given that is about files of tensors alone; NULL: there is none. */
const char *shard_tensors_option(const struct map_request *request);
/* The kind of tensors that a name promises. */
enum tensor_kind shard_tensors(const char *path);

/* ---- the run ---- */

/* Sizes the shards, or takes their sizes from the run that is resumed. s->source has been opened. */
MUST_CHECK int shards_begin(struct session *s, struct err *err);
/* As a run has them that is only looked at; *are_there false: it has none. */
MUST_CHECK int shards_reopen(struct session *s, bool *are_there, struct err *err);
void shards_free(struct shards *shards);
static inline struct shards *shards_of(const struct session *s)
{
    return s->work_data;
}
/* How many have left their files. */
uint64_t shards_committed(const struct shards *shards);
/* Its items count as failed. */
void shard_give_up(struct shards *shards, uint64_t shard);
struct share shard_share(const struct shards *shards, uint64_t shard);
/* "shard 3 (items 30 to 39)" */
void shard_name(const struct shards *shards, uint64_t shard, struct buf *out);
/* Who is at work on a shard: where, with what at once, in which of the run's starts of a worker. */
struct shard_at {
    uint64_t shard;
    uint32_t seat, number;
    uint64_t batch;
};
/* What is filled in; `text` holds the values, each with a NUL behind it. */
void shard_values(const struct session *s, const struct shard_at *at,
                  struct template_values *values, struct buf *text);
/* The command with everything filled in, NULL-terminated; give it back with shard_command_free. */
char **shard_command_new(const struct session *s, const struct template_values *values);
void shard_command_free(char **command);
/* Its words as a shell would read them. */
void shard_command_format(const char *const *command, struct buf *out);
/* --dry-run of a run that goes on, after shards_begin: the shards are those that it was cut into. */
MUST_CHECK int shards_recall(struct session *s, struct err *err);
/* --dry-run: what would run where, on stdout; those in s->done are not left. */
void shards_print(const struct session *s);
/*
 * The other shard whose file of that kind is at this path; UINT64_MAX: there is none, and the file is this shard's as
 * soon as it has its result.
 */
uint64_t shard_claim(struct shards *shards, size_t of_kind, const char *path, uint64_t shard);
/* On resume: which files are there still; a shard whose file is not is run again. */
MUST_CHECK int shards_restore(struct session *s, struct err *err);

/* ---- files that are there already (retake.c) ---- */

/* Note that a shard's program ended well, and what it was told: whatever comes of its files. */
void shard_end_note(struct session *s, uint64_t shard, const struct template_values *values,
                    int64_t since_ns, struct str work_json);
/*
 * A resume that names --collect or --also: what the shards left whose program has ended well is looked
 * for by these names, counted and committed; no shard is run for it. ERR_USAGE, and nothing is changed,
 * where a shard that has its result left no such file, or none of them did.
 */
MUST_CHECK int shards_retake(struct session *s, struct err *err);
/* The --collect and --also that such a resume has given to the run in this folder, as words of its command
 * line with a NULL at the end; free() each, and the list. NULL: there are none. *are_taken false: it was
 * killed before all files were taken. */
char **shard_words_read(const char *run_dir, bool *are_taken);

/* ---- a worker ---- */

/* How the shard's file of this kind is to be found; *pattern holds what `ask` names. */
void shard_ask(const struct session *s, uint64_t number, size_t which,
               const struct template_values *values, struct buf *pattern, struct collect *ask);
/* The shard whose file it may be as well; UINT64_MAX: none. */
uint64_t shard_other_owner(const struct session *s, uint64_t own, size_t of_kind,
                           const struct collected *found);

extern const struct worker_ops shard_worker_ops;
/* The shard's records, into a file at `path`. On any thread. */
MUST_CHECK int shard_input_write(struct session *s, uint64_t shard, const char *path,
                                 struct err *err);
/* How far it is; all 0 without a word about it. */
struct shard_progress {
    uint64_t items_done, correct, seen;
};
struct shard_progress shard_progress_of(const struct worker *worker);

/* ---- what is kept (rows.c) ---- */

/* Members of an object about a shard's files: "path", "bytes", "records", and "also", a list. */
void shard_files_add(const struct shards *shards, const struct shard_result *result,
                     struct buf *json_out);
/* A text of any bytes as a JSON value: {"bytes": "<hex>"} where it is not UTF-8. */
void shard_text_add(const char *text, struct buf *json_out);
bool shard_text_read(struct str value, struct buf *out);
void shard_result_free(struct shards *shards, struct shard_result *result);
/* All results that the ledger has. */
MUST_CHECK int shard_rows_read(struct session *s, struct err *err);
/* Is it there as it was? Else *why says what became of it. */
bool shard_file_is_intact(const struct shard_file *file, struct buf *why);

/* ---- the end ---- */

/*
 * Prove that each shard is there once, and make one file or one folder of theirs: the output. None of
 * them there: nothing is made. stats->n_results are records, UINT64_MAX if they cannot be counted.
 */
MUST_CHECK int shards_join(struct session *s, struct result_merge_stats *stats, struct err *err);
/*
 * For `muster results`: what the shards that are committed have left, joined into request->out_path.
 * *are_there false: it is no run of shards. stats->n_failed_items: shards that are missing.
 */
MUST_CHECK int shards_so_far(struct store *store, const struct map_request *request,
                             bool *are_there, struct result_merge_stats *stats, struct err *err);
/* Members of an object about a shard: "shard":3,"start":30,"count":10 */
void shard_members_add(const struct shards *shards, uint64_t shard, struct buf *out);
