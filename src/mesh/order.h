/* SPDX-License-Identifier: Apache-2.0
 *
 * The orders of rank 0 to the other ranks, and the words with which a rank arrives. Each is a line.
 */
#pragma once

#include "mesh/stream.h"

enum order_kind {
    ORDER_PAIR, /* to and from are the other rank of the pair */
    ORDER_RING,
    ORDER_ADDRESSES,
    ORDER_END
};

struct order {
    enum order_kind kind;
    uint32_t round;
    uint32_t to, from;     /* the rank to connect to, and the rank that will connect */
    uint32_t index, count; /* ORDER_RING: the position in the ring, and the number of ranks in it */
    uint32_t stream_ms;    /* ORDER_PAIR */
    uint16_t port;         /* of `to` */
    char address[ADDRESS_TEXT_MAX];
    struct str targets; /* ORDER_ADDRESSES, borrowed: a list of struct target */
};

/* The answer of a rank that has carried out an order. BAD: the link of the pair carries nothing. */
#define DONE_GOOD "done good\n"
#define DONE_BAD  "done bad\n"

/* Adds the line of an order, with a newline. */
void order_format(const struct order *order, struct buf *out);
/* Returns false if the line is no order. */
bool order_parse(struct str line, struct order *out);

struct arrival {
    uint32_t rank, world_size, group;
    uint16_t port;        /* the port at which the rank listens */
    struct str addresses; /* from own_addresses_add(), only for one rank of each host; borrowed */
};

void arrival_format(const struct arrival *arrival, const char *token, struct buf *out);
/* Returns false if the line is no arrival, or has another token. */
bool arrival_parse(struct str line, const char *token, struct arrival *out);
