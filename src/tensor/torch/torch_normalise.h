/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks and changes of values during a merge (normalisation): ids that have to be there
 * once each, counts that have to fit, numpy's scalars and arrays as plain numbers and tensors,
 * storages without the elements that no tensor shows. A value is changed in its place in the
 * graph of its file, so what was one object stays one.
 */
#pragma once

#include "tensor/torch/torch_merge_impl.h"

/* True: values are changed, so no bytes of the files' pickles can be copied as they are. */
static inline bool torch_normalises(const struct torch_merge_opts *opts)
{
    return opts->is_plain || opts->is_compact || opts->is_renumbered ||
           (opts->referred && opts->referred->len > 0);
}

static inline struct pickle *torch_merge_graph_mutable(struct merge_state *merge, size_t part)
{
    return part == merge->n_parts ? &merge->made : &merge->parts[part].file.pickle;
}

/* Called before values are merged, and once the output's graph is made. */
int torch_normalise_parts(struct merge_state *merge);
int torch_normalise_output(struct merge_state *merge, pickle_id root);

/* Replaces the file's numpy values by plain ones where there is one; counts each kind. */
struct plain_stats {
    uint64_t n_scalars, n_arrays;
};
void plain_part(struct merge_state *merge, size_t part, struct plain_stats *stats);
/* Ids of each file that are in others too, and what refers to them there: see torch_refer.c. */
int refer_parts(struct merge_state *merge);
/* ERR_DATA where numpy is left in the output; what torch.load still refuses by default is said. */
int plain_check(struct merge_state *merge, pickle_id root);
int compact_make(struct merge_state *merge, pickle_id root);
int ids_look(struct merge_state *merge, pickle_id root);
/* ERR_DATA where a count without a rule is another than the length of the list beside it; sides are the parts. */
int counts_check(struct merge_state *merge, struct torch_key_index *keys);
/* ERR_FAILED if there are not so many records as *opts->expect says. */
int expect_check(struct merge_state *merge);
void torch_merge_note(const struct merge_state *merge, const char *fmt, ...) PRINTF(2, 3);

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
const struct pickle_node *torch_merge_resolve(const struct merge_state *merge, uint32_t *graph,
                                              pickle_id *id);
/* A key as it stands in a path. */
void torch_merge_key_add(const struct merge_state *merge, uint32_t graph, pickle_id key,
                         struct buf *out);

/* ---- every node of the output, once, each behind what holds it ---- */

struct walk_frame {
    uint32_t graph;
    pickle_id id, key;
    struct pickle_walk walk;
    uint32_t index; /* of the child at hand, plus 1 */
    uint8_t stage;  /* of a call: arguments, items, pairs, states */
};
struct merge_walk {
    const struct merge_state *merge;
    uint8_t **met; /* by graph and node */
    struct walk_frame *frames;
    size_t n_frames, cap_frames;
    bool has_begun;
};
void walk_begin(struct merge_walk *walk, const struct merge_state *merge, pickle_id root);
/* The node is that of the last frame. Storages come as often as they are named. */
const struct walk_frame *walk_next(struct merge_walk *walk);
/* Keys and indices from the root to the node at hand. */
void walk_path(const struct merge_walk *walk, struct buf *out);
void walk_end(struct merge_walk *walk);
