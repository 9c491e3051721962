/* SPDX-License-Identifier: Apache-2.0
 *
 * Proof of knowing the token: a keyed BLAKE2b (libsodium's generichash) over the role of the prover and all bytes of
 * the handshake so far, which include both random numbers. Without a token there is no proof.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

enum {
    PROOF_BYTES = 32
};

struct proof_key {
    bool is_there;
    unsigned char bytes[PROOF_BYTES];
};

struct proof {
    bool is_there;
    unsigned char bytes[PROOF_BYTES];
};

/* The role is part of a proof, so that one end's proof is not valid for the other. */
enum proof_role {
    PROOF_OF_FOLLOWER = 'F',
    PROOF_OF_LEADER = 'L'
};

/* The key of a token; "": no key. */
struct proof_key proof_key_of(struct str token);
struct proof proof_make(const struct proof_key *key, enum proof_role role, struct str said);
/* Takes the same time for every wrong proof. */
bool proof_is_good(const struct proof_key *key, enum proof_role role, struct str said,
                   const struct proof *claimed);
