/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/proof.h"

#include <sodium.h>

_Static_assert(PROOF_BYTES == crypto_generichash_BYTES, "the length of its hashes");
_Static_assert(PROOF_BYTES == crypto_generichash_KEYBYTES, "the length of its keys");

struct proof_key proof_key_of(struct str token)
{
    struct proof_key key = {.is_there = token.len > 0};
    if (key.is_there)
        crypto_generichash(key.bytes, sizeof(key.bytes), (const unsigned char *)token.at, token.len,
                           NULL, 0);
    return key;
}

struct proof proof_make(const struct proof_key *key, enum proof_role role, struct str said)
{
    const unsigned char tag = (unsigned char)role;
    struct proof proof = {.is_there = key->is_there};
    crypto_generichash_state state;
    if (!key->is_there)
        return proof;
    crypto_generichash_init(&state, key->bytes, sizeof(key->bytes), sizeof(proof.bytes));
    crypto_generichash_update(&state, &tag, 1);
    crypto_generichash_update(&state, (const unsigned char *)said.at, said.len);
    crypto_generichash_final(&state, proof.bytes, sizeof(proof.bytes));
    return proof;
}

bool proof_is_good(const struct proof_key *key, enum proof_role role, struct str said,
                   const struct proof *claimed)
{
    struct proof right = proof_make(key, role, said);
    return claimed->is_there == right.is_there &&
           sodium_memcmp(claimed->bytes, right.bytes, sizeof(right.bytes)) == 0;
}
