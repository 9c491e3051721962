/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines and elements are counted only when something has to be said about one of them.
 */
#include <stdarg.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "data/join_impl.h"

/* Newlines, or for JSON ends of elements, in [from, to). */
static uint64_t ends_count(struct join_file *file, uint64_t from, uint64_t to)
{
    bool is_json = file->format == FORMAT_JSON;
    struct split split = split_begin(is_json ? FORMAT_JSON : FORMAT_LINES);
    struct split_tally tally = {.ends_max = UINT64_MAX};
    cleanup_free char *piece = xmalloc(WINDOW_BYTES);
    split.is_first = true;
    while (from < to) {
        size_t len = (size_t)MIN(to - from, (uint64_t)WINDOW_BYTES);
        if (input_read(&file->head.input, from, piece, len, NULL) != 0)
            break;
        split_blocks(&split, piece, len, &tally);
        split_tail(&split, piece + len / SPLIT_BLOCK_BYTES * SPLIT_BLOCK_BYTES,
                   len % SPLIT_BLOCK_BYTES, &tally);
        from += len;
    }
    return tally.n_ends;
}

void join_place(struct join_file *file, uint64_t offset, struct buf *out)
{
    const char *name = file->head.input.name;
    if (file->format == FORMAT_JSON)
        buf_addf(out, "%s element %lu", name, ends_count(file, file->head.begin_at, offset) + 1);
    else
        buf_addf(out, "%s line %lu", name, ends_count(file, 0, offset) + 1);
}

int join_fail(struct join_file *file, uint64_t offset, struct err *err, const char *fmt, ...)
{
    cleanup_buf struct buf place = BUF_INIT;
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    if (!err)
        return ERR_DATA;
    join_place(file, offset, &place);
    return fail(err, ERR_DATA, "%s: %s", buf_text(&place), what);
}
