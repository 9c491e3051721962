/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_mac.h"

#include <string.h>

static uint64_t rotate(uint64_t word, int n)
{
    return word << n | word >> (64 - n);
}

static void rounds(uint64_t v[4], int n)
{
    for (int i = 0; i < n; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

/* A word of up to eight bytes, little-endian. */
static uint64_t word_of(const unsigned char *at, size_t bytes)
{
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++)
        word |= (uint64_t)at[i] << 8 * i;
    return word;
}

uint64_t md_mac(const struct md_mac_key *key, const void *at, size_t bytes)
{
    const unsigned char *from = at;
    uint64_t v[4] = {key->words[0] ^ 0x736f6d6570736575, key->words[1] ^ 0x646f72616e646f6d,
                     key->words[0] ^ 0x6c7967656e657261, key->words[1] ^ 0x7465646279746573};
    for (size_t i = 0; i <= bytes; i += 8) {
        size_t left = bytes - i < 8 ? bytes - i : 8;
        uint64_t word = word_of(from + i, left);
        word |= left < 8 ? (uint64_t)bytes << 56 : 0; /* the last word, which always exists */
        v[3] ^= word;
        rounds(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct md_mac_key md_mac_key_of(const char *text)
{
    const struct md_mac_key first = {{0x6d75737465722d64, 1}}, second = {{0x6d75737465722d64, 2}};
    return (struct md_mac_key){
        {md_mac(&first, text, strlen(text)), md_mac(&second, text, strlen(text))}};
}
