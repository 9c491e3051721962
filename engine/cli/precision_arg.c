/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/precision_arg.h"

#include "base/attr.h"
#include "cli/word_arg.h"

static const struct word_arg formats[] = {
    {"fp32", NUM_FULL}, {"bf16", NUM_BF16}, {"fp16", NUM_FP16}};

int precision_store(struct str text, void *field, struct err *err)
{
    int value = 0, rc = word_arg_parse(text, formats, countof(formats), &value, err);
    *(enum num_format *)field = (enum num_format)value;
    return rc;
}

const char *precision_name(enum num_format format)
{
    for (size_t i = 0; i < countof(formats); i++)
        if (formats[i].value == (int)format)
            return formats[i].text;
    BUG("format %d", (int)format);
}
