/* SPDX-License-Identifier: Apache-2.0
 *
 * Proof of knowing the token: a keyed BLAKE2b (libsodium's generichash) over who proves, and all that both ends have said
 * until then, their random numbers among it. Without a token there is no proof.
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

/* A proof of one end is none of the other. */
enum proof_role {
    PROOF_OF_FOLLOWER = 'F',
    PROOF_OF_LEADER = 'L'
};

/* From a token; "": none. */
struct proof_key proof_key_of(struct str token);
struct proof proof_make(const struct proof_key *key, enum proof_role role, struct str said);
/* In a time that does not depend on what is wrong with it. */
bool proof_is_good(const struct proof_key *key, enum proof_role role, struct str said,
                   const struct proof *claimed);
