/* SPDX-License-Identifier: Apache-2.0
 *
 * What jansson thinks of a text. Apart, because its names and those of base/json.h are the same.
 */
#pragma once

#include "base/buf.h"

enum oracle_verdict {
    ORACLE_TAKES,
    ORACLE_REFUSES,
    /* Well-formed, but a number is too large, a surrogate alone, a key with NUL, the nesting deep. */
    ORACLE_CANNOT
};

/* why: the reason in words, static. */
enum oracle_verdict oracle_judge(struct str text, const char **why);
/* Both are the same value, or jansson can read neither. */
bool oracle_is_equal(struct str a, struct str b);
/* False if it is no number that jansson can hold. */
bool oracle_number(struct str text, double *out);
