/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in files, read and written byte by byte: independent of alignment and of the machine's
 * byte order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

static inline uint64_t le_get(const char *at, size_t n_bytes)
{
    uint64_t value = 0;
    for (size_t i = n_bytes; i > 0; i--)
        value = value << 8 | (unsigned char)at[i - 1];
    return value;
}

static inline void le_put(char *at, uint64_t value, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        at[i] = (char)(value >> (8 * i));
}

/* The shifts are spelt out because compilers turn them into a single load. */
static inline uint16_t le16_get(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t le32_get(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t le64_get(const char *at)
{
    return le32_get(at) | (uint64_t)le32_get(at + 4) << 32;
}

static inline uint64_t be64_get(const char *at)
{
    return __builtin_bswap64(le64_get(at));
}
