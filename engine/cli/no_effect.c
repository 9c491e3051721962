/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/no_effect.h"

#include <stdint.h>

void no_effects_say(const struct app *app, const struct no_effect *rows, size_t n_rows,
                    const void *fields)
{
    for (size_t i = 0; i < n_rows; i++) {
        const void *field = (const char *)fields + rows[i].offset;
        bool is_given = rows[i].is_number ? *(const uint64_t *)field != 0 : *(const bool *)field;
        if (is_given)
            say(app, "--%s has no effect: %s", rows[i].option, rows[i].reason);
    }
}
