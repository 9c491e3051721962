/* SPDX-License-Identifier: Apache-2.0
 *
 * From one format to another, record by record: what a source makes of a file, as map writes results.
 */
#include "base/xalloc.h"
#include "data/join_impl.h"
#include "data/merge_impl.h"

enum {
    LINES_BYTES = 256 * 1024
};

static int lines_add(struct record_out *out, struct source *source, struct str lines, uint64_t item,
                     struct err *err)
{
    struct str line;
    int rc = 0;
    while (rc == 0 && lines.len > 0 && str_next(&lines, '\n', &line)) {
        rc = record_out_add(out, item, line, err);
        if (rc) {
            cleanup_buf struct buf place = BUF_INIT;
            source_place(source, item, &place);
            return wrap(err, rc, "%s", buf_text(&place));
        }
        item++;
    }
    return rc;
}

static int file_convert(struct record_out *out, struct source *source, struct err *err)
{
    cleanup_buf struct buf lines = BUF_INIT;
    int rc = 0;
    for (uint64_t item = 0; rc == 0;) {
        uint64_t n_lines = 0, known = source_known(source);
        if (item == known && source_is_complete(source))
            break;
        if (item == known) {
            rc = source_scan(source, LINES_BYTES, err);
            continue;
        }
        buf_reset(&lines);
        rc = source_lines(source, item, known - item, LINES_BYTES, &lines, &n_lines, err);
        if (rc == 0)
            rc = lines_add(out, source, buf_str(&lines), item, err);
        item += n_lines;
    }
    return rc;
}

int join_convert(struct join *join, enum out_format format, struct err *err)
{
    struct merge_opts opts = {.format = format, .results_are_json = true};
    struct record_out out = {.opts = &opts, .file = join->out, .format = format};
    int rc = 0;
    record_out_begin(&out);
    for (size_t i = 0; rc == 0 && i < join->n_files; i++) {
        struct join_file *file = &join->files[i];
        struct source *source;
        const struct source_opts ask = {
            .paths = &file->head.input.path, .n_paths = 1, .format = file->format};
        rc = source_open(&source, &ask, err);
        if (rc)
            break;
        opts.results_are_json = file->format != FORMAT_LINES;
        rc = file_convert(&out, source, err);
        file->n_records = source_known(source);
        source_close(source);
    }
    if (rc == 0)
        record_out_end(&out);
    record_out_release(&out);
    return rc;
}
