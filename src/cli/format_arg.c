/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/format_arg.h"

#include "data/merge.h"
#include "data/source.h"

int record_format_store(struct str text, void *field, struct err *err)
{
    return record_format_parse(text, field, err);
}

int out_format_store(struct str text, void *field, struct err *err)
{
    return out_format_parse(text, field, err);
}
