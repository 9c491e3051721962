/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that hold one JSON object each. They are small, so each is read whole.
 */
#include "base/json.h"
#include "base/xalloc.h"
#include "data/file_merge/file_merge_impl.h"
#include "data/file_merge/metadata.h"
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
    if (rc == 0)
        buf_extend(out, (size_t)input->text_bytes);
    return rc;
}

static bool count_of(const void *object, struct str name, uint64_t *count)
{
    const struct str *text = object;
    struct str value;
    return json_get(*text, name.at, &value) && json_to_u64(value, count);
}

/*
 * Adds the number of records that a file states. The sum is unknown as soon as one file states
 * none.
 */
static void told_add(struct file_merge_stats *stats, struct str object)
{
    uint64_t told = record_count_said(count_of, &object);
    if (stats->n_told == UINT64_MAX || told == UINT64_MAX ||
        __builtin_add_overflow(stats->n_told, told, &stats->n_told))
        stats->n_told = UINT64_MAX;
}

int file_merge_metadata(struct file_merge *merge, struct err *err)
{
    const struct metadata_opts opts = {.rules = merge->opts->rules,
                                       .note = merge->has_notes ? merge->opts->note : NULL,
                                       .context = merge->opts->context};
    struct metadata_part *parts = xcalloc(merge->n_files, sizeof(*parts));
    struct buf *texts = xcalloc(merge->n_files, sizeof(*texts));
    cleanup_buf struct buf merged = BUF_INIT;
    size_t n_parts = 0;
    int rc = 0;
    merge->stats->n_told = 0;
    for (size_t i = 0; rc == 0 && i < merge->n_files; i++) {
        struct input *input = &merge->files[i].head.input;
        rc = stop_check(merge->opts->stop, err);
        if (rc == 0)
            rc = object_read(input, &texts[i], err);
        merge->files[i].n_records = input->text_bytes > 0;
        if (input->text_bytes > 0)
            parts[n_parts++] =
                (struct metadata_part){input->name, str_unmarked(buf_str(&texts[i]))};
        else
            file_merge_note(merge, "%s has nothing in it", input->name);
    }
    for (size_t i = 0; rc == 0 && i < n_parts; i++)
        told_add(merge->stats, parts[i].text);
    if (rc == 0)
        rc = metadata_merge(&opts, parts, n_parts, &merged, err);
    if (rc == 0 && merge->opts->id_field) /* a file that is not JSON has failed before this */
        rc = metadata_ids(merge->opts->id_field, parts, n_parts, err);
    if (rc == 0 && merge->out)
        rc = outfile_write(merge->out, buf_str(&merged), err);
    for (size_t i = 0; i < merge->n_files; i++)
        buf_release(&texts[i]);
    free(texts);
    free(parts);
    return rc;
}
