/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of texts; the texts are borrowed, usually from the command line.
 */
#pragma once

#include <stddef.h>

struct texts {
    const char **at;
    size_t len;
};
