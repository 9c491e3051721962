/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks and changes of values during a merge (normalisation): ids must be unique, counts must
 * be right, numpy's scalars and arrays become plain numbers and tensors, and storages lose the
 * elements that no tensor uses. A value is changed in place in the graph of its file, so an object
 * that is in several places stays one object.
 */
#pragma once

#include "tensor/torch/torch_merge_impl.h"

/* True if values are changed: then no bytes of the files' pickles can be copied as they are. */
static inline bool torch_normalises(const struct torch_merge_opts *opts)
{
    return opts->is_plain || opts->is_compact || opts->is_renumbered ||
           (opts->referred && opts->referred->len > 0);
}

static inline struct pickle *torch_merge_graph_mutable(struct merge_state *merge, size_t part)
{
    return part == merge->n_parts ? &merge->made : &merge->parts[part].file.pickle;
}

/*
 * torch_normalise_parts() is called before values are merged, torch_normalise_output() after the
 * output's graph was made.
 */
int torch_normalise_parts(struct merge_state *merge);
int torch_normalise_output(struct merge_state *merge, pickle_id root);

/* The numbers of scalars and arrays of numpy that plain_part() replaced by plain values. */
struct plain_stats {
    uint64_t n_scalars, n_arrays;
};
void plain_part(struct merge_state *merge, size_t part, struct plain_stats *stats);
/* Renumbers ids that several files use, and the references to them: see torch_refer.c. */
int refer_parts(struct merge_state *merge);
/*
 * ERR_DATA if the output still has numpy values. A note names what torch.load still refuses by
 * default.
 */
int plain_check(struct merge_state *merge, pickle_id root);
int compact_make(struct merge_state *merge, pickle_id root);
int ids_look(struct merge_state *merge, pickle_id root);
/*
 * ERR_DATA if a count that no rule is about differs from the length of the list beside it. The
 * sides of `keys` are the parts.
 */
int counts_check(struct merge_state *merge, struct torch_key_index *keys);
/* ERR_FAILED if the number of records is not *opts->expect. */
int expect_check(struct merge_state *merge);
void torch_merge_note(const struct merge_state *merge, const char *fmt, ...) PRINTF(2, 3);

/* numpy.dtype("f8", …) with its byte order. */
struct numpy_dtype {
    char kind; /* f, i, u, b, c, U, S */
    bool is_big_endian;
    uint64_t n_bytes; /* of an element */
};
bool numpy_dtype_take(const struct pickle *pickle, pickle_id id, struct numpy_dtype *out);
/*
 * Sets `out` to the bytes of a node: BYTES, BYTEARRAY, or a call that encodes a text as Latin-1.
 * False for any other node.
 */
bool pickled_bytes_take(const struct pickle *pickle, pickle_id id, struct buf *out);

/* The Python value that numpy's scalar(dtype, bytes) stands for. */
struct numpy_scalar {
    enum pickle_kind kind;     /* TEXT, BYTES, LONG: see `bytes`; NONE: see `number` */
    struct pickle_node number; /* BOOL, INT, FLOAT */
    struct str bytes;          /* borrowed from the room */
};
/*
 * False if the node makes no numpy scalar, or one of a type that has no plain value here: a date, a
 * complex number.
 */
bool numpy_scalar_take(const struct pickle *pickle, pickle_id id, struct buf *room,
                       struct numpy_scalar *out);

/* Resolves a node that stands for another: *graph and *id become those of the other node. */
const struct pickle_node *torch_merge_resolve(const struct merge_state *merge, uint32_t *graph,
                                              pickle_id *id);
/* Adds a key in the form in which paths have it. */
void torch_merge_key_add(const struct merge_state *merge, uint32_t graph, pickle_id key,
                         struct buf *out);

/* ---- a walk over every node of the output, once, each after the node that contains it ---- */

struct walk_frame {
    uint32_t graph;
    pickle_id id, key;
    struct pickle_walk walk;
    uint32_t index; /* of the current child, plus 1 */
    uint8_t stage;  /* of a call: arguments, items, pairs, states */
};
struct merge_walk {
    const struct merge_state *merge;
    uint8_t **met; /* by graph and node: was it visited? */
    struct walk_frame *frames;
    size_t n_frames, cap_frames;
    bool has_begun;
};
void walk_begin(struct merge_walk *walk, const struct merge_state *merge, pickle_id root);
/*
 * The next node, which is that of the last frame; NULL at the end. A storage is given once for each
 * reference to it.
 */
const struct walk_frame *walk_next(struct merge_walk *walk);
/* Adds the keys and indices from the root to the current node. */
void walk_path(const struct merge_walk *walk, struct buf *out);
void walk_end(struct merge_walk *walk);
