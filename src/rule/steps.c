/* SPDX-License-Identifier: Apache-2.0 */
#include "rule/steps.h"

#include <fnmatch.h>

int steps_parse(const char *text, struct steps *out, struct err *err)
{
    struct str rest = str_of(text), step;
    out->len = 0;
    while (str_next(&rest, '.', &step)) {
        if (step.len == 0 || out->len == STEPS_MAX)
            return fail(err, ERR_USAGE, "'%s' is no path for --id", text);
        out->at[out->len++] = step;
    }
    return 0;
}

bool step_is_pattern(struct str step)
{
    return memchr(step.at, '*', step.len) || memchr(step.at, '?', step.len) ||
           memchr(step.at, '[', step.len);
}

bool step_fits(struct str step, struct str name)
{
    if (!step_is_pattern(step))
        return str_equal(step, name);
    if (str_equal(step, STR("*")))
        return true;
    cleanup_buf struct buf text = BUF_INIT, pattern = BUF_INIT;
    buf_add_str(&text, name);
    buf_add_str(&pattern, step);
    return fnmatch(buf_text(&pattern), buf_text(&text), 0) == 0;
}
