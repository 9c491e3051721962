/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "text.h"

void mw_buf_release(struct mw_buf *buf)
{
    free(buf->at);
    *buf = (struct mw_buf){0};
}

bool mw_buf_reserve(struct mw_buf *buf, size_t more)
{
    if (buf->cap - buf->len >= more)
        return true;
    size_t cap = buf->cap < 4096 ? 4096 : buf->cap;
    while (cap - buf->len < more)
        cap *= 2;
    char *at = realloc(buf->at, cap);
    if (!at)
        return false;
    buf->at = at;
    buf->cap = cap;
    return true;
}

bool mw_buf_add(struct mw_buf *buf, const void *at, size_t len)
{
    if (!mw_buf_reserve(buf, len))
        return false;
    if (len > 0)
        memcpy(buf->at + buf->len, at, len);
    buf->len += len;
    return true;
}

bool mw_buf_add_text(struct mw_buf *buf, const char *text)
{
    return mw_buf_add(buf, text, strlen(text));
}

/* snprintf would take ten times as long, and this function runs for every item. */
bool mw_buf_add_u64(struct mw_buf *buf, uint64_t value)
{
    char digits[20], *at = digits + sizeof(digits);
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return mw_buf_add(buf, at, (size_t)(digits + sizeof(digits) - at));
}

bool mw_buf_add_json(struct mw_buf *buf, struct muster_text text)
{
    size_t room = text.len + 16;
    if (!mw_buf_reserve(buf, room))
        return false;
    room = buf->cap - buf->len;
    size_t len = muster_json_quote(text, buf->at + buf->len, room);
    if (len >= room) {
        if (!mw_buf_reserve(buf, len + 1))
            return false;
        muster_json_quote(text, buf->at + buf->len, len + 1);
    }
    buf->len += len;
    return true;
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c == '\0' ? NULL : strchr(digits, c);
    return found ? (int)(found - digits) : -1;
}

bool mw_base64_decode(char *at, size_t *len)
{
    size_t n_digits = *len, n_out = 0;
    while (n_digits > 0 && *len - n_digits < 2 && at[n_digits - 1] == '=')
        n_digits--;
    if (*len % 4 != 0 || n_digits % 4 == 1)
        return false;
    uint32_t bits = 0;
    for (size_t i = 0; i < n_digits; i++) {
        int digit = base64_digit(at[i]);
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        /*
         * Digits 1, 2 and 3 (from 0) of each four complete a byte, which replaces a digit that was
         * read.
         */
        if (i % 4 != 0)
            at[n_out++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xff);
    }
    *len = n_out;
    return true;
}
