/* SPDX-License-Identifier: Apache-2.0
 *
 * The merge in progress: values of the same path, one from each file, become one node of a new graph.
 */
#pragma once

#include "tensor/torch/torch_key.h"
#include "tensor/torch/torch_merge.h"
#include "tensor/torch/torch_write.h"

/* By file: the value at the path at hand; 0 where the file has none. */
typedef const pickle_id *value_ids;

/* What was put behind one another. */
struct tally {
    uint64_t length; /* of the first one */
    bool differs;    /* another one's is another */
    struct buf paths;
};

/* Dictionaries that have been merged: for each the files' nodes, then the new one. */
struct merged_dicts {
    struct node_map
        numbers; /* by whether a setting's name is above it, and the first file's node */
    pickle_id *at;
    size_t len, cap;
};

struct dict_graft;

struct graft {
    const struct torch_merge_opts *opts;
    const char *out_path;
    bool *met_splice; /* something was compared that is a piece of a pickle, not nodes */
    struct key_pool pool;
    struct merged_dicts merged;
    struct comparer *comparer; /* NULL: nothing has been compared yet */
    struct torch_part *parts;
    size_t n_parts;
    size_t splice_least_bytes; /* of lists that are spliced; 0: none are */
    struct pickle made;
    struct torch_segment *segments;
    size_t *segment_ends;
    size_t n_segments, cap_segments, cap_ends;
    uint32_t *ties; /* made storages by their segments, hashed: number + 1 */
    size_t n_ties, cap_ties;
    struct buf path; /* of the value at hand, for people and for rules */
    struct tally lists, tensors;
    uint64_t n_ids; /* where ids are looked at */
    unsigned depth;
    const struct dict_graft *innermost; /* of the dictionaries that are being gone through */
    uint64_t n_pairs, max_pairs; /* gone through: a dictionary in many places comes as often */
    uint8_t *met;                /* dictionaries of a single file, by node */
    bool is_renamed;             /* of a single file something has another name in the output */
    struct err *err;
};

/* Number n_parts is that of the output. */
static inline const struct pickle *graft_graph(const struct graft *graft, size_t part)
{
    return part == graft->n_parts ? &graft->made : &graft->parts[part].file.pickle;
}

static inline const struct pickle_node *graft_node(const struct graft *graft, size_t part,
                                                   value_ids ids)
{
    return pickle_node(graft_graph(graft, part), ids[part]);
}

/* The files are opened, read and checked: parts of n_parts. */
int graft_open(struct graft *graft, const char *const *paths, struct err *err);
/* What was made, of a graph that is to be made anew. */
void graft_reset(struct graft *graft);
/* All of it, and the parts, closed. */
void graft_release(struct graft *graft);

/* ERR_DATA with the path in front. */
int graft_fail(struct graft *graft, const char *fmt, ...) PRINTF(2, 3);
const char *graft_file_name(const struct graft *graft, size_t part);

/* A node that stands for that of a file. */
pickle_id graft_of(struct graft *graft, size_t part, pickle_id id);
pickle_id graft_tuple(struct graft *graft, const pickle_id *ids, size_t n_ids);
/* callee(*args), its callee that of the first file's call. */
pickle_id graft_call_like(struct graft *graft, const struct pickle_node *call, pickle_id args);

/* A dictionary of the first file's kind, with its states behind it: keys and values of the new graph. */
pickle_id graft_dict_like(struct graft *graft, const struct pickle_node *first,
                          const pickle_id *pairs, size_t n_pairs);
/* The same in two steps, for one that is to be found before all that it holds is there. */
pickle_id graft_dict_begin(struct graft *graft, const struct pickle_node *first);
void graft_dict_fill(struct graft *graft, const struct pickle_node *first, pickle_id dict,
                     const pickle_id *pairs, size_t n_pairs);
/* Names that are no data: an error, or said where they may pass. */
int graft_callables_check(const struct graft *graft, struct err *err);

/* Below args, config and their like nothing is a count. */
bool path_is_setting(const char *path);
/* The value at the path at hand is made of so many items or rows. */
void tally_add(struct graft *graft, struct tally *tally, uint64_t length);

/*
 * Of something like a tensor that is more than a view of a storage: why rows of it cannot be taken, and what can
 * be saved instead. NULL of a plain tensor, and of what is none at all.
 */
const char *unplain_why(const struct pickle *pickle, pickle_id id);

/* Each sets *out to the new node; 0: nothing is put there. */
int graft_value(struct graft *graft, value_ids ids, pickle_id *out);
int graft_deep(struct graft *graft, value_ids ids, bool is_union, pickle_id *out);
/* Of a tensor of the first file, rows [first, first + n_rows). */
int graft_rows(struct graft *graft, pickle_id id, uint64_t first, uint64_t n_rows, pickle_id *out);
int graft_cat0(struct graft *graft, value_ids ids, pickle_id *out);
/* A storage of the new graph like another, of the pieces that were added since the last one. */
void graft_segment(struct graft *graft, struct torch_segment segment);
uint32_t graft_storage(struct graft *graft, const struct pickle_storage *like, uint64_t n_elements);
int graft_sum(struct graft *graft, value_ids ids, pickle_id *out);
int graft_sum_by_key(struct graft *graft, value_ids ids, pickle_id *out);
int graft_max(struct graft *graft, value_ids ids, pickle_id *out);
int graft_merged_name(struct graft *graft, value_ids ids, pickle_id *out);
int graft_concat(struct graft *graft, value_ids ids, pickle_id *out);
int graft_same(struct graft *graft, value_ids ids, pickle_id *out);

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
enum sameness values_same(struct graft *graft, size_t part_a, pickle_id a, size_t part_b,
                          pickle_id b);
/* Of one class, with the same states: one dictionary can stand for both. */
enum sameness dicts_alike(struct graft *graft, size_t part_a, pickle_id a, size_t part_b,
                          pickle_id b);

/* What a node is when it has been loaded: SET of set([…]), TUPLE of torch.Size((…)); else its own kind. */
enum pickle_kind value_kind(const struct pickle *graph, const struct pickle_node *node);
/* The list that protocol 2 makes a set of; NULL of another call. */
const struct pickle_node *set_items(const struct pickle *graph, const struct pickle_node *call);

/*
 * The keys of the values at hand, each side a part. What a dictionary sets again and again is taken out of it, so
 * that whoever looks next has no more work than it has keys. ERR_DATA, with the path, if its keys cannot be
 * told from one another.
 */
int graft_keys_take(struct graft *graft, size_t part, pickle_id id, struct key_index *keys);
/* ERR_DATA: two keys of a part look alike, and are equal or not as only their class knows. */
int keys_untold(struct graft *graft, size_t part);
/* The same of any members, without words: false if they cannot be told. */
bool graft_members_take(struct graft *graft, uint32_t side, size_t part,
                        const struct pickle_node *members, struct key_index *keys);
