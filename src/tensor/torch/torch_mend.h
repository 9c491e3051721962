/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of values and changed in them on their way through a merge: ids that have to be there once
 * each, counts that have to fit, numpy's scalars and arrays as plain numbers and tensors, storages without
 * what no tensor shows. A value is changed where it stands in the graph of its file, so what was one object
 * stays one.
 */
#pragma once

#include "tensor/torch/torch_merge_impl.h"

/* Are values changed? Then no bytes of the files' pickles can go over as they are. */
static inline bool mends_values(const struct torch_merge_opts *opts)
{
    return opts->is_plain || opts->is_compact || opts->is_renumbered ||
           (opts->referred && opts->referred->len > 0);
}

static inline struct pickle *graft_graph_change(struct graft *graft, size_t part)
{
    return part == graft->n_parts ? &graft->made : &graft->parts[part].file.pickle;
}

/* Before values are merged, and when the output's graph is made. */
int mend_parts(struct graft *graft);
int mend_made(struct graft *graft, pickle_id root);

/* The file's numpy values that have one become a plain one; how many of each kind. */
struct plain_stats {
    uint64_t n_scalars, n_arrays;
};
void plain_part(struct graft *graft, size_t part, struct plain_stats *stats);
/* Ids of each file that are in others too, and what refers to them there: see torch_refer.c. */
int refer_parts(struct graft *graft);
/* ERR_DATA where numpy is left in the output; what torch.load still refuses by default is said. */
int plain_check(struct graft *graft, pickle_id root);
int compact_make(struct graft *graft, pickle_id root);
int ids_look(struct graft *graft, pickle_id root);
/* ERR_DATA where a count without a rule is another than the length of the list beside it; sides are the parts. */
int counts_check(struct graft *graft, struct key_index *keys);
/* ERR_FAILED if there are not so many records as *opts->expect says. */
int expect_check(struct graft *graft);
void graft_note(const struct graft *graft, const char *fmt, ...) PRINTF(2, 3);

/* numpy.dtype("f8", …) with its byte order. */
struct numpy_dtype {
    char kind; /* f, i, u, b, c, U, S */
    bool is_big_endian;
    uint64_t n_bytes; /* of an element */
};
bool numpy_dtype_take(const struct pickle *pickle, pickle_id id, struct numpy_dtype *out);
/* Bytes, also written as a text of Latin-1; out is theirs then. False if it is something else. */
bool pickled_bytes_take(const struct pickle *pickle, pickle_id id, struct buf *out);

/* scalar(dtype, bytes): what of Python's it stands for. */
struct numpy_scalar {
    enum pickle_kind kind;     /* TEXT, BYTES, LONG: in `bytes`; NONE: in `number` */
    struct pickle_node number; /* BOOL, INT, FLOAT */
    struct str bytes;          /* borrowed from the room */
};
/* False if the node makes none, or one of a type that Python has not: a date, a complex number. */
bool numpy_scalar_take(const struct pickle *pickle, pickle_id id, struct buf *room,
                       struct numpy_scalar *out);

/* Of a node that stands for another, that one. */
const struct pickle_node *graft_resolve(const struct graft *graft, uint32_t *graph, pickle_id *id);
/* A key as it stands in a path. */
void graft_key_add(const struct graft *graft, uint32_t graph, pickle_id key, struct buf *out);

/* ---- every node of the output, once, each behind what holds it ---- */

struct walk_frame {
    uint32_t graph;
    pickle_id id, key;
    struct pickle_walk walk;
    uint32_t index; /* of the child at hand, plus 1 */
    uint8_t stage;  /* of a call: arguments, items, pairs, states */
};
struct graft_walk {
    const struct graft *graft;
    uint8_t **met; /* by graph and node */
    struct walk_frame *frames;
    size_t n_frames, cap_frames;
    bool has_begun;
};
void walk_begin(struct graft_walk *walk, const struct graft *graft, pickle_id root);
/* The node is that of the last frame. Storages come as often as they are named. */
const struct walk_frame *walk_next(struct graft_walk *walk);
/* Keys and indices from the root to the node at hand. */
void walk_path(const struct graft_walk *walk, struct buf *out);
void walk_end(struct graft_walk *walk);
