/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines and elements are counted only when a message has to name one of them.
 */
#include <stdarg.h>

#include "base/cleanup.h"
#include "base/json_rough.h"
#include "data/file_merge/file_merge_impl.h"

void file_merge_place(struct file_merge_input *file, uint64_t offset, struct buf *out)
{
    const char *name = file->head.input.name;
    if (file->format == FORMAT_JSON)
        buf_addf(out, "%s element %lu", name,
                 ends_count(&file->head.input, FORMAT_JSON, file->head.begin_at, offset) + 1);
    else
        buf_addf(out, "%s line %lu", name,
                 ends_count(&file->head.input, FORMAT_LINES, 0, offset) + 1);
}

int file_merge_fail(struct file_merge_input *file, uint64_t offset, struct err *err,
                    const char *fmt, ...)
{
    cleanup_buf struct buf place = BUF_INIT;
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    if (!err)
        return ERR_DATA;
    file_merge_place(file, offset, &place);
    return fail(err, ERR_DATA, "%s: %s", buf_text(&place), what);
}

int file_merge_not_json(struct file_merge_input *file, uint64_t offset, struct str record,
                        struct err *err)
{
    struct err why = {0};
    (void)json_refuse(record, ERR_DATA, &why);
    return file_merge_fail(file, offset, err, "%s", why.text);
}
