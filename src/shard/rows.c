/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ledger keeps about the files of the shards: a line for each shard. A resume reads the
 * lines, and checks that the files still exist.
 */
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/json_bytes.h"
#include "base/ours.h"
#include "base/xalloc.h"
#include "shard/shard.h"

enum {
    LINES_MAX_BYTES = 64 << 20 /* most bytes of the lines in one part */
};

void shard_result_free(struct shards *shards, struct shard_result *result)
{
    for (size_t i = 0; result->files && i < shards->n_kinds; i++) {
        free(result->files[i].path);
        free(result->files[i].origin);
    }
    free(steal_ptr(&result->files));
}

/* ---- the lines ---- */

static void file_add(const struct shard_file *file, struct buf *out)
{
    buf_add_text(out, "\"path\":");
    buf_add_json_bytes(out, file->path);
    if (file->origin) {
        buf_add_text(out, ",\"origin\":");
        buf_add_json_bytes(out, file->origin);
    }
    buf_addf(out, ",\"bytes\":%lu", file->bytes);
    if (file->records != UINT64_MAX)
        buf_addf(out, ",\"records\":%lu", file->records);
}

static bool file_read_from(struct str object, struct shard_file *out)
{
    struct str value;
    cleanup_buf struct buf path = BUF_INIT, origin = BUF_INIT;
    *out = (struct shard_file){.records = UINT64_MAX};
    if (!json_get(object, "bytes", &value) || !json_to_u64(value, &out->bytes) ||
        !json_get(object, "path", &value) || !json_to_bytes(value, &path))
        return false;
    if (json_get(object, "records", &value) && !json_to_u64(value, &out->records))
        return false;
    bool has_origin = json_get(object, "origin", &value);
    if (has_origin && !json_to_bytes(value, &origin))
        return false;
    out->origin = has_origin ? buf_steal(&origin) : NULL;
    out->path = buf_steal(&path);
    return true;
}

void shard_files_add(const struct shards *shards, const struct shard_result *result,
                     struct buf *out)
{
    file_add(&result->files[0], out);
    for (size_t i = 1; i < shards->n_kinds; i++) {
        buf_add_text(out, i == 1 ? ",\"also\":[{" : ",{");
        file_add(&result->files[i], out);
        buf_add_text(out, i + 1 == shards->n_kinds ? "}]" : "}");
    }
}

/*
 * Reads the files of a line, which has one of each kind. A line with fewer files belongs to another
 * run.
 */
static bool files_read(const struct shards *shards, struct str line, struct shard_file *files)
{
    struct str also = {NULL, 0}, element;
    bool is_begun = false;
    bool is_read = file_read_from(line, &files[0]);
    if (shards->n_kinds > 1 && !json_get(line, "also", &also))
        return false;
    for (size_t i = 1; is_read && i < shards->n_kinds; i++)
        is_read = json_element(&also, &is_begun, &element) && file_read_from(element, &files[i]);
    return is_read;
}

/* ---- the rows ---- */

static int row_damaged(const char *run_dir, const struct range_row *row, struct err *err)
{
    return fail(err, ERR_DATA, "%s/parts/%u.part is damaged: no file of shard %lu stands there",
                run_dir, row->part, row->first);
}

static int line_read(struct session *s, const struct range_row *row, struct str line,
                     struct err *err)
{
    struct shards *shards = shards_of(s);
    struct str value;
    uint64_t shard = UINT64_MAX;
    struct shard_result result = {.files = xcalloc(shards->n_kinds, sizeof(*result.files))};
    bool is_ours = json_get(line, "shard", &value) && json_to_u64(value, &shard) &&
                   shard == row->first && files_read(shards, line, result.files);
    if (!is_ours) {
        shard_result_free(shards, &result);
        return row_damaged(session_run_dir(s), row, err);
    }
    shard_result_free(shards, &shards->results[shard]);
    shards->results[shard] = result;
    return 0;
}

/*
 * A shard has a row of its own with one line, because it had a process, and so a part, of its own.
 */
int shard_line_read(const char *run_dir, const struct range_row *row, uint64_t n_shards,
                    struct buf *out, struct err *err)
{
    cleanup_free char *path = xasprintf("%s/parts/%u.part", run_dir, row->part);
    cleanup_buf struct buf bytes = BUF_INIT;
    if (row->count != 1 || row->first >= n_shards)
        return fail(err, ERR_DATA, "%s/run.db is damaged: a result of %lu shards from shard %lu",
                    run_dir, row->count, row->first);
    int rc = plain_file_read(path, LINES_MAX_BYTES, &bytes, err);
    if (rc)
        return rc;
    if (row->offset > bytes.len || row->bytes > bytes.len - row->offset)
        return row_damaged(run_dir, row, err);
    struct str rest = {buf_text(&bytes) + row->offset, row->bytes}, line;
    if (!str_next(&rest, '\n', &line) || rest.len > 0)
        return row_damaged(run_dir, row, err);
    buf_add_str(out, line);
    return 0;
}

static int row_read(struct session *s, const struct range_row *row, struct err *err)
{
    cleanup_buf struct buf line = BUF_INIT;
    int rc = shard_line_read(session_run_dir(s), row, shards_of(s)->n_shards, &line, err);
    return rc ? rc : line_read(s, row, buf_str(&line), err);
}

int shard_rows_read(struct session *s, struct err *err)
{
    struct row_reader *reader;
    struct range_row row;
    int rc = range_reader_open(&reader, session_store(s), RANGES_BY_ITEM, err);
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

/* ---- a run that goes on ---- */

bool shard_file_is_intact(const struct shard_file *file, struct buf *why)
{
    struct stat st;
    if (stat(file->path, &st) != 0)
        buf_addf(why, "%s is gone", file->path);
    else if ((uint64_t)st.st_size != file->bytes)
        buf_addf(why, "%s has %ld bytes, and had %lu", file->path, st.st_size, file->bytes);
    return why->len == 0;
}

/* Shards given up earlier stay given up, unless --retry-failed is given. */
static int failed_read(struct session *s, struct err *err)
{
    struct row_reader *reader;
    struct failed_item_row row;
    if (session_request(s)->retry_failed)
        return 0;
    int rc = failed_item_reader_open(&reader, session_store(s), err);
    if (rc)
        return rc;
    while ((rc = failed_item_reader_next(reader, &row, err)) > 0)
        if (row.item < shards_of(s)->n_shards)
            shard_give_up(shards_of(s), row.item);
    row_reader_close(reader);
    return rc;
}

static bool are_intact(const struct shards *shards, const struct shard_result *result,
                       struct buf *why)
{
    for (size_t i = 0; i < shards->n_kinds; i++)
        if (!shard_file_is_intact(&result->files[i], why))
            return false;
    return true;
}

int shards_restore(struct session *s, struct err *err)
{
    struct shards *shards = shards_of(s);
    int rc = shard_rows_read(s, err);
    if (rc == 0)
        rc = failed_read(s, err);
    for (uint64_t k = 0; rc == 0 && k < shards->n_shards; k++) {
        struct shard_result *result = &shards->results[k];
        cleanup_buf struct buf name = BUF_INIT, why = BUF_INIT;
        bool is_there = result->files && are_intact(shards, result, &why);
        if (is_there)
            shards->n_items_done += shard_share(shards, k).count;
        if (!result->files || is_there)
            continue;
        shard_name(shards, k, &name);
        log_add(session_log(s), LOG_WARN, "map", "%s is run again: its file %s", buf_text(&name),
                buf_text(&why));
        shard_result_free(shards, result);
        rc = store_forget(session_store(s), k, err);
    }
    return rc;
}
