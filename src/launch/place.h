/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the ranks of several hosts can meet, as the hosts tell it (reach.h): the line of the host of rank 0, what the others
 * reach of it, and the choice. Pure; nothing that was told is trusted.
 */
#pragma once

#include <arpa/inet.h>
#include <stdbool.h>

#include "base/buf.h"

enum {
    PLACE_TOKEN_BYTES = 33, /* hexadecimal digits, and a NUL */
    PLACE_ADDRESSES_MAX = 64
};

struct place {
    uint16_t port;
    char token[PLACE_TOKEN_BYTES];
    char addresses[PLACE_ADDRESSES_MAX][INET6_ADDRSTRLEN];
    size_t n_addresses;
};

/* What one of the other hosts says. */
struct place_answer {
    const char *host;
    struct str reached; /* addresses, with spaces between them */
};

struct ifaddrs;
/* Adds those by which others may reach this host, each after a space: IPv4, then IPv6, then the loopback. */
void place_addresses_add(const struct ifaddrs *interfaces, struct buf *out);
/* "PORT TOKEN ADDRESS…". False: it is malformed. */
bool place_read(struct str line, struct place *out);
/* The first address that all of them reach; NULL: there is none. */
const char *place_choose(const struct place *place, const struct place_answer *answers, size_t n);
/* "node2 reaches none; node3 reaches 10.0.0.1": those that do not reach all. */
void place_unreached_add(const struct place *place, const struct place_answer *answers, size_t n,
                         struct buf *out);
