/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format_arg.h"

#include "data/result_merge.h"
#include "data/source.h"

int record_format_store(struct str text, void *field, struct err *err)
{
    return record_format_parse(text, field, err);
}

bool record_format_text(const void *field, struct buf *out)
{
    enum record_format format = *(const enum record_format *)field;
    if (format != FORMAT_AUTO)
        buf_add_text(out, record_format_name(format));
    return format != FORMAT_AUTO;
}

int out_format_store(struct str text, void *field, struct err *err)
{
    return out_format_parse(text, field, err);
}

bool out_format_text(const void *field, struct buf *out)
{
    enum out_format format = *(const enum out_format *)field;
    if (format != OUT_AUTO)
        buf_add_text(out, out_format_name(format));
    return format != OUT_AUTO;
}
