/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of commands that are shown, to be typed as they stand.
 */
#pragma once

#include "base/buf.h"

/* The word as a shell reads it: in quotes where it holds more than letters, digits and their like. */
void buf_add_shell_word(struct buf *out, const char *word);
