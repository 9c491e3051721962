/* SPDX-License-Identifier: Apache-2.0
 *
 * Proof of knowing what the ranks of one attempt of one job have in common: SipHash-2-4 (Aumasson and
 * Bernstein, 2012), a keyed hash that is made for short messages, because the library stands on libc
 * alone. Against strangers at a port; what follows is neither secret nor signed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct md_mac_key {
    uint64_t words[2];
};

uint64_t md_mac(const struct md_mac_key *key, const void *at, size_t bytes);
/* From words of any length. */
struct md_mac_key md_mac_key_of(const char *text);
