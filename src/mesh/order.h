/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 tells the other ranks to do, and what they say when they come: a line of words each.
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
    uint32_t to, from;     /* whom it connects to, and who connects to it */
    uint32_t index, count; /* ORDER_RING: among the ranks in the ring */
    uint32_t stream_ms;    /* ORDER_PAIR */
    uint16_t port;         /* of `to` */
    char address[ADDRESS_TEXT_MAX];
    struct str targets; /* ORDER_ADDRESSES, borrowed: a list of struct target */
};

/* What is said when an order was carried out: with BAD, the link of a pair carries nothing. */
#define DONE_GOOD "done good\n"
#define DONE_BAD  "done bad\n"

/* Ends with a newline. */
void order_format(const struct order *order, struct buf *out);
/* False: it is no order. */
bool order_parse(struct str line, struct order *out);

struct arrival {
    uint32_t rank, world_size, group;
    uint16_t port;        /* at which it listens */
    struct str addresses; /* own_addresses_add(), of one rank of each host; borrowed */
};

void arrival_format(const struct arrival *arrival, const char *token, struct buf *out);
/* False: it is none, or has another token. */
bool arrival_parse(struct str line, const char *token, struct arrival *out);
