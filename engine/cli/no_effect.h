/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the programs whose command lines are taken as they are, that change nothing here.
 */
#pragma once

#include <stddef.h>

#include "opt/say.h"

struct no_effect {
    const char *option, *reason;
    size_t offset; /* of its field: a bool, or a uint64_t that is 0 where it is not given */
    bool is_number;
};

/* A line for each that was given. */
void no_effects_say(const struct app *app, const struct no_effect *rows, size_t n_rows,
                    const void *fields);
