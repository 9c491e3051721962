/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation that ends the program with one clear line and status 75 when memory runs out, as a full
 * disk does. The libraries that would crash instead (libuv, jansson) are given it as well, in main.
 */
#pragma once

#include <stdarg.h>

#include "base/attr.h"

#define NEVER_NULL __attribute__((returns_nonnull, warn_unused_result))

/* Sets the end of that line, "; ..."; until then it has none. The text is not copied. */
void xalloc_cure(const char *text);

/*
 * Threads share one heap. Where only one of them allocates at a time, heaps of their own would only
 * take memory. To be called before the first thread starts.
 */
void xalloc_share_heap(void);
/* Gives free memory back to the system, also where it lies between blocks in use. */
void xalloc_trim(void);
/*
 * Makes this much of the heap resident from here on, up to 4 MiB. A long run takes the memory that
 * it will need when it starts, so that a shortage is found then and not after hours, and its memory
 * does not grow with the time that it runs.
 */
void xalloc_reserve(size_t bytes);

/* Ends the program in this way, for a room that may not do so itself; `size` is for the line. */
NORETURN void xalloc_give_up(size_t size);
/* Returns what such a room has allocated, or ends the program if that is NULL. */
NEVER_NULL void *xalloc_checked(void *at, size_t size);
NEVER_NULL void *xmalloc(size_t size);
NEVER_NULL void *xcalloc(size_t count, size_t size);
NEVER_NULL void *xrealloc(void *at, size_t size);
NEVER_NULL char *xstrdup(const char *text);
NEVER_NULL char *xstrndup(const char *text, size_t len);
/* A new string, free() it. */
NEVER_NULL char *xasprintf(const char *fmt, ...) PRINTF(1, 2);
NEVER_NULL char *xvasprintf(const char *fmt, va_list args) PRINTF(1, 0);
