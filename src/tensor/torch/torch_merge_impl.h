/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a merge: values of the same path, one from each file, become one node of a new
 * graph.
 */
#pragma once

#include "tensor/torch/torch_key.h"
#include "tensor/torch/torch_merge.h"
#include "tensor/torch/torch_write.h"

/* For each file the value at the current path; 0 where the file has none. */
typedef const pickle_id *value_ids;

/* Lists, or tensors, that were concatenated. */
struct tally {
    uint64_t length; /* of the first one */
    bool differs;    /* another one has another length */
    struct buf paths;
};

/* Dictionaries that have been merged: for each the files' nodes, then the new one. */
struct merged_dicts {
    struct node_map
        numbers; /* by whether a setting's name is above it, and the first file's node */
    pickle_id *at;
    size_t len, cap;
};

struct dict_merge;

struct merge_state {
    const struct torch_merge_opts *opts;
    const char *out_path;
    bool *met_splice; /* something was compared that is a piece of a pickle, not nodes */
    struct key_pool pool;
    struct merged_dicts merged;
    struct comparer *comparer; /* NULL until values are compared */
    struct torch_part *parts;
    size_t n_parts;
    size_t splice_least_bytes; /* of lists that are spliced; 0: none are */
    struct pickle made;
    struct torch_segment *segments;
    size_t *segment_ends;
    size_t n_segments, cap_segments, cap_ends;
    uint32_t *ties; /* made storages by their segments, hashed: number + 1 */
    size_t n_ties, cap_ties;
    struct buf path; /* of the current value, for messages and rules */
    struct tally lists, tensors;
    uint64_t n_ids; /* if ids are checked */
    unsigned depth;
    const struct dict_merge *innermost; /* of the dictionaries that are being merged */
    uint64_t n_pairs, max_pairs; /* merged: a dictionary in several places counts once for each */
    uint8_t *met;                /* dictionaries of a single file, by node */
    bool is_renamed;             /* of a single file something has another name in the output */
    struct err *err;
};

/* The graph of a file; that of the output for part == n_parts. */
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
/* Releases the output's graph, which is then made anew. */
void torch_merge_reset(struct merge_state *merge);
/* Releases everything, and closes the parts. */
void torch_merge_release(struct merge_state *merge);

/* ERR_DATA with the path in front. */
int torch_merge_fail(struct merge_state *merge, const char *fmt, ...) PRINTF(2, 3);
const char *torch_merge_file_name(const struct merge_state *merge, size_t part);

/* A node of the output that stands for one of a file. */
pickle_id torch_merge_node_of(struct merge_state *merge, size_t part, pickle_id id);
pickle_id torch_merge_tuple(struct merge_state *merge, const pickle_id *ids, size_t n_ids);
/* callee(*args), its callee that of the first file's call. */
pickle_id torch_merge_call_like(struct merge_state *merge, const struct pickle_node *call,
                                pickle_id args);

/* A dictionary of the first file's kind, with its states behind it: keys and values of the new graph. */
pickle_id torch_merge_dict_like(struct merge_state *merge, const struct pickle_node *first,
                                const pickle_id *pairs, size_t n_pairs);
/* The same in two steps, for one that is to be found before all that it holds is there. */
pickle_id torch_merge_dict_begin(struct merge_state *merge, const struct pickle_node *first);
void torch_merge_dict_fill(struct merge_state *merge, const struct pickle_node *first,
                           pickle_id dict, const pickle_id *pairs, size_t n_pairs);
/* Names that are no data: an error, or said where they may pass. */
int torch_merge_callables_check(const struct merge_state *merge, struct err *err);

/* Below args, config and their like nothing is a count. */
bool path_is_setting(const char *path);
/* The value at the current path is made of so many items or rows. */
void tally_add(struct merge_state *merge, struct tally *tally, uint64_t length);

/*
 * Of something like a tensor that is more than a view of a storage: why rows of it cannot be taken, and what can
 * be saved instead. NULL of a plain tensor, and of what is none at all.
 */
const char *unplain_why(const struct pickle *pickle, pickle_id id);

/* Each sets *out to the new node; 0: nothing is put there. */
int torch_merge_value(struct merge_state *merge, value_ids ids, pickle_id *out);
int torch_merge_deep(struct merge_state *merge, value_ids ids, bool is_union, pickle_id *out);
/* Of a tensor of the first file, rows [first, first + n_rows). */
int torch_merge_rows(struct merge_state *merge, pickle_id id, uint64_t first, uint64_t n_rows,
                     pickle_id *out);
int torch_merge_cat0(struct merge_state *merge, value_ids ids, pickle_id *out);
/* A storage of the new graph like another, of the pieces that were added since the last one. */
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
    UNTOLD /* only a class that is not known here could tell */
};

#define UNTOLD_WHY "holds keys, in another order, of a class whose equality muster does not know"

/* What has been found to be the same so far: it is not compared again. */
struct comparer;
void comparer_free(struct comparer *comparer);

/*
 * In every respect, however deep they lie and whatever they share; bytes of tensors by their checksums, where the
 * files have some. Takes time in proportion to the files, whatever is compared how often.
 */
enum sameness values_same(struct merge_state *merge, size_t part_a, pickle_id a, size_t part_b,
                          pickle_id b);
/* Of one class, with the same states: one dictionary can stand for both. */
enum sameness dicts_alike(struct merge_state *merge, size_t part_a, pickle_id a, size_t part_b,
                          pickle_id b);

/* What a node is when it has been loaded: SET of set([…]), TUPLE of torch.Size((…)); else its own kind. */
enum pickle_kind value_kind(const struct pickle *graph, const struct pickle_node *node);
/* The list that protocol 2 makes a set of; NULL of another call. */
const struct pickle_node *set_items(const struct pickle *graph, const struct pickle_node *call);

/*
 * The keys of the current values, each side a part. A key that a dictionary sets several times
 * is left in it once, so that a later look at the dictionary takes no longer than it has keys.
 * ERR_DATA, with the path, if its keys cannot be told from one another.
 */
int torch_merge_keys_take(struct merge_state *merge, size_t part, pickle_id id,
                          struct torch_key_index *keys);
/* ERR_DATA: two keys of a part look alike, and are equal or not as only their class knows. */
int keys_untold(struct merge_state *merge, size_t part);
/* The same of any members, without words: false if they cannot be told. */
bool torch_merge_members_take(struct merge_state *merge, uint32_t side, size_t part,
                              const struct pickle_node *members, struct torch_key_index *keys);
