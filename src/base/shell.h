/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of commands that are shown to the user, quoted so that they can be typed as they are shown.
 */
#pragma once

#include "base/buf.h"

/* Adds the word as a shell reads it: in quotes if it has other characters than letters, digits and
 * a few harmless ones. */
void buf_add_shell_word(struct buf *out, const char *word);
