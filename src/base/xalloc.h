/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation that ends the program with one clear line when memory runs out. For small things
 * only: what the user's data sizes goes through plain malloc and is reported as an error.
 */
#pragma once

#include "base/attr.h"

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *at, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t len);
/* A new string, free() it. */
char *xasprintf(const char *fmt, ...) PRINTF(1, 2);
