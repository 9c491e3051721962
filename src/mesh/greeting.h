/* SPDX-License-Identifier: Apache-2.0
 *
 * How two ranks find each other: each connects to the other one's address and listens at its own at the same time, since
 * libraries for training connect in either direction, and a firewall may close one of them. Who connects greets with the
 * run's token and both numbers, and who was greeted answers likewise: so no stranger, and no other host that happens to
 * have the same address, is taken for a rank.
 */
#pragma once

#include "mesh/stream.h"

enum {
    GREET_MS = 2500, /* until a connection counts as closed */
    GREETING_BYTES = 96,
    TOKEN_MAX_BYTES = 48,
    INTERFACE_NAME_BYTES = 32
};

struct greeting {
    int listener;
    const char *token;
    uint32_t self, round;
    uint32_t to, from; /* whom this rank connects to, and who connects to it: for a pair the same */
    struct address address; /* of `to` */
    uint64_t end_ms;
};

struct greeted {
    int out_fd, in_fd;   /* -1: none */
    enum link_state out; /* of the own connection; LINK_FINE: it was answered */
};

/* What `from` says to `to`, as a greeting or as its answer. */
void greeting_words(const char *token, uint32_t from, uint32_t to, uint32_t round,
                    char out[GREETING_BYTES]);
/* Who says such words to `self`. False: they are others. */
bool greeting_read(const char *token, uint32_t self, uint32_t round,
                   const char words[GREETING_BYTES], uint32_t *from);

/* Returns when both connections are made, or the deadline has passed. */
void greeting_exchange(const struct greeting *greeting, struct greeted *out);
void greeted_close(struct greeted *greeted);
