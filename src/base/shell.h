/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of commands: quoted so that they can be typed as they are shown, and taken apart as they were typed.
 */
#pragma once

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

/* Adds the word as a shell reads it: in quotes if it has other characters than letters, digits and
 * a few harmless ones. */
void buf_add_shell_word(struct buf *out, const char *word);
/* The same for a word that is shown to be typed: what a console would show in another form is written as $'\377', which
 * bash, zsh and ksh read. A script is for any shell: it has buf_add_shell_word(). */
void buf_add_typed_word(struct buf *out, const char *word);
/* Adds the words of a text, which are separated by white space; '…' and "…" keep it, a backslash takes the next character
 * as it is. Nothing is expanded. ERR_USAGE if a quote is not closed. */
MUST_CHECK int shell_words(const char *text, struct env_list *out, struct err *err);
