/* SPDX-License-Identifier: Apache-2.0
 *
 * The measurement of one pair of ranks, as each of the two carries it out: the connections of both directions, then, over
 * one of them, the round trip of small messages and the speed of a stream of known bytes each way.
 */
#pragma once

#include "mesh/greeting.h"

enum {
    /* At most, with a link of the worst kind. */
    PAIR_MAX_MS = 10000
};

struct pair_result {
    enum link_state out;              /* of the connection to the other rank */
    bool has_in;                      /* that of the other rank arrived */
    enum link_state bytes;            /* of what came over it */
    uint64_t round_trip_ns, least_ns; /* median, and the shortest; 0: not measured here */
    uint64_t n_bytes, took_ns;        /* received; 0: none */
    uint64_t
        bad_at; /* LINK_CORRUPTED: how many bytes of the stream came before the first wrong one */
    uint64_t n_sent_segments, n_resent_segments; /* as the kernel counts them */
};

/* greeting->to and ->from are the other rank. stream_ms: how long bytes are sent each way. */
void pair_measure(const struct greeting *greeting, uint64_t stream_ms, struct pair_result *out);
