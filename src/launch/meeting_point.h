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
    MEETING_TOKEN_BYTES = 33, /* hexadecimal digits, and a NUL */
    MEETING_ADDRESSES_MAX = 64
};

struct meeting_point {
    uint16_t port;
    char token[MEETING_TOKEN_BYTES];
    char addresses[MEETING_ADDRESSES_MAX][INET6_ADDRSTRLEN];
    size_t n_addresses;
};

/* What one of the other hosts says. */
struct meeting_answer {
    const char *host;
    struct str reached; /* addresses, with spaces between them */
};

struct ifaddrs;
/* Adds those by which others may reach this host, each after a space: IPv4, then IPv6, then the loopback. */
void meeting_addresses_add(const struct ifaddrs *interfaces, struct buf *out);
/* "PORT TOKEN ADDRESS…". False: it is malformed. */
bool meeting_point_read(struct str line, struct meeting_point *out);
/* The first address that all of them reach; NULL: there is none. */
const char *meeting_point_choose(const struct meeting_point *point,
                                 const struct meeting_answer *answers, size_t n);
/* "node2 reaches none; node3 reaches 10.0.0.1": those that do not reach all. */
void meeting_point_unreached_add(const struct meeting_point *point,
                                 const struct meeting_answer *answers, size_t n, struct buf *out);
