/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/score_arg.h"

int score_fields_store(struct str text, void *field, struct err *err)
{
    return score_fields_parse(text, field, err);
}
