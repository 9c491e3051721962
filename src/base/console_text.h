/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker prints, made harmless for a terminal. Pure.
 */
#pragma once

#include "base/buf.h"

/*
 * Add `line` to out: printable UTF-8, tabs and, with `colours`, SGR sequences (closed at the end of
 * the line). Other control characters and escape sequences are dropped, with their payload; what is
 * not UTF-8 becomes U+FFFD.
 */
void console_text_add(struct buf *out, struct str line, bool colours);
/* The longest prefix of text, at most max bytes, that does not split a UTF-8 character. */
size_t console_text_cut(struct str text, size_t max);
/* How many newlines; several GB/s. */
uint64_t count_newlines(struct str text);
