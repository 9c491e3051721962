/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a merge: the values of one path, one from each file, become one node of a new graph.
 */
#pragma once

#include "tensor/torch/torch_key.h"
#include "tensor/torch/torch_merge.h"
#include "tensor/torch/torch_write.h"

/* The value at the current path of each file; 0 for a file that has none. */
typedef const pickle_id *value_ids;

/* The length that the lists, or the tensors, have that were concatenated. */
struct tally {
    uint64_t length; /* of the first one */
    bool differs;    /* a later one has a different length */
    struct buf paths;
};

/* Dictionaries that were merged: for each one the nodes of the files, then the merged node. */
struct merged_dicts {
    struct node_map numbers; /* key: is a setting's name above it, and the first file's node */
    pickle_id *at;
    size_t len, cap;
};

struct dict_merge;

struct merge_state {
    const struct torch_merge_opts *opts;
    const char *out_path;
    bool *met_splice; /* a splice was compared, although its items are unknown */
    struct key_pool pool;
    struct merged_dicts merged;
    struct comparer *comparer; /* NULL until values are compared */
    struct torch_part *parts;
    size_t n_parts;
    size_t splice_least_bytes; /* of lists that become splices; 0: no splices */
    struct pickle made;
    struct torch_segment *segments;
    size_t *segment_ends;
    size_t n_segments, cap_segments, cap_ends;
    uint32_t *ties; /* hash table of made storages by their segments: number + 1 */
    size_t n_ties, cap_ties;
    struct buf path; /* of the current value, for messages and rules */
    struct tally lists, tensors;
    uint64_t n_ids; /* counted only if ids are checked */
    unsigned depth;
    const struct dict_merge *innermost; /* of the dictionaries that are being merged */
    uint64_t n_pairs, max_pairs; /* merged pairs; a dictionary counts once for each of its places */
    uint8_t *met;                /* dictionaries of a single file, by node */
    bool is_renamed;             /* a single file: its batch_name is changed in the output */
    struct err *err;
};

/* The graph of a file; the graph of the output for part == n_parts. */
static inline const struct pickle *torch_merge_graph(const struct merge_state *merge, size_t part)
{
    return part == merge->n_parts ? &merge->made : &merge->parts[part].file.pickle;
}

static inline const struct pickle_node *torch_merge_node(const struct merge_state *merge,
                                                         size_t part, value_ids ids)
{
    return pickle_node(torch_merge_graph(merge, part), ids[part]);
}

/* Opens, reads and checks the files: parts[n_parts]. */
int torch_merge_open(struct merge_state *merge, const char *const *paths, struct err *err);
/* Releases the output's graph, so that another one can be made. */
void torch_merge_reset(struct merge_state *merge);
/* Releases everything, and closes the parts. */
void torch_merge_release(struct merge_state *merge);

/* Fails with ERR_DATA, with the current path before the text. */
int torch_merge_fail(struct merge_state *merge, const char *fmt, ...) PRINTF(2, 3);
const char *torch_merge_file_name(const struct merge_state *merge, size_t part);

/* Adds a node to the output that stands for a node of a file. */
pickle_id torch_merge_node_of(struct merge_state *merge, size_t part, pickle_id id);
pickle_id torch_merge_tuple(struct merge_state *merge, const pickle_id *ids, size_t n_ids);
/* Adds a call with the callee of `call`, a node of the first file, and these arguments. */
pickle_id torch_merge_call_like(struct merge_state *merge, const struct pickle_node *call,
                                pickle_id args);

/*
 * Adds a dictionary of the same class as `first`, with the states of `first`. `pairs` are keys and
 * values of the new graph.
 */
pickle_id torch_merge_dict_like(struct merge_state *merge, const struct pickle_node *first,
                                const pickle_id *pairs, size_t n_pairs);
/* torch_merge_dict_like() in two steps, for a dictionary that may be referred to before its members
 * are made. */
pickle_id torch_merge_dict_begin(struct merge_state *merge, const struct pickle_node *first);
void torch_merge_dict_fill(struct merge_state *merge, const struct pickle_node *first,
                           pickle_id dict, const pickle_id *pairs, size_t n_pairs);
/* Checks for unknown callables: they are an error, or a note if pass_through allows them. */
int torch_merge_callables_check(const struct merge_state *merge, struct err *err);

/*
 * Adds a key. A NUL in the key is written as a blank: paths end with a NUL, so it would hide the
 * rest of the path from the rules and from the names of counts.
 */
void path_add_key(struct str key, struct buf *path);
/* Is the path within settings (args, config and the like)? No value in settings is a count. */
bool path_is_setting(const char *path);
/* Records that the value at the current path has `length` items or rows. */
void tally_add(struct merge_state *merge, struct tally *tally, uint64_t length);

/*
 * For a tensor that is more than a view of a storage: why a part of its rows cannot be taken, and
 * what to save instead. NULL for a plain tensor, and for a value that is not a tensor.
 */
const char *unplain_why(const struct pickle *pickle, pickle_id id);

/* Each sets *out to the merged node; 0: the output has no value there. */
int torch_merge_value(struct merge_state *merge, value_ids ids, pickle_id *out);
int torch_merge_deep(struct merge_state *merge, value_ids ids, bool is_union, pickle_id *out);
/* Makes a tensor of the rows [first, first + n_rows) of a tensor of the first file. */
int torch_merge_rows(struct merge_state *merge, pickle_id id, uint64_t first, uint64_t n_rows,
                     pickle_id *out);
int torch_merge_cat0(struct merge_state *merge, value_ids ids, pickle_id *out);
/*
 * torch_merge_segment() adds a piece. torch_merge_storage() adds a storage of the new graph, of the
 * same type as `like`; it consists of the pieces that were added since the last storage.
 */
void torch_merge_segment(struct merge_state *merge, struct torch_segment segment);
uint32_t torch_merge_storage(struct merge_state *merge, const struct pickle_storage *like,
                             uint64_t n_elements);
int torch_merge_sum(struct merge_state *merge, value_ids ids, pickle_id *out);
int torch_merge_sum_by_key(struct merge_state *merge, value_ids ids, pickle_id *out);
int torch_merge_max(struct merge_state *merge, value_ids ids, pickle_id *out);
int torch_merge_merged_name(struct merge_state *merge, value_ids ids, pickle_id *out);
int torch_merge_concat(struct merge_state *merge, value_ids ids, pickle_id *out);
int torch_merge_same(struct merge_state *merge, value_ids ids, pickle_id *out);

/* ---- when values of different files are the same ---- */

enum sameness {
    SAME,
    DIFFERENT,
    UNTOLD /* only an unknown class could tell */
};

#define UNTOLD_WHY "holds keys, in another order, of a class whose equality muster does not know"

/* Remembers which nodes were found to be the same, so that they are not compared again. */
struct comparer;
void comparer_free(struct comparer *comparer);

/*
 * Compares two values with all their parts. Bytes of tensors are compared by their checksums, if
 * the files have them. The time of all calls together is in proportion to the files, however often
 * a value is compared.
 */
enum sameness values_same(struct merge_state *merge, size_t part_a, pickle_id a, size_t part_b,
                          pickle_id b);
/*
 * Do the two dictionaries have one class and the same states, so that one merged dictionary can
 * replace both?
 */
enum sameness dicts_alike(struct merge_state *merge, size_t part_a, pickle_id a, size_t part_b,
                          pickle_id b);

/* What a node is when it has been loaded: SET for set([…]), TUPLE for torch.Size((…)), else its own
 * kind. */
enum pickle_kind value_kind(const struct pickle *graph, const struct pickle_node *node);
/* The list in the call that protocol 2 writes for a set; NULL for any other call. */
const struct pickle_node *set_items(const struct pickle *graph, const struct pickle_node *call);

/*
 * Adds the keys of a part's dictionary to `keys`, with the part as the side. If the dictionary sets
 * a key several times, only one pair with the key stays in it, so that later walks are short.
 * ERR_DATA, with the path, if its keys cannot be told apart.
 */
int torch_merge_keys_take(struct merge_state *merge, size_t part, pickle_id id,
                          struct torch_key_index *keys);
/* Fails with ERR_DATA: two keys of a part look alike, and only their unknown class could tell
 * whether they are equal. */
int keys_untold(struct merge_state *merge, size_t part);
/*
 * As torch_merge_keys_take(), for the members of any dictionary or set, and without an error text:
 * false if the members cannot be told apart.
 */
bool torch_merge_members_take(struct merge_state *merge, uint32_t side, size_t part,
                              const struct pickle_node *members, struct torch_key_index *keys);
