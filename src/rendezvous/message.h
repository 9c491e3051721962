/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of the frames between a leader and its followers: one function for both directions (node/wire_body.h).
 * A text that is longer than RENDEZVOUS_TEXT_MAX is cut when it is written; one that is read is a view of the body.
 *
 *     leader                                  follower
 *     GANG_CHALLENGE  its random number  ──>
 *                                        <──  GANG_JOIN  who it is, its random number, its proof
 *     GANG_WELCOME    its number, the leader's proof  ──>         or GANG_REFUSED
 *
 * A proof covers the bodies so far, and that of its own frame up to itself (proof.h).
 */
#pragma once

#include "node/wire_body.h"
#include "rendezvous/proof.h"
#include "rendezvous/rendezvous.h"

enum {
    RENDEZVOUS_PROTOCOL = 4,
    NONCE_BYTES = 32,
    VERSION_MAX = 64,
    RUN_ID_MAX = 256,
    SILENCE_MIN_MS = 100,
    SILENCE_MAX_MS = 24 * 3600 * 1000
};

/* The first body of either end begins with these two fields in every protocol version. */
struct message_version {
    uint32_t protocol;
    char version[VERSION_MAX]; /* of muster */
};
void message_version(struct wire_body *body, struct message_version *version);

struct message_challenge {
    struct message_version version;
    unsigned char nonce[NONCE_BYTES];
};
void message_challenge(struct wire_body *body, struct message_challenge *challenge);

struct message_join {
    struct message_version version;
    char run_id[RUN_ID_MAX];
    struct rendezvous_member member;
    uint32_t n_nodes_max; /* of the follower's command */
    unsigned char nonce[NONCE_BYTES];
};
/* Without its proof, which follows. */
void message_join(struct wire_body *body, struct message_join *join);

struct message_welcome {
    uint32_t node;
    uint64_t silence_limit_ms; /* the leader's, which holds at both ends */
};
/* Without its proof, which follows. */
void message_welcome(struct wire_body *body, struct message_welcome *welcome);
void message_proof(struct wire_body *body, struct proof *proof);

struct message_refused {
    bool is_final; /* asking again would not help */
    struct err why;
};
void message_refused(struct wire_body *body, struct message_refused *refused);

void message_start(struct wire_body *body, struct rendezvous_start *start);
void message_end(struct wire_body *body, struct rendezvous_end *end);
void message_retry(struct wire_body *body, uint64_t *pause_ms, struct str *why);
void message_over(struct wire_body *body, struct rendezvous_over *over);
void message_exit(struct wire_body *body, struct rendezvous_exit *exit);
void message_stand(struct wire_body *body, struct rendezvous_stand *stand);
void message_ask(struct wire_body *body, uint32_t *local_rank);
void message_where(struct wire_body *body, struct rendezvous_where *where);
void message_leave(struct wire_body *body, struct str *why);
