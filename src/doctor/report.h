/* SPDX-License-Identifier: Apache-2.0
 *
 * What `muster doctor --json --traits` of another host printed: findings and traits, one object a line, read back.
 * The text is foreign: its size is bounded by the caller, and its words are cleaned when they are printed.
 */
#pragma once

#include "base/env_list.h"
#include "doctor/finding.h"
#include "doctor/trait.h"

struct report {
    struct findings findings; /* `check`, `means` and `cure` are in `texts` */
    struct traits traits;
    struct env_list texts;
    bool is_whole;
};

/* ERR_DATA, with the line that is neither. Release the report also after a failure. */
MUST_CHECK int report_parse(struct str text, struct report *out, struct err *err);
void report_release(struct report *report);
