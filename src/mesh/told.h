/* SPDX-License-Identifier: Apache-2.0
 *
 * The reports of the ranks. Each rank prints lines of JSON; the process that has started the ranks reads the lines of
 * all ranks together.
 */
#pragma once

#include "mesh/addresses.h"
#include "mesh/pair.h"
#include "mesh/plan.h"
#include "mesh/ring.h"

enum {
    MACHINE_NAME_BYTES = 64
};

/* Where a rank is, and how other ranks reach it. */
struct rank_machine {
    uint32_t rank, group;
    char name[MACHINE_NAME_BYTES];        /* of the machine, as the machine calls itself */
    char address[ADDRESS_TEXT_MAX];       /* at which others reach the rank */
    char interface[INTERFACE_NAME_BYTES]; /* the interface of this address; "": not known */
    char by_name[ADDRESS_TEXT_MAX];       /* what the machine finds for its own name; "": nothing */
    uint64_t speed_mbit, mtu;             /* of the interface; 0: not known */
};

struct pair_told {
    uint32_t from, to; /* `from` reports its link to `to` */
    char address[ADDRESS_TEXT_MAX];
    uint16_t port;
    struct pair_result result;
};

struct address_told {
    uint32_t from, to; /* `from` tried an address of the host of `to` */
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
    char *why_absent; /* why the rank did not meet the others; NULL: it did, or reported nothing */
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
    bool has_plan; /* rank 0 has reported which ranks are there */
    enum plan_depth depth;
    uint64_t n_planned, n_possible, n_left_out;
    bool is_ring_broken; /* a link between neighbours carries nothing, so no sum was tried */
};

void told_init(struct told *told, uint32_t n_ranks);
void told_release(struct told *told);
/* Takes the lines that a rank has printed, and passes over lines that are no report. */
void told_take(struct told *told, uint32_t rank, struct str lines);
