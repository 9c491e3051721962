/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that hold one JSON object each: read whole, they are small.
 */
#include "base/json.h"
#include "base/xalloc.h"
#include "data/join/join_impl.h"
#include "data/join/metadata.h"
#include "rule/names.h"

enum {
    OBJECT_BYTES_MAX = 64 << 20
};

static int object_read(struct input *input, struct buf *out, struct err *err)
{
    if (input->text_bytes > OBJECT_BYTES_MAX)
        return fail(err, ERR_DATA,
                    "%s is one object of %lu bytes; metadata of up to 64 MiB is merged",
                    input->name, input->text_bytes);
    buf_reserve(out, (size_t)input->text_bytes);
    int rc = input_read(input, 0, out->at, (size_t)input->text_bytes, err);
    out->len = rc ? 0 : (size_t)input->text_bytes;
    return rc;
}

static bool count_of(const void *object, struct str name, uint64_t *count)
{
    const struct str *text = object;
    struct str value;
    return json_get(*text, name.at, &value) && json_to_u64(value, count);
}

/* What one does not tell, all do not. */
static void told_add(struct join_stats *stats, struct str object)
{
    uint64_t told = record_count_said(count_of, &object);
    if (stats->n_told == UINT64_MAX || told == UINT64_MAX ||
        __builtin_add_overflow(stats->n_told, told, &stats->n_told))
        stats->n_told = UINT64_MAX;
}

int join_metadata(struct join *join, struct err *err)
{
    const struct metadata_opts opts = {.rules = join->opts->rules,
                                       .note = join->has_notes ? join->opts->note : NULL,
                                       .context = join->opts->context};
    struct metadata_part *parts = xcalloc(join->n_files, sizeof(*parts));
    struct buf *texts = xcalloc(join->n_files, sizeof(*texts));
    cleanup_buf struct buf merged = BUF_INIT;
    size_t n_parts = 0;
    int rc = 0;
    join->stats->n_told = 0;
    for (size_t i = 0; rc == 0 && i < join->n_files; i++) {
        struct input *input = &join->files[i].head.input;
        rc = object_read(input, &texts[i], err);
        join->files[i].n_records = input->text_bytes > 0;
        if (input->text_bytes > 0)
            parts[n_parts++] =
                (struct metadata_part){input->name, str_unmarked(buf_str(&texts[i]))};
        else
            join_note(join, "%s has nothing in it", input->name);
    }
    for (size_t i = 0; rc == 0 && i < n_parts; i++)
        told_add(join->stats, parts[i].text);
    if (rc == 0)
        rc = metadata_merge(&opts, parts, n_parts, &merged, err);
    if (rc == 0 && join->opts->id_field) /* what is no JSON has been said */
        rc = metadata_ids(join->opts->id_field, parts, n_parts, err);
    if (rc == 0 && join->out)
        rc = outfile_write(join->out, buf_str(&merged), err);
    for (size_t i = 0; i < join->n_files; i++)
        buf_release(&texts[i]);
    free(texts);
    free(parts);
    return rc;
}
