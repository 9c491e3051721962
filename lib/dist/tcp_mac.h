/* SPDX-License-Identifier: Apache-2.0
 *
 * Proof that a rank belongs to this attempt of this job: SipHash-2-4 (Aumasson and Bernstein,
 * 2012), a keyed hash for short messages, which needs libc alone. It keeps other programs from
 * being taken for a rank; later bytes are neither secret nor signed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct md_mac_key {
    uint64_t words[2];
};

uint64_t md_mac(const struct md_mac_key *key, const void *at, size_t bytes);
/* The key from a text of any length. */
struct md_mac_key md_mac_key_of(const char *text);
