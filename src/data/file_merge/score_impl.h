/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of scores: score.c counts, score_print.c computes figures and writes them.
 */
#pragma once

#include "base/name_index.h"
#include "data/file_merge/score.h"

enum {
    SCORE_NAMES_MAX = 1 << 16 /* limit for labels, and for groups */
};

struct score_cell {
    uint32_t group, is, said; /* index in `groups`; in `labels`: of the true, the predicted label */
    uint64_t count;           /* 0: free */
};

enum score_field {
    SCORE_TRUE,
    SCORE_PREDICTED,
    SCORE_BY,
    N_SCORE_FIELDS
};

struct score {
    struct score_opts opts;
    struct str fields[N_SCORE_FIELDS]; /* SCORE_BY: at == NULL without groups */
    struct name_index labels, groups;
    struct score_cell *cells; /* a hash table: a power of two, at most half in use */
    size_t n_slots, n_cells;
    uint64_t *is_true; /* SCORE_NAMES_MAX: records with this true label, by label */
    uint64_t n_records, n_unlabelled, n_ignored;
    struct buf text; /* scratch */
    char *positive;  /* the label of opts.positive, if it is spelled in another way */
};
