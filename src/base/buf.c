/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdarg.h>

#include "base/xalloc.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct str str_trim(struct str s)
{
    while (s.len > 0 && is_space(s.at[0])) {
        s.at++;
        s.len--;
    }
    while (s.len > 0 && is_space(s.at[s.len - 1]))
        s.len--;
    return s;
}

struct str str_unmarked(struct str s)
{
    static const struct str mark = {"\xef\xbb\xbf", 3};
    size_t skip = str_starts_with(s, mark) ? mark.len : 0;
    return (struct str){s.at + skip, s.len - skip};
}

bool str_next(struct str *rest, char separator, struct str *piece)
{
    if (!rest->at)
        return false;
    const char *end = rest->len > 0 ? memchr(rest->at, separator, rest->len) : NULL;
    piece->at = rest->at;
    if (!end) {
        piece->len = rest->len;
        *rest = (struct str){NULL, 0};
        return true;
    }
    piece->len = (size_t)(end - rest->at);
    rest->at = end + 1;
    rest->len -= piece->len + 1;
    return true;
}

void buf_release(struct buf *buf)
{
    free(buf->at);
    *buf = (struct buf)BUF_INIT;
}

void buf_reset(struct buf *buf)
{
    buf->len = 0;
    if (buf->at)
        buf->at[0] = '\0';
}

void buf_reserve(struct buf *buf, size_t more)
{
    size_t need = buf->len + more + 1;
    if (need <= buf->cap)
        return;
    size_t cap = MAX(need, buf->cap + buf->cap / 2);
    cap = MAX(cap, 64);
    buf->at = xrealloc(buf->at, cap);
    buf->cap = cap;
    buf->at[buf->len] = '\0';
}

void buf_add(struct buf *buf, const void *at, size_t len)
{
    buf_reserve(buf, len);
    if (len > 0)
        memcpy(buf->at + buf->len, at, len);
    buf_extend(buf, len);
}

void buf_add_char(struct buf *buf, char c)
{
    buf_add(buf, &c, 1);
}

void buf_add_str(struct buf *buf, struct str s)
{
    buf_add(buf, s.at, s.len);
}

void buf_add_text(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_addf(struct buf *buf, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    ASSERT(len >= 0);
    buf_reserve(buf, (size_t)len);
    vsnprintf(buf->at + buf->len, (size_t)len + 1, fmt, again);
    va_end(again);
    buf->len += (size_t)len;
}

void buf_consume(struct buf *buf, size_t count)
{
    ASSERT(count <= buf->len);
    if (count == 0)
        return;
    memmove(buf->at, buf->at + count, buf->len - count);
    buf->len -= count;
    buf->at[buf->len] = '\0';
}

const char *buf_text(const struct buf *buf)
{
    return buf->at ? buf->at : "";
}

struct str buf_str(const struct buf *buf)
{
    return (struct str){buf_text(buf), buf->len};
}

char *buf_steal(struct buf *buf)
{
    buf_reserve(buf, 0);
    char *text = buf->at;
    *buf = (struct buf)BUF_INIT;
    return text;
}
