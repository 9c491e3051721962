/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/score_arg.h"

int score_fields_store(struct str text, void *field, struct err *err)
{
    return score_fields_parse(text, field, err);
}

bool score_fields_text(const void *field, struct buf *out)
{
    const struct score_opts *score = field;
    if (!score->true_field.at)
        return false;
    buf_add_str(out, score->true_field);
    buf_add_char(out, '=');
    buf_add_str(out, score->predicted_field);
    return true;
}
