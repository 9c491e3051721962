/* SPDX-License-Identifier: Apache-2.0
 *
 * What file_needs.c reads, and file_edges.c makes edges of.
 */
#pragma once

#include "graph/file/file_impl.h"

enum select_kind {
    SELECT_ALL,     /* any value */
    SELECT_SAME,    /* that of the job */
    SELECT_SHIFTED, /* the one at a distance in the list of the variable */
    SELECT_FIXED    /* some values */
};

/* What a coordinate of the needed job has to be. */
struct selector {
    enum select_kind kind;
    uint32_t coord; /* of the needed stage */
    uint32_t own;   /* the job's coordinate of that name, or NONE */
    int32_t shift;
    uint32_t first, n_values; /* the numbers of the values that needed jobs have: from `first` on */
    bool *allowed;            /* [positions] of SELECT_FIXED */
};

/* Jobs of one stage. */
struct need {
    const struct yaml_node *node;
    uint32_t target;
    struct selector *selectors; /* [coordinates of the target] */
    bool may_miss; /* a shifted coordinate: at the ends of its list there is nothing to need */
    struct need *next;
    /*
     * The target's rows by the values of their SAME and SHIFTED coordinates: chains, whose heads are at a number made of
     * these values if such numbers are dense (neighbours are near each other then), else in a hash table.
     */
    uint32_t *heads, *chain; /* row + 1 */
    uint32_t n_heads;
    bool is_direct;
};
