/* SPDX-License-Identifier: Apache-2.0
 *
 * What the jobs of a stage took is remembered from one run to the next, in graph.json (base/cache_file.h):
 * {"version":1,"stages":[{…},…]}. A stage is known by its name and its template (struct plan_stage), so that a new
 * run of an edited file still knows the stages that were not edited.
 */
#pragma once

#include "base/buf.h"

enum {
    STAGE_MEMOS_MAX = 1000, /* the oldest is dropped */
    STAGE_MEMO_BYTES_MAX = 1 << 20
};

struct stage_memo {
    uint64_t signature;
    uint64_t ms;             /* of a job, the mean */
    uint64_t mem_peak_bytes; /* on a device; 0: not known */
};

struct stage_memos {
    struct stage_memo at[STAGE_MEMOS_MAX]; /* the oldest first */
    size_t len;
};

/* False: the text is not what stage_memos_format() writes; *out is empty then. Pure. */
bool stage_memos_parse(struct str text, struct stage_memos *out);
void stage_memos_format(const struct stage_memos *memos, struct buf *out);
/* Takes the place of an older one with the same signature. */
void stage_memos_put(struct stage_memos *memos, const struct stage_memo *memo);
/* NULL: there is none. */
const struct stage_memo *stage_memos_find(const struct stage_memos *memos, uint64_t signature);

/* For `muster graph` (graph_impl.h). */
struct graph;
/* Takes what is remembered into the stages of graph->learned; logs why, if it cannot be used. */
void remembered_take(struct graph *graph);
/* Keeps what this run has learned of stages. */
void remembered_keep(struct graph *graph);
