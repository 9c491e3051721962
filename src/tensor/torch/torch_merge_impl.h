/* SPDX-License-Identifier: Apache-2.0
 *
 * The merge in progress: values of the same path, one from each file, become one node of a new graph.
 */
#pragma once

#include "tensor/torch/torch_merge.h"
#include "tensor/torch/torch_value.h"
#include "tensor/torch/torch_write.h"

/* By file: the value at the path at hand; 0 where the file has none. */
typedef const pickle_id *value_ids;

/* What was put behind one another. */
struct tally {
    uint64_t length; /* of the first one */
    bool differs;    /* another one's is another */
    struct buf paths;
};

struct dict_graft;

struct graft {
    const struct torch_merge_opts *opts;
    const char *out_path;
    uint64_t *n_compared; /* nodes, by values_equal() */
    bool *met_splice;     /* it came upon one, and could not tell */
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

/* The same in every respect, the bytes of tensors by their checksums. */
bool values_equal(const struct graft *graft, size_t part_a, pickle_id a, size_t part_b, pickle_id b,
                  unsigned depth);

/* Of one class, with the same states: one dictionary can stand for both. */
bool dicts_alike(const struct graft *graft, const struct pickle_node *first, size_t part,
                 const struct pickle_node *node);

/* As Python has it, True and 1.0 are the key 1. */
bool key_to_integer(const struct pickle_node *key, int64_t *out);
enum {
    WIDE_BYTES_MAX = 136 /* the greatest float has 1024 bits */
};
/* Of whole numbers beyond 64 bits, int or float: two's complement, as short as it can be. */
bool key_to_digits(const struct pickle *pickle, const struct pickle_node *key,
                   char room[WIDE_BYTES_MAX], struct str *out);
/* Of equal keys the same. */
uint64_t scalar_hash(const struct pickle *pickle, const struct pickle_node *key);

/* The keys of a dictionary, to be found. */
struct key_entry {
    uint64_t hash;
    pickle_id key, value;
    uint32_t index;
};
struct key_table {
    struct key_entry *at; /* sorted by hash, of one hash the last first: of equal keys it counts */
    size_t len;
};
/* Of pairs; of other items each is its own value. free() table->at. */
void keys_take(struct key_table *table, const struct pickle *pickle,
               const struct pickle_node *pairs);
/* As Python has it: 1, True and 1.0 are one key. */
bool keys_equal(const struct graft *graft, size_t part_a, pickle_id a, size_t part_b, pickle_id b);
/* The value of this key, 0 if there is none. */
pickle_id keys_find_text(const struct key_table *table, const struct pickle *pickle,
                         struct str name);
/* The value of a key of another graph, 0 if there is none. */
pickle_id keys_find(const struct graft *graft, const struct key_table *table, size_t part,
                    size_t key_part, pickle_id key);
