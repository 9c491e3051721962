/* SPDX-License-Identifier: Apache-2.0
 *
 * The measurement of one pair of ranks; both ranks run it. First both connect to each other. Then they use one of the
 * connections to measure the round trip of small messages, and the speed of a stream of known bytes in each
 * direction.
 */
#pragma once

#include "mesh/greeting.h"

enum {
    /* The longest time, with the worst link. */
    PAIR_MAX_MS = 10000
};

struct pair_result {
    enum link_state out;              /* state of the connection to the other rank */
    bool has_in;                      /* the connection of the other rank has arrived */
    enum link_state bytes;            /* state of the bytes that were received */
    uint64_t round_trip_ns, least_ns; /* median and shortest; 0: this rank has not measured */
    uint64_t n_bytes, took_ns;        /* bytes received; 0: none */
    uint64_t bad_at; /* LINK_CORRUPTED: the number of good bytes before the first wrong one */
    uint64_t n_sent_segments, n_resent_segments; /* as the kernel counts them */
};

/* Measures a pair. greeting->to and ->from are the other rank. stream_ms: how long bytes are sent in each direction. */
void pair_measure(const struct greeting *greeting, uint64_t stream_ms, struct pair_result *out);
