/* SPDX-License-Identifier: Apache-2.0
 *
 * What muster says: a line that may contain foreign text (the name of a file, the last
 * output of a worker, a fact of a run), made harmless for a terminal (base/console_text.h). It goes
 * to stderr.
 */
#pragma once

#include <stdarg.h>

#include "base/buf.h"

/* "muster: " and the text. */
void talk(const char *fmt, ...) PRINTF(1, 2);
void talk_va(const char *fmt, va_list args) PRINTF(1, 0);
/* talk() with another word than "muster" in front. */
void talk_as(const char *speaker, const char *fmt, ...) PRINTF(2, 3);
/* Only the text, on stdout. */
void print_line(const char *fmt, ...) PRINTF(1, 2);
