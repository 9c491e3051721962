/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of this machine and of others.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>

#include "base/err.h"

enum {
    ADDRESSES_MAX = 16,
    ADDRESS_TEXT_MAX = 64
};

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
};

/* Addresses beyond ADDRESSES_MAX are left out. */
struct address_list {
    struct address at[ADDRESSES_MAX];
    size_t len;
};

/* "fe80::1%eth0", "10.0.0.1": true if it is an address and no name. Never waits. */
bool address_parse(const char *text, uint16_t port, struct address_list *list);
/* All addresses of a name, each once. Waits for the resolver. ERR_UNAVAILABLE: the name is not known. */
MUST_CHECK int addresses_resolve(const char *name, uint16_t port, struct address_list *list,
                                 struct err *err);
/*
 * The same without waiting, by a thread of its own. Without an answer of a name server, the thread outlives its
 * caller, while libuv's threads would delay the end of the program. NULL: no thread could be created.
 */
struct lookup *lookup_begin(const char *name, uint16_t port);
/* False: not done yet. In either case call lookup_forget() at the end. */
bool lookup_is_done(struct lookup *lookup);
/* When it is done: as addresses_resolve(). */
MUST_CHECK int lookup_result(const struct lookup *lookup, struct address_list *list,
                             struct err *err);
void lookup_forget(struct lookup *lookup);
/* Addresses of this machine, by an interface, a name or an address. ERR_UNAVAILABLE: it has no such address. */
MUST_CHECK int addresses_own(const char *text, uint16_t port, struct address_list *list,
                             struct err *err);
/*
 * Is it one that cannot be used yet? The kernel looks for a second or two whether another machine has a new IPv6 address. Not
 * of one that another machine has.
 */
bool address_is_tentative(const struct address *address);
/* Is it an address of one of this machine's interfaces, or of its loopback? */
bool address_is_own(const struct address *address);
/* The own address from which `target` can be reached: of the same family and scope. NULL: none. */
const struct address *address_source(const struct address_list *own, const struct address *target);
/* Are the addresses the same? Ports do not count. */
bool address_is_same(const struct address *a, const struct address *b);
uint16_t address_port(const struct address *address);
/* The text without the port; an IPv4 address mapped into IPv6 is shown as IPv4. */
void address_text(const struct address *address, char out[ADDRESS_TEXT_MAX]);
