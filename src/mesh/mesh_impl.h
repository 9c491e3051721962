/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share.
 */
#pragma once

#include "mesh/mesh.h"
#include "mesh/order.h"
#include "mesh/told.h"

enum {
    MEET_MS = 5000, /* a rank that has not come after this time is missing */
    ARRIVAL_MAX_BYTES = 256 + HOST_ADDRESSES_BYTES,
    ORDER_MAX_BYTES = 256 + TARGETS_MAX * (ADDRESS_TEXT_MAX + INTERFACE_NAME_BYTES)
};

/* This rank. */
struct self {
    uint32_t rank, local_rank, world_size, group;
    const char *token, *master_addr;
    uint16_t master_port;
    bool is_quiet;
    int listener;  /* for other ranks; -1: none */
    uint16_t port; /* the port of `listener` */
};

/* member.c */
/*
 * Carries out the order and prints a report. Returns at the latest when the deadlines of the order have passed.
 * False: the link of a pair carries nothing.
 */
bool order_run(const struct self *self, const struct order *order);
void told_print(const struct buf *lines);
/* Prints where this rank is. */
void machine_tell(const struct self *self, const struct address *own);
/* Prints that this rank could not take part. */
void absence_tell(const struct self *self, const char *why);
/* Takes part until rank 0 sends the order to end. */
void member_run(const struct self *self);

/* hub.c: rank 0. */
void hub_run(const struct self *self);

/* interface.c: the network interface that has this address; 0 and "" for what is not known. */
void interface_look(const struct address *own, char name[INTERFACE_NAME_BYTES],
                    uint64_t *speed_mbit, uint64_t *mtu);
