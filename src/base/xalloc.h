/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation that ends the program with one clear line and status 75 when memory runs out, as a full
 * disk does. The libraries that would crash instead (libuv, jansson) are given it as well, in main.
 */
#pragma once

#include <stdarg.h>

#include "base/attr.h"

#define NEVER_NULL __attribute__((returns_nonnull, warn_unused_result))

/* What the line ends with, "; ..."; nothing before this is called. Not copied. */
void xalloc_cure(const char *text);

/*
 * Threads get no heaps of their own: where only one allocates at a time, that would be pages for
 * nothing. Before the first of them.
 */
void xalloc_share_heap(void);
/* What is free goes back to the system, also from between what is not. */
void xalloc_trim(void);
/*
 * Has so much of the heap in memory from here on, up to 4 MiB: what a long run comes to need is taken
 * while it begins, so that a lack is found then and not after hours, and its memory does not follow
 * how long it runs.
 */
void xalloc_reserve(size_t bytes);

NEVER_NULL void *xmalloc(size_t size);
NEVER_NULL void *xcalloc(size_t count, size_t size);
NEVER_NULL void *xrealloc(void *at, size_t size);
NEVER_NULL char *xstrdup(const char *text);
NEVER_NULL char *xstrndup(const char *text, size_t len);
/* A new string, free() it. */
NEVER_NULL char *xasprintf(const char *fmt, ...) PRINTF(1, 2);
NEVER_NULL char *xvasprintf(const char *fmt, va_list args) PRINTF(1, 0);
