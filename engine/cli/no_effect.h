/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of TiePin's programs that change nothing here. They are accepted, so that the command
 * lines of those programs can be used as they are.
 */
#pragma once

#include <stddef.h>

#include "opt/say.h"

struct no_effect {
    const char *option, *reason;
    size_t offset; /* the place of the option's field: a bool, or a uint64_t that is 0 if not
                    * given */
    bool is_number;
};

/* Prints one line for each of the options that was given. */
void no_effects_say(const struct app *app, const struct no_effect *rows, size_t n_rows,
                    const void *fields);
