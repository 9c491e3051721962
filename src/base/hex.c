/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"

static const char digits[] = "0123456789abcdef";

void buf_add_hex(struct buf *out, struct str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char byte = (unsigned char)bytes.at[i];
        buf_add_char(out, digits[byte >> 4]);
        buf_add_char(out, digits[byte & 15]);
    }
}

int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool buf_add_unhex(struct buf *out, struct str hex)
{
    cleanup_buf struct buf bytes = BUF_INIT;
    for (size_t i = 0; i + 1 < hex.len; i += 2) {
        int high = hex_digit(hex.at[i]), low = hex_digit(hex.at[i + 1]);
        if (high < 0 || low < 0)
            return false;
        buf_add_char(&bytes, (char)(high * 16 + low));
    }
    if (hex.len % 2 != 0)
        return false;
    buf_add_str(out, buf_str(&bytes));
    return true;
}
