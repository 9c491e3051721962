/* SPDX-License-Identifier: Apache-2.0
 *
 * The other addresses of each host. Libraries for training choose a network interface themselves, perhaps not the one
 * over which the ranks have met. So one rank of each host tries every address of every other host, all at the same
 * time. No data are sent, so nothing is disturbed.
 */
#pragma once

#include "mesh/greeting.h"

enum {
    HOST_ADDRESSES_MAX = 8,
    HOST_ADDRESSES_BYTES = HOST_ADDRESSES_MAX * (ADDRESS_TEXT_MAX + INTERFACE_NAME_BYTES),
    TARGETS_MAX = 1024,
    ADDRESSES_MS = 1500 /* all addresses are tried in this time */
};

/*
 * Adds the addresses of this host that NCCL would consider too: of each interface that is up, except interfaces named
 * lo… and docker…, and except link-local addresses. "10.0.0.1/eth0,fd00::1/eth1"; "" if there is none.
 */
void own_addresses_add(struct buf *out);

/* An address of another host. In a list with commas it is written as "2/41234/10.0.0.1/eth0". */
struct target {
    uint32_t rank; /* the rank that listens at this address */
    uint16_t port;
    char address[ADDRESS_TEXT_MAX], interface[INTERFACE_NAME_BYTES];
};

void target_format(const struct target *target, struct buf *out);
/* Cuts the first target off the list. Returns false if there is none, or if it is malformed. */
bool target_next(struct str *list, struct target *out);

struct attempt {
    struct target target;
    enum link_state state;
    bool is_own; /* this host has the same address, so the address was not tried */
    int fd;      /* -1 at the end */
    bool is_connected;
    char answer[GREETING_BYTES];
    size_t n_answered;
};

struct address_scan {
    int listener;
    const char *token;
    uint32_t self, round;
    struct attempt *attempts; /* [n] */
    size_t n;
};

/* Tries all addresses. It also answers other ranks, so it always takes ADDRESSES_MS. */
void addresses_try(struct address_scan *scan);
