/* SPDX-License-Identifier: Apache-2.0
 *
 * A path from the root of a value, key by key and index by index: questions.*.question_id. A step may have
 * * ? [...] in it, as names of files have, and then stands for all that fit.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    STEPS_MAX = 64
};

struct steps {
    struct str at[STEPS_MAX]; /* of the text that was parsed */
    size_t len;
};

/* ERR_USAGE for an empty step, and for too many. */
MUST_CHECK int steps_parse(const char *text, struct steps *out, struct err *err);
bool step_is_pattern(struct str step);
bool step_fits(struct str step, struct str name);
