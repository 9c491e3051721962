/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of others, made harmless for a terminal and for a log: what workers print, names of files, facts of
 * a run. Whatever comes in, printable UTF-8 comes out. Pure.
 */
#pragma once

#include "base/buf.h"

/*
 * Add `line` to out: printable UTF-8, tabs and, with `colours`, SGR sequences (closed at the end of
 * the line). Other control characters and escape sequences are dropped, with their payload. Characters that
 * turn the direction of writing are shown as \u202e, bytes that are not UTF-8 as \xff.
 */
void console_text_add(struct buf *out, struct str line, bool colours);
/* The same of a name or a message: nothing is dropped, a control character is shown as \u001b, a newline
 * as \n. In JSON that was written as UTF-8 these are the escapes of JSON, so it keeps its meaning. */
void console_visible_add(struct buf *out, struct str text);
/* As a new string; NULL for NULL. */
char *console_visible_new(const char *text);
/* Several lines of our own with words of others in them: a newline stays one before a space and at the end,
 * so that no line can be made up that seems to be ours. */
void console_lines_add(struct buf *out, struct str text);
/* The longest prefix of text, at most max bytes, that does not split a UTF-8 character. */
size_t console_text_cut(struct str text, size_t max);
/* How many newlines; several GB/s. */
uint64_t count_newlines(struct str text);
