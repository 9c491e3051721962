/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a pickle as data: nothing in it is ever called. What a Python program would build becomes a
 * graph of nodes. A call is a node that names its callable and its arguments, and an object that is
 * referred to several times is one node. Protocols 0 to 5. Sources: CPython's pickletools, and what
 * torch.save emits.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,  /* a number that fits 64 bits */
    PICKLE_LONG, /* little-endian two's complement, as bytes */
    PICKLE_FLOAT,
    PICKLE_TEXT, /* UTF-8, lone surrogates allowed */
    PICKLE_BYTES,
    PICKLE_BYTEARRAY,
    PICKLE_GLOBAL, /* a callable or a class, by its name */
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT, /* pairs in the order they were set; of equal keys the last counts */
    PICKLE_SET,
    PICKLE_FROZENSET,
    PICKLE_CALL,    /* REDUCE: callable(*args) */
    PICKLE_NEW,     /* NEWOBJ: class.__new__(class, *args) */
    PICKLE_STORAGE, /* a persistent id of torch */
    PICKLE_SPLICE,  /* items of a list, kept as a piece of the pickle and not as nodes */
    PICKLE_OF       /* stands for a node of another graph; only in a graph that was made or
                     * changed here */
};

typedef uint32_t pickle_id; /* number of a node; 0: no node */

/*
 * 16 bytes: a pickle of 200 MB of records has five million nodes. Equal numbers, None, booleans and
 * empty tuples of a file may share a node, which makes no difference to a Python program.
 */
struct pickle_node {
    uint8_t kind;   /* enum pickle_kind */
    bool truth;     /* BOOL: the value; LIST: some of its items are in a SPLICE */
    uint32_t count; /* items (splices' too), pairs or bytes; CALL, NEW: index into `later` or 0 */
    union {
        int64_t integer;
        double real;
        uint64_t at;     /* TEXT, BYTES, BYTEARRAY, LONG: offset of the bytes */
        uint32_t global; /* index into globals */
        uint32_t storage;
        uint32_t splice;
        struct {
            uint32_t first, last;
        } chunks; /* of the items; last == 0: the chunk `first` has all of them */
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
    const struct pickle_callable *known; /* NULL: not a callable that muster knows */
    uint64_t at;                         /* offset of the first opcode that names it */
};

/* Elements of one type; tensors are views of them. */
struct pickle_storage {
    struct str module, type;  /* "torch", "FloatStorage" */
    struct str key, location; /* "0", "cuda:1" */
    uint64_t number;          /* the key as a number */
    uint64_t n_elements, element_bytes;
};

/* What is set in the result of a call after it: APPEND(S), SETITEM(S), BUILD. */
struct pickle_later {
    struct pickle_node items, pairs, states; /* LIST, DICT, LIST */
};

/* Consecutive batches of a list's items, from the first MARK to behind the last APPENDS. */
struct pickle_splice {
    uint32_t begin, end; /* offsets in the pickle as it was read */
    uint64_t hash;       /* XXH3 of these bytes: they must be the same when they are read again */
};

/* A text or a name that splices get from the memo, although they did not put it there. */
struct pickle_import {
    uint32_t index;
    struct pickle_node node;
};

/* What is needed to write splices into another pickle. */
struct pickle_splices {
    struct pickle_splice *at;
    struct pickle_import *imports; /* sorted by index */
    uint64_t *used;                /* a bit for each index of the memo: a splice gets it */
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
    size_t n_bytes; /* bytes read, up to and with STOP */
    pickle_id root;
};

struct pickle_opts {
    const char *name; /* for messages: "part.pt: data.pkl" */
    bool has_more;    /* other bytes may follow the pickle */
    bool is_legacy;   /* persistent ids as torch wrote them before 1.6 */
    struct buf *own;  /* NULL, or the text's buffer: overwritten by the bytes that nodes need */
    /*
     * The fewest bytes of items that become a splice; 0: no splices. Only a caller that writes the
     * graph again may ask for splices, because the bytes of a SPLICE are then read from the file
     * once more.
     */
    size_t splice_least_bytes;
    struct buf *room; /* NULL, or takes over the text's buffer when the text is no longer needed */
};

/*
 * Reads a pickle; `text` is borrowed. ERR_DATA naming the byte and the reason. Call
 * pickle_release() after a failure too.
 */
MUST_CHECK int pickle_read(struct pickle *pickle, struct str text, const struct pickle_opts *opts,
                           struct err *err);
void pickle_release(struct pickle *pickle);

static inline const struct pickle_node *pickle_node(const struct pickle *pickle, pickle_id id)
{
    return &pickle->nodes[id];
}

/* The bytes of TEXT, BYTES, BYTEARRAY and LONG. */
struct str pickle_bytes(const struct pickle *pickle, const struct pickle_node *node);

/* Walks through the items of a node. The items of a DICT are key, value, key, value… */
struct pickle_walk {
    uint32_t at, n_left; /* place, and ids left, in the current chunk */
    uint32_t next;       /* chunk */
};
struct pickle_walk pickle_items(const struct pickle_node *node);
/* The next item; 0 at the end. */
pickle_id pickle_next(const struct pickle *pickle, struct pickle_walk *walk);
/* The value of the last pair that has this text as its key; 0 if there is no such pair. */
pickle_id pickle_get(const struct pickle *pickle, const struct pickle_node *pairs, struct str key);

/* Item `index` of a tuple; 0 if the tuple has fewer items. */
pickle_id pickle_item(const struct pickle *pickle, const struct pickle_node *tuple, uint32_t index);
bool pickle_to_u64(const struct pickle *pickle, pickle_id id, uint64_t *out);
const struct pickle_later *pickle_later(const struct pickle *pickle,
                                        const struct pickle_node *call);
/* The elements of its storage that a tensor spans: [begin, end), which may be empty. */
struct pickle_view {
    uint32_t storage;
    uint64_t begin, end, element_bytes;
};
/* False if the node makes no tensor, or if the tensor's storage has been replaced. */
bool pickle_view_take(const struct pickle *pickle, const struct pickle_node *node,
                      struct pickle_view *out);

/* ---- making a graph: release it with pickle_release() ---- */

/* Begins an empty graph. */
void pickle_init(struct pickle *pickle);
pickle_id pickle_add(struct pickle *pickle, struct pickle_node node);
/* Adds a callable or class; the names are borrowed. */
pickle_id pickle_add_global(struct pickle *pickle, struct str module, struct str name);
/* Adds a node of TEXT, BYTES or LONG with a copy of these bytes. */
pickle_id pickle_add_bytes(struct pickle *pickle, enum pickle_kind kind, struct str bytes);
/* Appends items to a container; the items of a DICT are key, value, key, value… */
void pickle_add_items(struct pickle *pickle, pickle_id container, const pickle_id *ids,
                      size_t n_ids);
/*
 * The items, pairs and states that are set in the result of a CALL or NEW. The pointer is valid
 * until the next change to the graph.
 */
struct pickle_later *pickle_add_later(struct pickle *pickle, pickle_id call);
void pickle_add_pair(struct pickle *pickle, struct pickle_node *pairs, pickle_id key,
                     pickle_id value);
void pickle_add_state(struct pickle *pickle, struct pickle_node *states, pickle_id state);
