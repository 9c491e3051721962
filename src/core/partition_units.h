/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as a sequence of units, and contiguous partitions of it, for PARTITION_OPTIMAL.
 */
#pragma once

#include "core/partition_impl.h"

__extension__ typedef unsigned __int128 u128;

/*
 * Units in the order of the model. Units that share memory form a cluster, which is on one device: one of them, the
 * anchor, has the sizes of all in the sequence; the others have no size, and follow the anchor.
 */
struct units {
    const struct partition_tree *tree;
    uint32_t n;
    uint32_t *nodes;        /* [n] */
    uint64_t *weight_bytes; /* [n] of the unit alone */
    uint64_t *kv_bytes;     /* [n] */
    uint32_t *anchors;      /* [n] of the unit's cluster; a unit that shares nothing is its own */
    bool has_clusters;
};

bool units_init(struct units *units, const struct partition_tree *tree);
void units_release(struct units *units);
/* Makes the last unit of each cluster its anchor; before, it is the first one. */
void units_turn_anchors(struct units *units);

/* The sequence with sizes at the anchors. Cut i is before unit i. */
struct unit_line {
    uint32_t n;
    uint64_t *weight_bytes; /* [n] */
    uint64_t *before;       /* [n + 1] weights and caches of units with a smaller number */
    /* [n + 1] the largest weights of a unit with this number or a larger one */
    uint64_t *largest_from;
};

bool unit_line_init(struct unit_line *line, const struct units *units);
void unit_line_release(struct unit_line *line);
/* The last cut to which a piece that starts at a cut can reach with so many bytes. */
uint32_t unit_line_reach(const struct unit_line *line, uint32_t start, uint64_t bytes);

/* A device as a stage. Its use is (fixed + bytes) / scale, or 0 if it holds nothing. */
struct unit_stage {
    uint64_t room; /* the most bytes */
    uint64_t fixed;
    uint64_t scale; /* at least 1, unless room is 0 */
};

/* Times are whole numbers of 2^-48 of the unit of time, so that their sums are exact. */
#define PARTITION_TICKS ((u128)1 << 48)

/* A use as a fraction. */
struct use {
    u128 part;
    uint64_t whole; /* at least 1 */
};

bool use_is_less(struct use a, struct use b);

/* Units [0, end) of a line, to be cut into a piece for each of the stages, which can hold them. */
struct cutting {
    const struct unit_line *line;
    uint32_t end;
    const struct unit_stage *stages;
    uint32_t n_stages; /* at least 1 */
};

/*
 * Minimises the highest use. Among such partitions, pieces are as near as possible to their stages' shares of the
 * scales, stage after stage. ends: [n_stages], where pieces end.
 */
struct use stages_least_use(const struct cutting *c, uint32_t *ends);

/* Minimises the sum of bytes / scale + handover, over stages that hold something. False: memory ran out. */
MUST_CHECK bool stages_least_latency(const struct cutting *c, u128 handover_ticks, uint32_t *ends);
