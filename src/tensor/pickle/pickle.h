/* SPDX-License-Identifier: Apache-2.0
 *
 * A pickle read as data: nothing in it is ever called. What a Python program would build comes as a
 * graph of nodes, in which a call is a node that names its callable and its arguments, and an object
 * met twice is one node. Protocols 0 to 5. Sources: CPython's pickletools, and what torch.save emits.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,  /* fits 64 bits */
    PICKLE_LONG, /* little-endian two's complement, as bytes */
    PICKLE_FLOAT,
    PICKLE_TEXT, /* UTF-8, lone surrogates allowed */
    PICKLE_BYTES,
    PICKLE_BYTEARRAY,
    PICKLE_GLOBAL, /* a callable or a class, by its name */
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT, /* of pairs, as they were set: of equal keys the last counts */
    PICKLE_SET,
    PICKLE_FROZENSET,
    PICKLE_CALL,    /* REDUCE: callable(*args) */
    PICKLE_NEW,     /* NEWOBJ: class.__new__(class, *args) */
    PICKLE_STORAGE, /* a persistent id of torch */
    PICKLE_SPLICE,  /* items of a list that are no nodes, but a piece of the pickle */
    PICKLE_OF       /* only in a graph that was made or changed here: a node of another one */
};

typedef uint32_t pickle_id; /* of a node; 0 is none */

/*
 * 16 bytes: a pickle of 200 MB of records has five million of them. Equal numbers, None, truths and empty
 * tuples of a file may be one node, which Python cannot tell from several.
 */
struct pickle_node {
    uint8_t kind; /* enum pickle_kind */
    bool truth;   /* BOOL; LIST: some of its items are in a SPLICE */
    uint32_t
        count; /* items, those of splices too, pairs or bytes; CALL and NEW: what came after, an index into `later`, 0 for none */
    union {
        int64_t integer;
        double real;
        uint64_t at;     /* of TEXT, BYTES, BYTEARRAY, LONG */
        uint32_t global; /* index into globals */
        uint32_t storage;
        uint32_t splice;
        struct {
            uint32_t first, last;
        } chunks; /* of the items; last 0: they all stand at first */
        struct {
            pickle_id callee, args;
        } call;
        struct {
            uint32_t graph;
            pickle_id id;
        } of;
    };
};

struct pickle_global {
    struct str module, name;             /* borrowed */
    const struct pickle_callable *known; /* NULL: not one that data are made of */
    uint64_t at;                         /* of the opcode that names it first */
};

/* Elements of one kind that tensors are views of. */
struct pickle_storage {
    struct str module, type;  /* "torch", "FloatStorage" */
    struct str key, location; /* "0", "cuda:1" */
    uint64_t number;          /* the key's */
    uint64_t n_elements, element_bytes;
};

/* What is done to the result of a call: APPEND(S), SETITEM(S), BUILD. */
struct pickle_later {
    struct pickle_node items, pairs, states; /* LIST, DICT, LIST */
};

/* Batches of a list that follow one another, from the first MARK to behind the last APPENDS. */
struct pickle_splice {
    uint32_t begin, end; /* in the pickle as it was read */
    uint64_t hash;       /* XXH3: of what is read again all must be the same */
};

/* What splices ask the memo for and do not put there: a text or a name. */
struct pickle_import {
    uint32_t index;
    struct pickle_node node;
};

/* All that is needed to write splices into another pickle. */
struct pickle_splices {
    struct pickle_splice *at;
    struct pickle_import *imports; /* by index */
    uint64_t *used;                /* a bit for each index: some splice asks for it */
    size_t len, cap, n_imports, cap_imports, n_indices;
};

struct pickle {
    struct str text;
    struct buf decoded; /* texts that are written with escapes */
    struct pickle_node *nodes;
    uint32_t *chunks; /* {next, count, ids…} */
    struct pickle_global *globals;
    struct pickle_storage *storages;
    struct pickle_later *later;
    struct pickle_splices splices;
    size_t n_nodes, cap_nodes, n_chunks, cap_chunks, n_globals, cap_globals, n_storages,
        cap_storages, n_later, cap_later;
    unsigned protocol;
    size_t n_bytes; /* read, up to and with STOP */
    pickle_id root;
};

struct pickle_opts {
    const char *name; /* for messages: "part.pt: data.pkl" */
    bool has_more;    /* something may follow the pickle */
    bool is_legacy;   /* persistent ids as torch wrote them before 1.6 */
    struct buf *own;  /* the text's buffer, to be overwritten: only what nodes need of it is kept */
    /*
     * 0, or how many bytes of items are worth a splice. Then the graph is for who writes it again, and knows
     * what a SPLICE is: the text is needed once more.
     */
    size_t splice_least_bytes;
    struct buf
        *room; /* NULL, or where the text's buffer goes when the text is not needed any more */
};

/* ERR_DATA naming the byte and the reason. Borrows text. Release also after a failure. */
MUST_CHECK int pickle_read(struct pickle *pickle, struct str text, const struct pickle_opts *opts,
                           struct err *err);
void pickle_release(struct pickle *pickle);

static inline const struct pickle_node *pickle_node(const struct pickle *pickle, pickle_id id)
{
    return &pickle->nodes[id];
}

/* The bytes of TEXT, BYTES, BYTEARRAY and LONG. */
struct str pickle_bytes(const struct pickle *pickle, const struct pickle_node *node);

/* Walks items; of a DICT key, value, key, value… */
struct pickle_walk {
    uint32_t at, n_left; /* in the chunk at hand */
    uint32_t next;       /* chunk */
};
struct pickle_walk pickle_items(const struct pickle_node *node);
/* 0 when there are no more. */
pickle_id pickle_next(const struct pickle *pickle, struct pickle_walk *walk);
/* Of a dictionary's pairs the value of the last one with this text as its key, 0 if there is none. */
pickle_id pickle_get(const struct pickle *pickle, const struct pickle_node *pairs, struct str key);

/* Item `index` of a tuple, 0 if it has no so many. */
pickle_id pickle_item(const struct pickle *pickle, const struct pickle_node *tuple, uint32_t index);
bool pickle_to_u64(const struct pickle *pickle, pickle_id id, uint64_t *out);
const struct pickle_later *pickle_later(const struct pickle *pickle,
                                        const struct pickle_node *call);
/* What of its storage a tensor's call shows: elements `begin` to before `end`, none if they are equal. */
struct pickle_view {
    uint32_t storage;
    uint64_t begin, end, element_bytes;
};
/* False if the node makes no tensor, or one whose storage has been replaced. */
bool pickle_view_take(const struct pickle *pickle, const struct pickle_node *node,
                      struct pickle_view *out);

/* ---- making a graph: release it with pickle_release() ---- */

/* An empty one. */
void pickle_init(struct pickle *pickle);
pickle_id pickle_add(struct pickle *pickle, struct pickle_node node);
/* A callable or class; the names are borrowed. */
pickle_id pickle_add_global(struct pickle *pickle, struct str module, struct str name);
/* A text of its own; of BYTES and LONG too. */
pickle_id pickle_add_bytes(struct pickle *pickle, enum pickle_kind kind, struct str bytes);
/* Behind what a container holds; of a DICT key, value, key, value… */
void pickle_add_items(struct pickle *pickle, pickle_id container, const pickle_id *ids,
                      size_t n_ids);
/* What comes after a CALL or NEW; to be asked for again after each change to the graph. */
struct pickle_later *pickle_add_later(struct pickle *pickle, pickle_id call);
void pickle_add_pair(struct pickle *pickle, struct pickle_node *pairs, pickle_id key,
                     pickle_id value);
void pickle_add_state(struct pickle *pickle, struct pickle_node *states, pickle_id state);
