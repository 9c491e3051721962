/* SPDX-License-Identifier: Apache-2.0
 *
 * Joins the files of the shards at the end, or puts them into one folder. A resume finds the files
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "data/file_merge/file_merge.h"
#include "map/output_identity.h"
#include "shard/shard.h"
#include "store/runs.h"
#include "tensor/array/array_merge.h"
#include "tensor/torch/torch_merge.h"

enum {
    COPY_BYTES = 1 << 20
};

/* ---- the proof ---- */

static int mark(const struct session *s, uint8_t *seen, uint64_t first, uint64_t count,
                struct err *err)
{
    for (uint64_t k = first; k < first + count; k++) {
        if (k >= shards_of(s)->n_shards)
            return fail(err, ERR_DATA, "shard %lu has a result, but there are only %lu", k,
                        shards_of(s)->n_shards);
        if (seen[k]++)
            return fail(err, ERR_DATA, "shard %lu has two results", k);
    }
    return 0;
}

/* Checks in the ledger, not in memory, that each shard is there once, as a file or as failed. */
static int shards_prove(struct session *s, struct err *err)
{
    cleanup_free uint8_t *seen = xcalloc(shards_of(s)->n_shards, 1);
    struct row_reader *reader;
    struct range_row row;
    struct failed_item_row aside;
    int rc = range_reader_open(&reader, session_store(s), RANGES_BY_ITEM, err);
    if (rc)
        return rc;
    while ((rc = range_reader_next(reader, &row, err)) > 0)
        if ((rc = mark(s, seen, row.first, row.count, err)) != 0)
            break;
    row_reader_close(reader);
    if (rc == 0)
        rc = failed_item_reader_open(&reader, session_store(s), err);
    if (rc)
        return rc;
    while ((rc = failed_item_reader_next(reader, &aside, err)) > 0)
        if ((rc = mark(s, seen, aside.item, 1, err)) != 0)
            break;
    row_reader_close(reader);
    for (uint64_t k = 0; rc == 0 && k < shards_of(s)->n_shards; k++)
        if (!seen[k])
            rc = fail(err, ERR_DATA, "shard %lu is missing: it has no file and was not set aside",
                      k);
    return rc;
}

/* ---- one file ---- */

/*
 * The shards' files of one kind, in their order. The strings are borrowed; the caller frees the
 * array.
 */
struct shard_paths {
    const char **at;
    size_t len;
    uint64_t n_records; /* UINT64_MAX: not all were counted */
};

static int paths_gather(struct session *s, size_t kind, struct shard_paths *out, struct err *err)
{
    const struct shards *shards = shards_of(s);
    *out = (struct shard_paths){.at = xcalloc(shards->n_shards + 1, sizeof(*out->at))};
    for (uint64_t k = 0; k < shards->n_shards; k++) {
        cleanup_buf struct buf name = BUF_INIT, why = BUF_INIT;
        if (!shards->results[k].files)
            continue;
        const struct shard_file *file = &shards->results[k].files[kind];
        if (!shard_file_is_intact(file, &why)) {
            shard_name(shards, k, &name);
            return fail(err, ERR_FAILED, "the file of %s, %s; the shard is run again by a resume",
                        buf_text(&name), buf_text(&why));
        }
        out->at[out->len++] = file->path;
        bool is_counted = file->records != UINT64_MAX && out->n_records != UINT64_MAX;
        out->n_records = is_counted ? out->n_records + file->records : UINT64_MAX;
    }
    return 0;
}

/*
 * The state of joining the files of one kind, and the kinds whose outputs are put in place before
 * it.
 */
struct joining {
    struct session *s;
    struct merge_rules *rules; /* shared by all kinds: a rule must match in one of them */
    size_t kind;
    bool takes_next; /* join the kinds that follow, too */
    bool is_dry;     /* check the files, and write nothing */
};

static int others_join(const struct joining *from, struct result_merge_stats *stats,
                       struct err *err);

static void join_note(void *context, const char *text)
{
    const struct joining *joining = context;
    if (session_log(joining->s)) /* muster results has no log */
        log_add(session_log(joining->s), LOG_WARN, "map", "%s", text);
}

/*
 * The output of this kind is complete and on disk, but has no name yet. First the outputs of the
 * next kinds are made. When the last one is complete, all are put in place by renames alone: the
 * last kind first, and the output of -o last.
 */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as there are --also */
static int join_placing(void *context, int fd, struct err *err)
{
    const struct joining *joining = context;
    struct session *s = joining->s;
    struct joining next = *joining;
    struct result_merge_stats stats = {0};
    const char *out_path = shards_of(s)->kinds[joining->kind].out_path;
    int rc = 0;
    next.kind++;
    if (joining->takes_next)
        rc = others_join(&next, &stats, err);
    if (rc || !session_log(s))
        return rc;
    return output_identity_note(session_run_dir(s), joining->kind, out_path, fd, err);
}

/* True if the run itself put the file there, and was killed before it could record that. */
static bool may_replace(const struct joining *joining)
{
    const struct session *s = joining->s;
    const char *out_path = shards_of(s)->kinds[joining->kind].out_path;
    return session_request(s)->overwrite ||
           (session_log(s) && output_identity_is(session_run_dir(s), joining->kind, out_path));
}

static int records_join(const struct joining *joining, const struct shard_paths *paths,
                        struct result_merge_stats *stats, struct err *err)
{
    struct session *s = joining->s;
    const struct shard_kind *kind = &shards_of(s)->kinds[joining->kind];
    bool is_first = joining->kind == 0;
    struct file_merge_opts opts = {.format = kind->format,
                                   .out_format = kind->out_format,
                                   .rules = joining->rules,
                                   .id_field = is_first ? session_request(s)->merge.id_field : NULL,
                                   .is_union = shards_of(s)->is_union,
                                   .expect = paths->n_records,
                                   .force = may_replace(joining),
                                   .note = joining->is_dry ? NULL : join_note,
                                   .stop = shell_merge_stop(session_shell(s)),
                                   .placing = join_placing,
                                   .context = (void *)(uintptr_t)joining};
    struct file_merge_stats joined = {0};
    int rc = (joining->is_dry ? file_merge_check : file_merge_write)(&opts, paths->at, paths->len,
                                                                     kind->out_path, &joined, err);
    stats->n_results = joined.is_metadata ? joined.n_told : joined.n_records;
    stats->bytes_out = joined.n_bytes;
    return rc;
}

static int torch_join(const struct joining *joining, const struct shard_paths *paths,
                      uint64_t *n_bytes, struct err *err)
{
    struct session *s = joining->s;
    struct torch_merge_stats merged = {0};
    struct torch_merge_opts opts = torch_merge_opts_of(&session_request(s)->merge, joining->rules);
    if (joining->kind > 0) { /* --id is for the files of -o only */
        opts.id_path = NULL;
        opts.is_renumbered = false;
        opts.referred = NULL;
    }
    opts.force = may_replace(joining);
    opts.dry_run = joining->is_dry;
    opts.is_of_shares = true;
    opts.note = joining->is_dry ? NULL : join_note;
    opts.stop = shell_merge_stop(session_shell(s));
    opts.placing = join_placing;
    opts.context = (void *)(uintptr_t)joining;
    int rc = torch_merge(&opts, paths->at, paths->len, shards_of(s)->kinds[joining->kind].out_path,
                         &merged, err);
    *n_bytes = merged.n_bytes;
    return rc;
}

static int arrays_join(const struct joining *joining, const struct shard_paths *paths,
                       uint64_t *n_bytes, struct err *err)
{
    const struct shard_kind *kind = &shards_of(joining->s)->kinds[joining->kind];
    const struct array_merge_opts opts = {.rules = joining->rules,
                                          .force = may_replace(joining),
                                          .dry_run = joining->is_dry,
                                          .stop = shell_merge_stop(session_shell(joining->s)),
                                          .placing = join_placing,
                                          .context = (void *)(uintptr_t)joining};
    return array_merge(&opts, kind->tensors, paths->at, paths->len, kind->out_path, n_bytes, err);
}

static int tensors_join(const struct joining *joining, const struct shard_paths *paths,
                        struct result_merge_stats *stats, struct err *err)
{
    bool is_torch = shards_of(joining->s)->kinds[joining->kind].tensors == TENSOR_TORCH;
    stats->n_results = paths->n_records;
    return (is_torch ? torch_join : arrays_join)(joining, paths, &stats->bytes_out, err);
}

/* NOLINTNEXTLINE(misc-no-recursion): see join_placing */
static int kind_join(const struct joining *joining, struct result_merge_stats *stats,
                     struct err *err)
{
    struct shard_paths paths = {0};
    bool are_tensors = shards_of(joining->s)->kinds[joining->kind].tensors != TENSOR_NONE;
    int rc = paths_gather(joining->s, joining->kind, &paths, err);
    if (joining->rules->n_more > 0)
        joining->rules->n_more--;
    if (rc == 0)
        rc = (are_tensors ? tensors_join : records_join)(joining, &paths, stats, err);
    free(paths.at);
    return rc;
}

/* ---- one folder ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(path_basename(*(const char *const *)a), path_basename(*(const char *const *)b));
}

static int names_differ(const struct shard_paths *paths, struct err *err)
{
    cleanup_free const char **sorted = xcalloc(paths->len + 1, sizeof(*sorted));
    memcpy(sorted, paths->at, paths->len * sizeof(*sorted));
    qsort(sorted, paths->len, sizeof(*sorted), by_name);
    for (size_t i = 1; i < paths->len; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0)
            return fail(err, ERR_FAILED,
                        "%s and %s have the same name, and cannot both be put into one folder; let "
                        "the program put {suffix} into it",
                        sorted[i - 1], sorted[i]);
    return 0;
}

static int bytes_copy(int fd, const char *name, struct stop stop, struct outfile *file,
                      struct err *err)
{
    cleanup_free char *piece = xmalloc(COPY_BYTES);
    ssize_t got;
    while ((got = read(fd, piece, COPY_BYTES)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, "read %s", name);
        buf_add(&file->pending, piece, (size_t)got);
        int rc = stop_check(stop, err);
        if (rc == 0)
            rc = outfile_pump(file, err);
        if (rc)
            return rc;
    }
    return 0;
}

/*
 * A folder of the run's own within the output folder. Files are copied into it, and then get their
 * names by renames alone.
 */
static char *staging_new(const struct session *s, size_t kind)
{
    cleanup_free char *base = output_base_new(shards_of(s)->kinds[kind].out_path);
    return xasprintf("%s/.muster-%s-%zu", base, shell_run_id(session_shell(s)), kind);
}

/* True if the program itself has put the file there. */
static bool is_in_place(const struct stat *source, const char *to)
{
    struct stat target;
    return stat(to, &target) == 0 && target.st_dev == source->st_dev &&
           target.st_ino == source->st_ino;
}

static int file_stage(const char *from, const char *to, const char *staging, struct stop stop,
                      uint64_t *bytes, struct err *err)
{
    cleanup_free char *staged = path_join(staging, path_basename(from));
    struct outfile file = OUTFILE_INIT;
    struct stat source;
    cleanup_fd int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &source) != 0)
        return fail_errno(err, "open %s", from);
    *bytes += (uint64_t)source.st_size;
    if (is_in_place(&source, to))
        return 0;
    int rc = outfile_open(&file, staged, false, err);
    if (rc == 0)
        rc = bytes_copy(fd, from, stop, &file, err);
    if (rc == 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    return rc;
}

static bool may_fill(const struct session *s, size_t kind)
{
    return session_request(s)->overwrite || output_folder_is_begun(session_run_dir(s), kind);
}

static int file_stage_new(const struct session *s, size_t kind, const char *from,
                          const char *staging, bool may_replace, uint64_t *bytes, struct err *err)
{
    cleanup_free char *to = path_join(shards_of(s)->kinds[kind].out_path, path_basename(from));
    struct stat source;
    if (!may_replace && path_exists(to) && !(stat(from, &source) == 0 && is_in_place(&source, to)))
        return fail(err, ERR_USAGE, "%s exists; --force replaces it", to);
    return file_stage(from, to, staging, shell_merge_stop(session_shell(s)), bytes, err);
}

/* Copies the files of one kind to where they can be put in place by renames. */
static int files_stage(struct session *s, size_t kind, struct result_merge_stats *stats,
                       struct err *err)
{
    cleanup_free char *staging = staging_new(s, kind);
    struct shard_paths paths = {0};
    bool may_replace_any = may_fill(s, kind);
    int rc = paths_gather(s, kind, &paths, err);
    if (rc == 0)
        rc = names_differ(&paths, err);
    if (rc == 0)
        rc = mkdir_parents(shards_of(s)->kinds[kind].out_path, 0777, err);
    if (rc == 0)
        rc = output_folder_begin(session_run_dir(s), kind, err);
    if (rc == 0)
        rc = remove_tree(staging, err); /* a session that was killed left it */
    if (rc == 0 && mkdir(staging, 0777) != 0)
        rc = fail_errno(err, "make %s", staging);
    for (size_t i = 0; rc == 0 && i < paths.len; i++)
        rc = file_stage_new(s, kind, paths.at[i], staging, may_replace_any, &stats->bytes_out, err);
    stats->n_results = paths.n_records;
    free(paths.at);
    return rc;
}

static void files_unstage(const struct session *s, size_t kind)
{
    cleanup_free char *staging = staging_new(s, kind);
    struct err err = {0};
    if (remove_tree(staging, &err) != 0)
        log_add(session_log(s), LOG_WARN, "map", "%s", err.text);
}

/* Gives the copies their names. */
static int files_place(const struct session *s, size_t kind, struct err *err)
{
    cleanup_free char *staging = staging_new(s, kind);
    const char *folder = shards_of(s)->kinds[kind].out_path;
    for (uint64_t k = 0; k < shards_of(s)->n_shards; k++) {
        if (!shards_of(s)->results[k].files)
            continue;
        const char *name = path_basename(shards_of(s)->results[k].files[kind].path);
        cleanup_free char *staged = path_join(staging, name), *to = path_join(folder, name);
        if (rename(staged, to) != 0 && errno != ENOENT) /* ENOENT: the file was in its place
                                                         * before */
            return fail_errno(err, "put %s into its place", to);
    }
    files_unstage(s, kind);
    return fsync_parent(staging, err);
}

/*
 * Puts the files of --also into their folders: all are staged before one of the folders is filled.
 */
static int folders_put(struct session *s, struct result_merge_stats *stats, struct err *err)
{
    const struct shards *shards = shards_of(s);
    size_t n_staged = 1;
    int rc = 0;
    for (; rc == 0 && n_staged < shards->n_kinds; n_staged++)
        if (output_is_folder(shards->kinds[n_staged].out_path))
            rc = files_stage(s, n_staged, stats, err);
    for (size_t kind = 1; kind < n_staged; kind++) {
        if (!output_is_folder(shards->kinds[kind].out_path))
            continue;
        if (rc == 0)
            rc = files_place(s, kind, err);
        else
            files_unstage(s, kind);
    }
    return rc;
}

/*
 * Joins the kinds from from->kind on. Each output is written while those before it wait for their
 * names. Folders are filled when all outputs are written, because files in a folder get their names
 * one after the other.
 */
/* NOLINTNEXTLINE(misc-no-recursion): see join_placing */
static int others_join(const struct joining *from, struct result_merge_stats *stats,
                       struct err *err)
{
    const struct shards *shards = shards_of(from->s);
    struct joining next = *from;
    while (next.kind < shards->n_kinds && output_is_folder(shards->kinds[next.kind].out_path))
        next.kind++;
    if (next.kind < shards->n_kinds)
        return kind_join(&next, stats, err);
    return folders_put(from->s, stats, err);
}

/* Puts the files of -o into a folder. They are staged first, and get their names last. */
static int folder_join(struct joining *joining, struct result_merge_stats *stats, struct err *err)
{
    struct joining others = *joining;
    struct result_merge_stats of_others = {0};
    others.kind = 1;
    int rc = files_stage(joining->s, 0, stats, err);
    if (rc == 0)
        rc = others_join(&others, &of_others, err);
    if (rc == 0)
        return files_place(joining->s, 0, err);
    files_unstage(joining->s, 0);
    return rc;
}

/*
 * Bytes written to a pipe cannot be taken back. So the pipe is written last, and its files are
 * checked before any other output is put in place.
 */
static int pipe_join(struct joining *joining, struct result_merge_stats *stats, struct err *err)
{
    struct joining others = *joining, look = *joining;
    struct result_merge_stats of_others = {0};
    others.kind = 1;
    look.is_dry = true;
    joining->takes_next = false;
    int rc = 0;
    if (shards_of(joining->s)->n_kinds > 1) {
        rc = kind_join(&look, &of_others, err);
        if (rc == 0)
            rc = others_join(&others, &of_others, err);
    }
    return rc ? rc : kind_join(joining, stats, err);
}

/* The number of outputs that rules can apply to. */
static size_t files_made(const struct shards *shards)
{
    size_t n = 0;
    for (size_t kind = 0; kind < shards->n_kinds; kind++)
        n += !output_is_folder(shards->kinds[kind].out_path);
    return n;
}

static int kinds_join(struct session *s, bool takes_next, struct result_merge_stats *stats,
                      struct err *err)
{
    const char *out_path = session_request(s)->out_path;
    bool to_folder = output_is_folder(out_path);
    struct merge_rules rules = {.is_shared = true, .n_more = files_made(shards_of(s))};
    struct joining joining = {.s = s, .rules = &rules, .takes_next = takes_next};
    int rc = merge_rules_take(&rules, &session_request(s)->merge.rules,
                              session_request(s)->merge.rules_path, err);
    if (rc == 0 && takes_next && to_folder)
        rc = folder_join(&joining, stats, err);
    else if (rc == 0 && takes_next && output_is_direct(out_path))
        rc = pipe_join(&joining, stats, err);
    else if (rc == 0)
        rc = kind_join(&joining, stats, err);
    merge_rules_release(&rules);
    return rc;
}

uint64_t shards_committed(const struct shards *shards)
{
    uint64_t n = 0;
    for (uint64_t k = 0; k < shards->n_shards; k++)
        n += shards->results[k].files != NULL;
    return n;
}

int shards_join(struct session *s, struct result_merge_stats *stats, struct err *err)
{
    uint64_t n_results = shards_committed(shards_of(s));
    int rc = shards_prove(s, err);
    if (rc == 0 && n_results > 0)
        rc = kinds_join(s, true, stats, err);
    stats->n_failed_items = shards_of(s)->n_shards - n_results;
    return rc;
}

/* Checks that the files can be joined. Any file can be put into a folder. */
static int joinable_check(struct shards *shards, struct err *err)
{
    const char *first = NULL;
    for (uint64_t k = 0; !first && k < shards->n_shards; k++)
        if (shards->results[k].files)
            first = shards->results[k].files[0].path;
    const char *joinless = first ? shard_joinless(first) : NULL;
    struct shard_kind *kind = &shards->kinds[0];
    kind->tensors = first ? shard_tensors(first) : TENSOR_NONE;
    if (!joinless && kind->tensors != TENSOR_NONE && kind->tensors != shard_tensors(kind->out_path))
        return fail(err, ERR_USAGE,
                    "files of tensors become one such file: -o so_far%s; those of the shards that "
                    "are done lie where %s does",
                    path_extension(first), first);
    if (!joinless)
        return 0;
    return fail(err, ERR_USAGE,
                "%s files cannot be joined into one; those of the shards that are done lie where "
                "%s does",
                joinless, first);
}

/* The run may be another user's, so the paths that it names are checked. */
static int files_check(const struct session *s, struct err *err)
{
    int rc = 0;
    for (uint64_t k = 0; k < shards_of(s)->n_shards; k++)
        for (size_t i = 0; rc == 0 && shards_of(s)->results[k].files && i < shards_of(s)->n_kinds;
             i++)
            rc = run_check_named(session_run_dir(s), shards_of(s)->results[k].files[i].path, err);
    return rc;
}

int shards_so_far(struct store *store, const struct map_request *request, bool *are_there,
                  struct result_merge_stats *stats, struct err *err)
{
    struct session *s = session_reader_new(request, store);
    uint64_t n_results = 0;
    int rc = shards_reopen(s, are_there, err);
    if (rc == 0 && *are_there)
        rc = shard_rows_read(s, err);
    if (rc == 0 && *are_there)
        rc = files_check(s, err);
    if (rc == 0 && *are_there)
        rc = joinable_check(shards_of(s), err);
    if (rc == 0 && *are_there)
        n_results = shards_committed(shards_of(s));
    if (n_results > 0)
        rc = kinds_join(s, false, stats, err);
    if (*are_there)
        stats->n_failed_items = shards_of(s)->n_shards - n_results;
    shards_free(shards_of(s));
    session_reader_free(s);
    return rc;
}
