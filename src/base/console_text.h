/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from outside muster (what workers print, names of files, facts of a run), made harmless for
 * a terminal and for a log. The result is printable UTF-8 for every input. Pure.
 */
#pragma once

#include "base/buf.h"

/*
 * Add `line` to out: printable UTF-8, tabs and, with `colours`, SGR sequences (closed at the end of
 * the line). Other control characters and escape sequences are dropped, with their payload.
 * Characters that change the direction of writing are shown as escapes such as \u202e, bytes that
 * are not UTF-8 as escapes such as \xff.
 */
void console_text_add(struct buf *out, struct str line, bool colours);
/* As console_text_add(), for a name or a message: nothing is dropped. A control character is shown
 * as \u001b, a newline as \n. These are escapes of JSON too, so JSON in UTF-8 keeps its meaning. */
void console_visible_add(struct buf *out, struct str text);
/* console_visible_add() into a new string; NULL for NULL. */
char *console_visible_new(const char *text);
/* For several lines of muster's own that contain foreign words: a newline is kept only before a
 * space and at the end of the text, so that foreign words cannot forge a line of muster's. */
void console_lines_add(struct buf *out, struct str text);
/* For JSON, one value a line, in which no newline is foreign. */
void console_objects_add(struct buf *out, struct str text);
/* The longest prefix of text, at most max bytes, that does not split a UTF-8 character. */
size_t console_text_cut(struct str text, size_t max);
/* The columns that a UTF-8 text takes on a terminal: two for a wide character, as in Chinese. */
size_t console_text_width(struct str text);
/* Adds text, and blanks up to `width` columns. */
void console_padded_add(struct buf *out, struct str text, size_t width);
/* Adds text. If it is wider than max, adds its beginning and its end, with "..." between them. */
void console_middle_add(struct buf *out, struct str text, size_t max);
/* Adds at most max bytes of text. A text that is cut ends after a whole word, if there is one, with "...". */
void console_words_add(struct buf *out, struct str text, size_t max);
/* The number of newlines in text; scans several GB/s. */
uint64_t count_newlines(struct str text);
