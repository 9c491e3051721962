/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine that reads a pickle: a stack of nodes with marks, and a memo.
 */
#pragma once

#include "tensor/grow.h"
#include "tensor/pickle/pickle.h"
#include "tensor/pickle/pickle_callable.h"

enum {
    SHARED_INTS = 1024, /* a power of two */
    MEMO_WORD_BITS = 64
};

struct pickle_op;

/* An index of the memo at which the open region put a node. */
struct fresh {
    uint32_t index, made_at;
};

/* A batch of a list's items that may become a splice; its nodes are then dropped. */
struct pickle_region {
    bool is_open;
    bool has_opaque; /* the batch uses an object of an earlier splice, whose parts were dropped */
    pickle_id list;
    size_t begin, n_marks; /* offset of its MARK, and the number of marks with it */
    size_t n_nodes, n_chunks, n_later;
    struct fresh *fresh;
    size_t n_fresh, cap_fresh;
};

/* Nodes that equal objects share; 0: no node yet. */
struct shared_nodes {
    pickle_id none, truths[2], empty_tuple, ints[SHARED_INTS];
};

struct pickle_vm {
    struct pickle *pickle;
    const struct pickle_opts *opts;
    struct err *err;
    pickle_id *stack, *memo;
    uint32_t *marks; /* heights of the stack at the marks */
    size_t n_stack, cap_stack, n_marks, cap_marks, cap_memo;
    uint32_t *slots;     /* a hash table of storages by number: index + 1 */
    size_t cap_slots;    /* a power of two */
    uint32_t n_memoized; /* the index that the next MEMOIZE uses */
    size_t at, op_at;    /* offsets in the text: behind the operand, and of the opcode */
    const struct pickle_op *op;
    uint64_t number; /* the opcode's operand */
    struct str operand;
    size_t made_at;   /* the opcode before this one */
    bool is_splicing; /* splices may be made */
    bool must_repeat; /* splices do not work for this pickle: read it again as nodes only */
    bool keeps_text;  /* the text is not overwritten while reading */
    struct pickle_region region;
    pickle_id list; /* the last list that has a splice */
    size_t list_at; /* where its first splice begins */
    size_t n_kept;  /* bytes of the text that are still needed, moved to its beginning */
    struct shared_nodes shared;
    bool is_done;
};

enum pickle_operand {
    NO_OPERAND,
    UINT_1,
    UINT_2,
    INT_4, /* a signed number of 4 bytes */
    UINT_4,
    UINT_8,
    DOUBLE_8,
    LINE,      /* bytes up to a newline */
    TWO_LINES, /* two lines, with the newline between them */
    COUNTED_1, /* a count of one byte, and that many bytes */
    COUNTED_4,
    COUNTED_4_SIGNED,
    COUNTED_8
};

struct pickle_op {
    const char *name;
    enum pickle_operand operand;
    int (*run)(struct pickle_vm *vm);
    uint64_t argument; /* for run(), which finds it in vm->number if the opcode has no operand */
};

/* Indexed by opcode; an unknown opcode has no name. */
extern const struct pickle_op pickle_ops[256];

/* Fails with ERR_DATA; the message has the pickle's name, the byte and the opcode. */
int vm_fail(struct pickle_vm *vm, const char *what);
pickle_id vm_node(struct pickle_vm *vm, struct pickle_node node);
int vm_underflow(struct pickle_vm *vm);
/* Keeps bytes of the operand. Returns where they are after that. */
struct str vm_keep(struct pickle_vm *vm, struct str bytes);
/* Pops everything above the last mark, and the mark. The ids point into the stack and are valid
 * until the next push. */
int vm_mark_take(struct pickle_vm *vm, pickle_id **ids, size_t *n_ids);
/* Puts the topmost object into the memo at this index. */
int vm_memo_put(struct pickle_vm *vm, uint64_t index);
/* Sets all items of a tuple or frozenset; none can be added later. */
void items_set(struct pickle *pickle, struct pickle_node *container, const pickle_id *ids,
               size_t n_ids);
/* Appends items to those of the container. */
void items_add(struct pickle *pickle, struct pickle_node *container, const pickle_id *ids,
               size_t n_ids);

/* ---- splices: pickle_splice.c ---- */

/*
 * Called behind a MARK: opens a region if the batch of list items that follows may become a splice.
 */
void region_open(struct pickle_vm *vm);
/* Is the topmost MARK the one that began the region? */
static inline bool region_ends(const struct pickle_vm *vm)
{
    return vm->region.is_open && vm->n_marks == vm->region.n_marks;
}
/*
 * Closes the region without a splice: its items stay nodes. ERR_DATA if that is not possible; the
 * whole pickle must then be read again.
 */
int region_leave(struct pickle_vm *vm);
/*
 * Called at the region's APPENDS. *is_spliced: the items became a splice; if they did not, the
 * caller appends them.
 */
int region_close(struct pickle_vm *vm, size_t n_items, bool *is_spliced);
/* Makes no further splices; ERR_DATA if there are splices already. */
int splices_stop(struct pickle_vm *vm);
/* Makes room for a bit for each index of the memo. */
void splices_reserve(struct pickle_vm *vm);
int splice_put(struct pickle_vm *vm, uint32_t index);
int splice_get(struct pickle_vm *vm, uint32_t index);
/* ERR_DATA if one of these nodes stands for an object whose parts were dropped. */
int opaque_refuse(struct pickle_vm *vm, const pickle_id *ids, size_t n_ids);
/*
 * The lengths of the opcodes that may be copied into another pickle, some of them with another memo
 * index; 0 for all others.
 */
extern const uint8_t splice_op_bytes[256];
/* By opcode, the kind of node that it makes and that a PUT may follow; 0 for all others. */
extern const uint8_t splice_made_kinds[256];
/* Runs opcodes of the region as long as they are among those that records usually consist of. */
void region_run(struct pickle_vm *vm);
void splices_finish(struct pickle_vm *vm);

static inline void vm_push(struct pickle_vm *vm, pickle_id id)
{
    GROW(vm->stack, vm->n_stack, vm->cap_stack);
    vm->stack[vm->n_stack++] = id;
}

static inline pickle_id vm_pop(struct pickle_vm *vm)
{
    return vm->stack[--vm->n_stack];
}

/* Are there `n` objects above the last mark? */
static inline bool vm_has(const struct pickle_vm *vm, size_t n)
{
    size_t floor = vm->n_marks > 0 ? vm->marks[vm->n_marks - 1] : 0;
    return vm->n_stack - floor >= n;
}

#define MEMO_PAST (1U << 31) /* in the memo: the offset of the opcode that made a dropped node */

/* Is this entry of the memo a node of the region? */
static inline bool splice_is_fresh(const struct pickle_vm *vm, uint32_t entry)
{
    return !(entry & MEMO_PAST) && entry >= vm->region.n_nodes;
}

static inline void splice_use(struct pickle_vm *vm, uint32_t index)
{
    vm->pickle->splices.used[index / MEMO_WORD_BITS] |= 1UL << index % MEMO_WORD_BITS;
}

static inline bool splice_makes(const struct pickle_vm *vm, size_t at)
{
    return splice_made_kinds[(unsigned char)vm->pickle->text.at[at]] != 0;
}

static inline void splice_fresh_add(struct pickle_vm *vm, uint32_t index, size_t made_at)
{
    struct pickle_region *region = &vm->region;
    GROW(region->fresh, region->n_fresh, region->cap_fresh);
    region->fresh[region->n_fresh++] = (struct fresh){index, (uint32_t)made_at};
}

/*
 * The slot of the node that equal numbers share. If different numbers have one slot, it holds the
 * last of them.
 */
static inline pickle_id *vm_shared_int(struct pickle_vm *vm, int64_t value)
{
    return &vm->shared.ints[(uint64_t)value * 0x9e3779b97f4a7c15 >> 32 & (SHARED_INTS - 1)];
}

/* Makes room for `more` bytes of decoded text. */
void decoded_reserve(struct pickle *pickle, size_t more);
/*
 * Decode `'…'` of protocol 0, and the raw-unicode-escape of 'V'. Return a node of TEXT; 0 if
 * malformed.
 */
pickle_id vm_text_quoted(struct pickle_vm *vm, struct str text);
pickle_id vm_text_escaped(struct pickle_vm *vm, struct str text);
/* Is this UTF-8, as Python reads it with "surrogatepass"? */
bool text_is_python(struct str text);
/* Adds a code point as UTF-8; surrogates are allowed. */
void text_point_add(struct buf *out, uint32_t point);

/* Makes a node of the tuple ('storage', class, key, location, elements); 0 after an error. */
pickle_id vm_storage(struct pickle_vm *vm, pickle_id tuple);
/*
 * ERR_DATA if a call makes a view that is not within its storage; 0 for a call that makes no
 * tensor.
 */
int vm_tensor_check(struct pickle_vm *vm, const struct pickle_callable *callable, pickle_id args);
