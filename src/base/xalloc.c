/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; Debian 12's C library knows it */
#endif

enum {
    PIECE_BYTES = 64 * 1024, /* blocks of at least twice this size get a mapping of their own */
    RESERVED_PIECES = 64
};

/* The end of the line that xalloc_give_up() prints; a text that is not NULL replaces it. */
static const char *cure(const char *text)
{
    static const char *kept = "";
    if (text)
        kept = text;
    return kept;
}

void xalloc_cure(const char *text)
{
    (void)cure(text);
}

/*
 * Exits at once, without exit handlers or buffers that would need memory too. All state that
 * matters is in files that survive an exit at any time, and a core dump of a full memory helps
 * nobody.
 */
void xalloc_give_up(size_t size)
{
    fprintf(stderr, "muster: out of memory: could not get %zu bytes%s\n", size, cure(NULL));
    _exit(err_exit_status(ERR_STOPPED));
}

void *xalloc_checked(void *at, size_t size)
{
    if (!at)
        xalloc_give_up(size);
    return at;
}

void xalloc_share_heap(void)
{
    (void)mallopt(M_ARENA_MAX, 1);
}

void xalloc_trim(void)
{
    (void)malloc_trim(0);
}

/* Makes the whole pages of the block resident. One madvise() call, where the kernel has it, takes
 * two thirds of the time that touching them does. */
static void pages_take(void *at, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)at + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)at + bytes) / page * page;
    if (to > from && madvise((void *)from, to - from, MADV_POPULATE_WRITE) == 0)
        return;
    memset(at, 0, bytes);
    __asm__ volatile("" : : "r"(at) : "memory"); /* else it is left out, as free() follows */
}

void xalloc_reserve(size_t bytes)
{
    void *pieces[RESERVED_PIECES];
    size_t n = 0;
    (void)mallopt(M_TRIM_THRESHOLD, RESERVED_PIECES * PIECE_BYTES * 2);
    (void)mallopt(M_MMAP_THRESHOLD, PIECE_BYTES * 2);
    for (; n < RESERVED_PIECES && n * PIECE_BYTES < bytes; n++) {
        pieces[n] = xmalloc(PIECE_BYTES);
        pages_take(pieces[n], PIECE_BYTES);
    }
    while (n > 0)
        free(pieces[--n]);
}

void *xmalloc(size_t size)
{
    return xalloc_checked(malloc(size ? size : 1), size);
}

void *xcalloc(size_t count, size_t size)
{
    return xalloc_checked(calloc(count ? count : 1, size ? size : 1), count * size);
}

void *xrealloc(void *at, size_t size)
{
    return xalloc_checked(realloc(at, size ? size : 1), size);
}

char *xstrdup(const char *text)
{
    return xalloc_checked(strdup(text), strlen(text) + 1);
}

char *xstrndup(const char *text, size_t len)
{
    return xalloc_checked(strndup(text, len), len + 1);
}

char *xvasprintf(const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    ASSERT(len >= 0);
    char *text = xmalloc((size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, fmt, args);
    return text;
}

char *xasprintf(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = xvasprintf(fmt, args);
    va_end(args);
    return text;
}
