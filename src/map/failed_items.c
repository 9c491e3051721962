/* SPDX-License-Identifier: Apache-2.0
 *
 * <output>.failed.jsonl: the items that failed, with the reason and all that is needed to try them again.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "map/session_impl.h"
#include "map/work.h"
#include "store/store.h"

char *failed_items_path(const struct session *s)
{
    /* A part has no output of its own, and other parts have the same name for it. */
    if (output_is_direct(s->request->out_path) || s->request->shards.n_parts > 0)
        return path_join(shell_run_dir(s->shell), "failed.jsonl");
    cleanup_free char *base = output_base_new(s->request->out_path);
    return xasprintf("%s.failed.jsonl", base);
}

static void failed_item_add(struct session *s, const struct failed_item_row *row, struct buf *text)
{
    buf_addf(text, "{\"item\":%lu,\"place\":", row->item);
    buf_add_json(text, str_of(row->position ? row->position : ""));
    buf_addf(text, ",\"attempts\":%u,\"reason\":", row->attempts);
    buf_add_json(text, str_of(row->reason));
    if (row->stderr_tail) {
        buf_add_text(text, ",\"stderr_tail\":");
        buf_add_json(text, str_of(row->stderr_tail));
    }
    s->request->work->retry_add(s, row->item, text);
    buf_add_text(text, "}\n");
}

/* All items may have failed, so they are not kept in memory. */
static int failed_items_stream(struct session *s, struct row_reader *reader, struct outfile *file,
                               uint64_t *n_out, struct err *err)
{
    struct failed_item_row row;
    int rc;
    while ((rc = failed_item_reader_next(reader, &row, err)) > 0) {
        failed_item_add(s, &row, &file->pending);
        ++*n_out;
        rc = outfile_pump(file, err);
        if (rc)
            return rc;
    }
    return rc;
}

int failed_items_write(struct session *s, uint64_t *n_out, struct err *err)
{
    cleanup_free char *path = failed_items_path(s);
    struct outfile file = OUTFILE_INIT;
    struct row_reader *reader;
    *n_out = s->failed.n_malformed = 0;
    s->failed.are_listed = false;
    int rc = failed_item_reader_open(&reader, shell_store(s->shell), err);
    if (rc)
        return rc;
    rc = outfile_open(&file, path, true, err);
    if (rc == 0)
        rc = failed_items_stream(s, reader, &file, n_out, err);
    row_reader_close(reader);
    if (rc == 0 && *n_out > 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    s->failed.are_listed = rc == 0 && *n_out > 0;
    if (rc == 0 && *n_out == 0)
        unlink(path);
    return rc;
}
