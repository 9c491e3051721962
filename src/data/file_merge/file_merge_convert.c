/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts records from one format to another: a source reads the items, and record_out writes them
 * as it writes the results of a run.
 */
#include "base/json.h"
#include "data/file_merge/file_merge_impl.h"
#include "data/result_merge_impl.h"

enum {
    LINES_BYTES = 256 * 1024
};

/* Takes one record, as the item that a source makes of it. */
typedef int record_fn(void *context, uint64_t item, struct str record, struct err *err);

struct walk {
    record_fn *take;
    void *context;
    struct stop stop; /* asked at each window of lines */
};

static int lines_take(const struct walk *walk, struct source *source, struct str lines,
                      uint64_t item, struct err *err)
{
    struct str line;
    int rc = 0;
    while (rc == 0 && lines.len > 0 && str_next(&lines, '\n', &line)) {
        rc = walk->take(walk->context, item, line, err);
        if (rc) {
            cleanup_buf struct buf place = BUF_INIT;
            source_position(source, item, &place);
            return wrap(err, rc, "%s", buf_text(&place));
        }
        item++;
    }
    return rc;
}

static int source_walk(const struct walk *walk, struct source *source, struct err *err)
{
    cleanup_buf struct buf lines = BUF_INIT;
    int rc = 0;
    for (uint64_t item = 0; rc == 0;) {
        uint64_t n_lines = 0, known = source_known(source);
        if (item == known && source_is_complete(source))
            break;
        if ((rc = stop_check(walk->stop, err)) != 0)
            break;
        if (item == known) {
            rc = source_scan(source, LINES_BYTES, err);
            continue;
        }
        buf_reset(&lines);
        rc = source_lines(source, item, known - item, LINES_BYTES, &lines, &n_lines, err);
        if (rc == 0)
            rc = lines_take(walk, source, buf_str(&lines), item, err);
        item += n_lines;
    }
    return rc;
}

static int file_walk(const struct walk *walk, struct file_merge_input *file, struct err *err)
{
    struct source *source;
    const struct source_opts opts = {
        .paths = &file->head.input.path, .n_paths = 1, .format = file->format};
    int rc = source_open(&source, &opts, err);
    if (rc == 0)
        rc = source_walk(walk, source, err);
    if (rc == 0)
        file->n_records = source_known(source);
    source_close(source);
    return rc;
}

static int look_take(void *context, uint64_t item, struct str record, struct err *err)
{
    const struct file_merge_opts *opts = context;
    (void)item;
    if (!str_starts_with(str_trim(record), STR("{"))) /* a JSON value, because the source checked
                                                       * it */
        return fail(err, ERR_DATA, "not an object");
    return opts->look(opts->look_context, record, err);
}

int file_merge_look(struct file_merge *merge, struct err *err)
{
    const struct walk walk = {look_take, (void *)(uintptr_t)merge->opts, merge->opts->stop};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < merge->n_files; i++) {
        struct file_merge_input *file = &merge->files[i];
        if (file->format == FORMAT_LINES)
            return fail(err, ERR_USAGE, "%s holds lines, which have no fields",
                        file->head.input.name);
        rc = file_walk(&walk, file, err);
    }
    if (rc == 0 && merge->opts->look_end)
        rc = merge->opts->look_end(merge->opts->look_context, err);
    return rc;
}

static int out_take(void *context, uint64_t item, struct str record, struct err *err)
{
    return record_out_add(context, item, record, err);
}

/* The records were counted in the first pass by another reader: ERR_DATA if this one finds a
 * different number. */
static int file_convert(const struct walk *walk, struct file_merge_input *file, struct err *err)
{
    uint64_t n_counted = file->n_records;
    int rc = file_walk(walk, file, err);
    if (rc == 0 && file->n_records != n_counted)
        return fail(err, ERR_DATA, "%s had %lu records when it was looked at, and now has %lu",
                    file->head.input.name, n_counted, file->n_records);
    return rc;
}

int file_merge_convert(struct file_merge *merge, enum out_format format, struct err *err)
{
    struct result_merge_opts opts = {.format = format};
    struct record_out out = {.opts = &opts,
                             .file = merge->out,
                             .format = format,
                             .fills_columns = merge->opts->is_union && merge->columns.len > 0};
    cleanup_csv_row struct csv_row columns = CSV_ROW_INIT;
    const struct walk walk = {out_take, &out, merge->opts->stop};
    int rc = 0;
    window_free(merge); /* a source reads the files again, with memory of its own */
    record_out_begin(&out);
    for (size_t i = 0; i < merge->columns.len; i++)
        csv_row_add(&columns, name_index_get(&merge->columns, i));
    record_out_columns(&out, &columns);
    for (size_t i = 0; rc == 0 && i < merge->n_files; i++) {
        opts.results_are_json = merge->files[i].format != FORMAT_LINES;
        rc = file_convert(&walk, &merge->files[i], err);
    }
    if (rc == 0)
        record_out_end(&out);
    record_out_release(&out);
    return rc;
}
