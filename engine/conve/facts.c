/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/parse.h"
#include "conve/model.h"
#include "conve/tensors.h"

static int layout_take(struct tensor_file *file, struct str value, struct err *err)
{
    for (enum conve_layout layout = LAYOUT_WIDTH; layout <= LAYOUT_HEIGHT; layout++)
        if (str_equal(value, str_of(conve_layout_name(layout))))
            file->layout = layout;
    return file->layout != LAYOUT_AUTO
               ? 0
               : fail(err, ERR_DATA, "expected width or height, found '%.*s'", (int)value.len,
                      value.at);
}

static int height_take(struct tensor_file *file, struct str value, struct err *err)
{
    uint64_t height = 0;
    int rc = u64_parse(value, 1, UINT32_MAX, &height, err);
    file->height = rc == 0 ? (size_t)height : 0;
    return rc;
}

static int bn_eps_take(struct tensor_file *file, struct str value, struct err *err)
{
    int rc = double_parse(value, &file->bn_eps, err);
    if (rc == 0 && !(file->bn_eps >= 0 && file->bn_eps <= 1))
        rc = fail(err, ERR_DATA, "expected 0 to 1, found %g", file->bn_eps);
    return rc;
}

static int learning_rate_take(struct tensor_file *file, struct str value, struct err *err)
{
    int rc = double_parse(value, &file->learning_rate, err);
    if (rc == 0 && !(file->learning_rate >= 0 && isfinite(file->learning_rate)))
        rc = fail(err, ERR_DATA, "expected a number above 0, found %g", file->learning_rate);
    return rc;
}

static int reciprocal_take(struct tensor_file *file, struct str value, struct err *err)
{
    (void)err;
    file->is_reciprocal = str_equal(value, STR("true"));
    return 0;
}

static const struct {
    const char *key;
    int (*take)(struct tensor_file *file, struct str value, struct err *err);
} facts[] = {
    {CONVE_LAYOUT, layout_take},
    {CONVE_HEIGHT, height_take},
    {CONVE_RECIPROCAL, reciprocal_take},
    {CONVE_BN_EPS, bn_eps_take},
    {CONVE_LEARNING_RATE, learning_rate_take},
};

int tensor_file_fact(struct tensor_file *file, struct str key, struct str value, struct err *err)
{
    for (size_t i = 0; i < countof(facts); i++)
        if (str_equal(key, str_of(facts[i].key)))
            return facts[i].take(file, value, err) == 0
                       ? 0
                       : wrap(err, ERR_DATA, "%s: %s", file->path, facts[i].key);
    return 0;
}

const char *tensor_file_fact_key(size_t index)
{
    return index < countof(facts) ? facts[index].key : NULL;
}
