/* SPDX-License-Identifier: Apache-2.0
 *
 * How two ranks find each other. Each rank connects to the address of the other one, and at the same time listens at
 * its own address: libraries for training connect in either direction, and a firewall may close one direction. The
 * rank that connects sends a greeting with the token of the run and both rank numbers, and the other rank answers in
 * the same way. So no other program, and no other host with the same address, is taken for a rank.
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
    uint32_t to, from;      /* whom this rank connects to, and who connects to it */
    struct address address; /* of `to` */
    uint64_t end_ms;
};

struct greeted {
    int out_fd, in_fd;   /* -1: none */
    enum link_state out; /* of the connection to `to`; LINK_FINE: `to` has answered */
};

/* The text that `from` sends to `to`, as a greeting or as an answer. */
void greeting_words(const char *token, uint32_t from, uint32_t to, uint32_t round,
                    char out[GREETING_BYTES]);
/* Reads a greeting to `self` and finds who sent it. Returns false if the text is no greeting to this rank. */
bool greeting_read(const char *token, uint32_t self, uint32_t round,
                   const char words[GREETING_BYTES], uint32_t *from);

/* Returns when both connections are made, or the deadline has passed. */
void greeting_exchange(const struct greeting *greeting, struct greeted *out);
void greeted_close(struct greeted *greeted);
