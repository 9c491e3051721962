/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks saw, as a line of JSON each, which they print; and all of it together, as who started them reads it.
 */
#pragma once

#include "mesh/addresses.h"
#include "mesh/pair.h"
#include "mesh/plan.h"
#include "mesh/ring.h"

enum {
    MACHINE_NAME_BYTES = 64
};

/* Where a rank is, on the way to the others. */
struct rank_machine {
    uint32_t rank, group;
    char name[MACHINE_NAME_BYTES];        /* of its machine, as the machine calls itself */
    char address[ADDRESS_TEXT_MAX];       /* by which others reach it */
    char interface[INTERFACE_NAME_BYTES]; /* that has this address; "": not known */
    char by_name[ADDRESS_TEXT_MAX]; /* what the machine's own name leads to, there; "": nothing */
    uint64_t speed_mbit, mtu;       /* of the interface; 0: not known */
};

struct pair_told {
    uint32_t from, to; /* who tells it, of its link to whom */
    char address[ADDRESS_TEXT_MAX];
    uint16_t port;
    struct pair_result result;
};

struct address_told {
    uint32_t from, to; /* who tried an address of whose host */
    char address[ADDRESS_TEXT_MAX], interface[INTERFACE_NAME_BYTES];
    enum link_state state;
};

struct sum_told {
    uint32_t rank, to, from; /* its neighbours in the ring */
    struct ring_result result;
};

void rank_machine_format(const struct rank_machine *machine, struct buf *out);
void absence_format(uint32_t rank, uint32_t group, const char *why, struct buf *out);
void pair_plan_format(const struct pair_plan *plan, size_t n_left_out, bool is_ring_broken,
                      struct buf *out);
void pair_format(const struct pair_told *pair, struct buf *out);
void address_format(const struct address_told *told, struct buf *out);
void sum_format(const struct sum_told *sum, struct buf *out);

/* ---- all of it ---- */

struct rank_told {
    bool has_machine;
    struct rank_machine machine;
    char *why_absent; /* it did not meet the others; NULL: it did, or told nothing */
    bool has_sum;
    struct sum_told sum;
};

struct told {
    struct rank_told *ranks; /* [n_ranks] */
    uint32_t n_ranks;
    struct pair_told *pairs;
    size_t n_pairs;
    struct address_told *addresses;
    size_t n_addresses;
    bool has_plan; /* rank 0 knew who was there */
    enum plan_depth depth;
    uint64_t n_planned, n_possible, n_left_out;
    bool is_ring_broken; /* so no sum was tried */
};

void told_init(struct told *told, uint32_t n_ranks);
void told_release(struct told *told);
/* Takes a rank's lines; those that are none of its own are passed over. */
void told_take(struct told *told, uint32_t rank, struct str lines);
