/* SPDX-License-Identifier: Apache-2.0
 *
 * The other addresses of each host. Libraries for training choose an interface by themselves, which need not be the one by
 * which the ranks have met. So one rank of each host tries every address of every other host, all at the same time: no data
 * are sent, and nothing is disturbed.
 */
#pragma once

#include "mesh/greeting.h"

enum {
    HOST_ADDRESSES_MAX = 8,
    HOST_ADDRESSES_BYTES = HOST_ADDRESSES_MAX * (ADDRESS_TEXT_MAX + INTERFACE_NAME_BYTES),
    TARGETS_MAX = 1024,
    ADDRESSES_MS = 1500 /* in which all of them are tried */
};

/* Those that NCCL takes into account too: of interfaces that are up, without those named lo… and docker…, and without
 * link-local ones. "10.0.0.1/eth0,fd00::1/eth1"; "" if there is none. */
void own_addresses_add(struct buf *out);

/* An address of another host: "2/41234/10.0.0.1/eth0" in a list with commas. */
struct target {
    uint32_t rank; /* which listens there */
    uint16_t port;
    char address[ADDRESS_TEXT_MAX], interface[INTERFACE_NAME_BYTES];
};

void target_format(const struct target *target, struct buf *out);
/* Cuts the first one off the list. False: there is none, or it is malformed. */
bool target_next(struct str *list, struct target *out);

struct attempt {
    struct target target;
    enum link_state state;
    bool is_own; /* this host has the same address, so it was not tried */
    int fd;      /* -1 at the end */
    bool is_connected;
    char answer[GREETING_BYTES];
    size_t n_answered;
};

struct trial {
    int listener;
    const char *token;
    uint32_t self, round;
    struct attempt *attempts; /* [n] */
    size_t n;
};

/* Answers other ranks as well, so it always takes ADDRESSES_MS. */
void addresses_try(struct trial *trial);
