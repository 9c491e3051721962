/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the shards: found again by a resume, and at the end made one, or put into one folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "data/join/join.h"
#include "run/placed.h"
#include "run/shard.h"

enum {
    LINES_MAX_BYTES = 64 << 20, /* of the lines about files in one part */
    COPY_BYTES = 1 << 20
};

/* ---- the lines about them ---- */

void shard_path_add(const char *path, struct buf *out)
{
    if (utf8_is_valid(str_of(path))) {
        buf_add_json(out, str_of(path));
        return;
    }
    buf_add_text(out, "{\"bytes\":\"");
    buf_add_hex(out, str_of(path));
    buf_add_text(out, "\"}");
}

static bool path_read(struct str value, struct buf *out)
{
    struct str bytes;
    cleanup_buf struct buf hex = BUF_INIT;
    if (json_kind_of(value) == JSON_STRING)
        return json_to_text(value, out);
    return json_get(value, "bytes", &bytes) && json_to_text(bytes, &hex) &&
           buf_add_unhex(out, buf_str(&hex));
}

static bool result_read(struct str line, uint64_t *shard, struct shard_result *out)
{
    struct str value;
    cleanup_buf struct buf path = BUF_INIT;
    *out = (struct shard_result){.records = UINT64_MAX};
    if (!json_get(line, "shard", &value) || !json_to_u64(value, shard) ||
        !json_get(line, "bytes", &value) || !json_to_u64(value, &out->bytes) ||
        !json_get(line, "path", &value) || !path_read(value, &path))
        return false;
    if (json_get(line, "records", &value) && !json_to_u64(value, &out->records))
        return false;
    out->path = buf_steal(&path);
    return true;
}

static int row_damaged(const struct session *s, const struct range_row *row, struct err *err)
{
    return fail(err, ERR_DATA, "%s/parts/%u.part is damaged: no file of shard %lu stands there",
                s->run_dir, row->part, row->first);
}

/* A shard has a row of its own, of one line: it had a process of its own, and so a part. */
static int row_read(struct session *s, const struct range_row *row, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/parts/%u.part", s->run_dir, row->part);
    cleanup_buf struct buf bytes = BUF_INIT;
    struct shard_result result;
    uint64_t shard = UINT64_MAX;
    if (row->count != 1 || row->first >= s->shards->n_shards)
        return fail(err, ERR_DATA, "%s/run.db is damaged: a result of %lu shards from shard %lu",
                    s->run_dir, row->count, row->first);
    int rc = file_read(path, LINES_MAX_BYTES, &bytes, err);
    if (rc)
        return rc;
    if (row->offset > bytes.len || row->bytes > bytes.len - row->offset)
        return row_damaged(s, row, err);
    struct str rest = {buf_text(&bytes) + row->offset, row->bytes}, line;
    if (!str_next(&rest, '\n', &line) || !result_read(line, &shard, &result))
        return row_damaged(s, row, err);
    if (shard != row->first || rest.len > 0) {
        free(result.path);
        return row_damaged(s, row, err);
    }
    free(s->shards->results[shard].path);
    s->shards->results[shard] = result;
    return 0;
}

static int rows_read(struct session *s, struct err *err)
{
    struct row_reader *reader;
    struct range_row row;
    int rc = range_reader_open(&reader, s->store, RANGES_BY_ITEM, err);
    if (rc)
        return rc;
    while ((rc = range_reader_next(reader, &row, err)) > 0) {
        rc = row_read(s, &row, err);
        if (rc)
            break;
    }
    row_reader_close(reader);
    return rc;
}

/* Is it there as it was? Else *why says what became of it. */
static bool is_intact(const struct shard_result *result, struct buf *why)
{
    struct stat st;
    if (stat(result->path, &st) != 0)
        buf_addf(why, "%s is gone", result->path);
    else if ((uint64_t)st.st_size != result->bytes)
        buf_addf(why, "%s has %ld bytes, and had %lu", result->path, st.st_size, result->bytes);
    return why->len == 0;
}

/* Those given up earlier stay so, unless they are to be tried again. */
static int asides_read(struct session *s, struct err *err)
{
    struct row_reader *reader;
    struct aside_row row;
    if (s->request->retry_failed)
        return 0;
    int rc = aside_reader_open(&reader, s->store, err);
    if (rc)
        return rc;
    while ((rc = aside_reader_next(reader, &row, err)) > 0)
        if (row.item < s->shards->n_shards)
            shard_set_aside(s->shards, row.item);
    row_reader_close(reader);
    return rc;
}

int shards_restore(struct session *s, struct err *err)
{
    struct shards *shards = s->shards;
    int rc = rows_read(s, err);
    if (rc == 0)
        rc = asides_read(s, err);
    for (uint64_t k = 0; rc == 0 && k < shards->n_shards; k++) {
        struct shard_result *result = &shards->results[k];
        cleanup_buf struct buf name = BUF_INIT, why = BUF_INIT;
        bool is_there = result->path && is_intact(result, &why);
        if (is_there)
            shards->n_items_done += shard_share(shards, k).count;
        if (!result->path || is_there)
            continue;
        shard_name(shards, k, &name);
        log_add(s->log, LOG_WARN, "map", "%s is run again: its file %s", buf_text(&name),
                buf_text(&why));
        free(steal_ptr(&result->path));
        rc = store_forget(s->store, k, err);
    }
    return rc;
}

/* ---- the proof ---- */

static int mark(const struct session *s, uint8_t *seen, uint64_t first, uint64_t count,
                struct err *err)
{
    for (uint64_t k = first; k < first + count; k++) {
        if (k >= s->shards->n_shards)
            return fail(err, ERR_DATA, "shard %lu has a result, but there are only %lu", k,
                        s->shards->n_shards);
        if (seen[k]++)
            return fail(err, ERR_DATA, "shard %lu has two results", k);
    }
    return 0;
}

/* By the ledger, not by what is remembered: each shard once, as a file or as set aside. */
static int shards_prove(struct session *s, struct err *err)
{
    cleanup_free uint8_t *seen = xcalloc(s->shards->n_shards, 1);
    struct row_reader *reader;
    struct range_row row;
    struct aside_row aside;
    int rc = range_reader_open(&reader, s->store, RANGES_BY_ITEM, err);
    if (rc)
        return rc;
    while ((rc = range_reader_next(reader, &row, err)) > 0)
        if ((rc = mark(s, seen, row.first, row.count, err)) != 0)
            break;
    row_reader_close(reader);
    if (rc == 0)
        rc = aside_reader_open(&reader, s->store, err);
    if (rc)
        return rc;
    while ((rc = aside_reader_next(reader, &aside, err)) > 0)
        if ((rc = mark(s, seen, aside.item, 1, err)) != 0)
            break;
    row_reader_close(reader);
    for (uint64_t k = 0; rc == 0 && k < s->shards->n_shards; k++)
        if (!seen[k])
            rc = fail(err, ERR_DATA, "shard %lu is missing: it has no file and was not set aside",
                      k);
    return rc;
}

/* ---- one file ---- */

/* What the shards left, in their order; the strings are borrowed, the array is the caller's. */
struct shard_files {
    const char **paths;
    size_t len;
    uint64_t n_records; /* UINT64_MAX: not all were counted */
};

static int files_gather(struct session *s, struct shard_files *out, struct err *err)
{
    const struct shards *shards = s->shards;
    *out = (struct shard_files){.paths = xcalloc(shards->n_shards + 1, sizeof(*out->paths))};
    for (uint64_t k = 0; k < shards->n_shards; k++) {
        const struct shard_result *result = &shards->results[k];
        cleanup_buf struct buf name = BUF_INIT, why = BUF_INIT;
        if (!result->path)
            continue;
        if (!is_intact(result, &why)) {
            shard_name(shards, k, &name);
            return fail(err, ERR_FAILED, "the file of %s, %s; the shard is run again by a resume",
                        buf_text(&name), buf_text(&why));
        }
        out->paths[out->len++] = result->path;
        bool is_counted = result->records != UINT64_MAX && out->n_records != UINT64_MAX;
        out->n_records = is_counted ? out->n_records + result->records : UINT64_MAX;
    }
    return 0;
}

static void join_note(void *context, const char *text)
{
    struct session *s = context;
    log_add(s->log, LOG_WARN, "map", "%s", text);
}

static int join_placing(void *context, int fd, struct err *err)
{
    const struct session *s = context;
    return placed_note(s->run_dir, fd, err);
}

static int files_write(struct session *s, const struct shard_files *files,
                       struct merge_stats *stats, struct err *err)
{
    struct join_opts opts = {.format = s->shards->format,
                             .out_format = s->request->format_out,
                             .id_field = s->request->id_field,
                             .is_union = s->shards->is_union,
                             .expect = files->n_records,
                             .force = s->request->overwrite,
                             .note = s->log ? join_note : NULL,
                             .placing = s->log ? join_placing : NULL, /* the run's own output */
                             .context = s};
    struct join_stats joined = {0};
    int rc = join_files(&opts, files->paths, files->len, s->request->out_path, &joined, err);
    stats->n_results = joined.n_records;
    stats->bytes_out = joined.n_bytes;
    return rc;
}

/* ---- one folder ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(path_basename(*(const char *const *)a), path_basename(*(const char *const *)b));
}

static int names_differ(const struct shard_files *files, struct err *err)
{
    cleanup_free const char **sorted = xcalloc(files->len + 1, sizeof(*sorted));
    memcpy(sorted, files->paths, files->len * sizeof(*sorted));
    qsort(sorted, files->len, sizeof(*sorted), by_name);
    for (size_t i = 1; i < files->len; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0)
            return fail(err, ERR_FAILED,
                        "%s and %s have the same name, and cannot both be put into one folder; let "
                        "the program put {suffix} into it",
                        sorted[i - 1], sorted[i]);
    return 0;
}

static int bytes_copy(int fd, const char *name, struct outfile *file, struct err *err)
{
    cleanup_free char *piece = xmalloc(COPY_BYTES);
    ssize_t got;
    while ((got = read(fd, piece, COPY_BYTES)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, "read %s", name);
        buf_add(&file->pending, piece, (size_t)got);
        int rc = outfile_pump(file, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int file_put(const struct session *s, const char *from, uint64_t *bytes, struct err *err)
{
    cleanup_free char *to = path_join(s->request->out_path, path_basename(from));
    struct outfile file = OUTFILE_INIT;
    struct stat source, target;
    cleanup_fd int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &source) != 0)
        return fail_errno(err, "open %s", from);
    *bytes += (uint64_t)source.st_size;
    if (stat(to, &target) == 0 && target.st_dev == source.st_dev && target.st_ino == source.st_ino)
        return 0; /* its program has put it there */
    int rc = outfile_open(&file, to, s->request->overwrite, err);
    if (rc == 0)
        rc = bytes_copy(fd, from, &file, err);
    if (rc == 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    return rc;
}

static int files_put(struct session *s, const struct shard_files *files, struct merge_stats *stats,
                     struct err *err)
{
    cleanup_free char *note = path_join(s->run_dir, "folder.begun");
    int rc = names_differ(files, err);
    if (rc == 0)
        rc = mkdir_parents(s->request->out_path, 0777, err);
    if (rc == 0) /* from now on, what is in the folder is ours to replace */
        rc = file_replace(note, STR(""), err);
    for (size_t i = 0; rc == 0 && i < files->len; i++)
        rc = file_put(s, files->paths[i], &stats->bytes_out, err);
    stats->n_results = files->n_records;
    return rc;
}

bool shard_folder_is_begun(const char *run_dir)
{
    cleanup_free char *note = path_join(run_dir, "folder.begun");
    return path_exists(note);
}

int shards_join(struct session *s, struct merge_stats *stats, struct err *err)
{
    struct shard_files files = {0};
    bool to_folder = shard_output_is_folder(s->request->out_path);
    int rc = shards_prove(s, err);
    if (rc == 0)
        rc = files_gather(s, &files, err);
    if (rc == 0 && files.len > 0)
        rc = to_folder ? files_put(s, &files, stats, err) : files_write(s, &files, stats, err);
    stats->n_asides = s->shards->n_shards - files.len;
    free(files.paths);
    return rc;
}

/* Files of any kind are put into a folder, and only those of records into one file. */
static int joinable_check(const struct shard_files *files, struct err *err)
{
    const char *joinless = files->len > 0 ? shard_joinless(files->paths[0]) : NULL;
    if (!joinless)
        return 0;
    return fail(err, ERR_USAGE,
                "%s files cannot be joined into one; those of the shards that are done lie where "
                "%s does",
                joinless, files->paths[0]);
}

int shards_so_far(struct store *store, const struct map_request *request, bool *are_there,
                  struct merge_stats *stats, struct err *err)
{
    struct session s = {
        .request = request, .store = store, .run_dir = (char *)(uintptr_t)store_dir(store)};
    struct shard_files files = {0};
    int rc = shards_reopen(&s, are_there, err);
    if (rc == 0 && *are_there)
        rc = rows_read(&s, err);
    if (rc == 0 && *are_there)
        rc = files_gather(&s, &files, err);
    if (rc == 0)
        rc = joinable_check(&files, err);
    if (rc == 0 && *are_there && files.len > 0)
        rc = files_write(&s, &files, stats, err);
    if (*are_there)
        stats->n_asides = s.shards->n_shards - files.len;
    free(files.paths);
    shards_free(s.shards);
    return rc;
}

void shard_files_drop(struct session *s)
{
    struct err err = {0};
    const char *const folders[] = {s->shards->input_dir, s->shards->output_dir};
    for (size_t i = 0; i < countof(folders); i++)
        if (remove_tree(folders[i], &err) != 0)
            log_add(s->log, LOG_WARN, "map", "%s", err.text);
}

/* ---- what is said ---- */

enum {
    MISSING_NAMED = 5
};

static void missing_add(const struct shards *shards, struct buf *out)
{
    uint64_t n_missing = 0;
    for (uint64_t k = 0; k < shards->n_shards; k++) {
        if (shards->results[k].path || n_missing++ >= MISSING_NAMED)
            continue;
        buf_add_text(out, n_missing == 1 ? "  missing    " : ", ");
        shard_name(shards, k, out);
    }
    if (n_missing > MISSING_NAMED)
        buf_addf(out, " and %lu more", n_missing - MISSING_NAMED);
    if (n_missing > 0)
        buf_add_char(out, '\n');
}

void shard_summary_add(struct session *s, const struct merge_stats *stats, struct buf *out)
{
    const struct shards *shards = s->shards;
    uint64_t n_items = shards->n_items_done, n_missing = 0;
    for (uint64_t k = 0; k < shards->n_shards; k++)
        n_missing += !shards->results[k].path;
    uint64_t n_done = shards->n_shards - n_missing;
    if (stats && n_done == 0)
        buf_addf(out, "nothing was collected: none of the %lu shards left its file\n",
                 shards->n_shards);
    else if (stats && n_missing == 0)
        buf_addf(out, "%s: %lu items in %lu shard%s, complete\n", s->request->out_path, n_items,
                 n_done, n_done == 1 ? "" : "s");
    else
        buf_addf(out, "%s%s%lu of %lu items, %lu of %lu shards\n",
                 stats ? s->request->out_path : "", stats ? ": " : "", n_items, shards->n_items,
                 n_done, shards->n_shards);
    if (n_done > 0)
        missing_add(shards, out);
}
