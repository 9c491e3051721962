/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the ranks of several hosts can meet: the line that the host of rank 0 prints (reach.h), the addresses that
 * the other hosts reach, and the choice of one. Pure; the lines are not trusted.
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

/* The answer of one of the other hosts. */
struct meeting_answer {
    const char *host;
    struct str reached; /* addresses, with spaces between them */
};

struct ifaddrs;
/* Adds the addresses by which other hosts may reach this one, each after a space: IPv4, then IPv6, then the loopback. */
void meeting_addresses_add(const struct ifaddrs *interfaces, struct buf *out);
/* "PORT TOKEN ADDRESS…". False: it is malformed. */
bool meeting_point_read(struct str line, struct meeting_point *out);
/* The first address that all of them reach; NULL: there is none. */
const char *meeting_point_choose(const struct meeting_point *point,
                                 const struct meeting_answer *answers, size_t n);
/* Adds the hosts that do not reach all addresses: "node2 reaches none; node3 reaches 10.0.0.1". */
void meeting_point_unreached_add(const struct meeting_point *point,
                                 const struct meeting_answer *answers, size_t n, struct buf *out);
