/* SPDX-License-Identifier: Apache-2.0
 *
 * struct str: a borrowed view of bytes, passed by value, not NUL-terminated.
 * struct buf: the only growable string. Invariants: `at` is NULL while cap is 0 (BUF_INIT);
 * otherwise len < cap and at[len] == '\0'.
 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "base/attr.h"

struct str {
    const char *at;
    size_t len;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})

static inline struct str str_of(const char *text)
{
    return (struct str){text, text ? strlen(text) : 0};
}

static inline bool str_equal(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* Negative, 0 or positive, in the order of the bytes; a prefix comes before the longer string. */
static inline int str_compare(struct str a, struct str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.at, b.at, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool str_starts_with(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.at, prefix.at, prefix.len) == 0);
}

static inline bool str_ends_with(struct str s, struct str suffix)
{
    return s.len >= suffix.len &&
           (suffix.len == 0 || memcmp(s.at + s.len - suffix.len, suffix.at, suffix.len) == 0);
}

/* `s` without the spaces, tabs, CR and LF at both ends. */
struct str str_trim(struct str s);
/* `s` without a UTF-8 byte-order mark at its start. */
struct str str_unmarked(struct str s);
/* Cut the next piece up to `separator` off the front of *rest. False when nothing is left.
 * "a,,b" gives "a", "", "b"; "" gives one empty piece. Start with rest->at non-NULL. */
bool str_next(struct str *rest, char separator, struct str *piece);

struct buf {
    char *at;
    size_t len, cap;
};

#define BUF_INIT \
    {            \
        0        \
    }

void buf_release(struct buf *buf);
void buf_reset(struct buf *buf);
/* Make room for `more` bytes beyond len (and a NUL). */
void buf_reserve(struct buf *buf, size_t more);

/* The caller wrote `n` bytes behind at[len], after buf_reserve(): count them. */
static inline void buf_extend(struct buf *buf, size_t n)
{
    buf->len += n;
    buf->at[buf->len] = '\0';
}

void buf_add(struct buf *buf, const void *at, size_t len);
void buf_add_char(struct buf *buf, char c);
void buf_add_str(struct buf *buf, struct str s);
void buf_add_text(struct buf *buf, const char *text);
void buf_addf(struct buf *buf, const char *fmt, ...) PRINTF(2, 3);
/* Drop `count` bytes from the front. */
void buf_consume(struct buf *buf, size_t count);
/* Never NULL. Valid until the next change. */
const char *buf_text(const struct buf *buf);
struct str buf_str(const struct buf *buf);
/* The content as a new string, free() it; the buffer is empty afterwards. */
char *buf_steal(struct buf *buf);

#define cleanup_buf __attribute__((cleanup(buf_release)))
