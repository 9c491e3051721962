/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xalloc.h"

#include <stdarg.h>
#include <string.h>

static void *checked(void *at, size_t size)
{
    if (!at) {
        fprintf(stderr, "muster: out of memory: could not get %zu bytes\n", size);
        abort();
    }
    return at;
}

void *xmalloc(size_t size)
{
    return checked(malloc(size ? size : 1), size);
}

void *xcalloc(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1), count * size);
}

void *xrealloc(void *at, size_t size)
{
    return checked(realloc(at, size ? size : 1), size);
}

char *xstrdup(const char *text)
{
    return checked(strdup(text), strlen(text) + 1);
}

char *xstrndup(const char *text, size_t len)
{
    return checked(strndup(text, len), len + 1);
}

char *xasprintf(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    return checked(len < 0 ? NULL : text, 0);
}
