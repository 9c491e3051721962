/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads long lists without keeping their items. A batch of items is read like all other objects, so
 * that it is checked in the same way; then its nodes are dropped, and only its place in the pickle
 * is kept. If the batch put an object into the memo, the offset of the opcode that made the object
 * is kept: a text or a name can be made again from it, but of any other object only the kind is
 * known. Where that is not enough, the whole pickle is read again as nodes.
 */
#include <xxhash.h>

#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pickle/pickle_impl.h"

/* clang-format off */
/* The lengths do not include the bytes of BINUNICODE and LONG1, and the lines of GLOBAL. */
const uint8_t splice_op_bytes[256] = {
    ['('] = 1, ['q'] = 2, ['r'] = 5, ['h'] = 2, ['j'] = 5, ['N'] = 1, [0x88] = 1, [0x89] = 1,
    ['K'] = 2, ['M'] = 3, ['J'] = 5, [0x8a] = 2, ['G'] = 9, ['X'] = 5, ['c'] = 1,
    [']'] = 1, ['}'] = 1, [')'] = 1, ['t'] = 1, [0x85] = 1, [0x86] = 1, [0x87] = 1,
    ['a'] = 1, ['e'] = 1, ['s'] = 1, ['u'] = 1, ['R'] = 1, [0x81] = 1, ['b'] = 1,
};

/* By opcode, the kind of node that it makes and that a PUT may follow. */
const uint8_t splice_made_kinds[256] = {
    ['X'] = PICKLE_TEXT, ['c'] = PICKLE_GLOBAL, [']'] = PICKLE_LIST, ['}'] = PICKLE_DICT,
    ['t'] = PICKLE_TUPLE, [0x85] = PICKLE_TUPLE, [0x86] = PICKLE_TUPLE, [0x87] = PICKLE_TUPLE,
    ['R'] = PICKLE_CALL, [0x81] = PICKLE_NEW,
};
/* clang-format on */

static int repeat(struct pickle_vm *vm)
{
    vm->must_repeat = true;
    return ERR_DATA;
}

/* ---- the region ---- */

/*
 * The list must be the only object on the stack, or stand behind a text, which is its key in a
 * dictionary.
 */
void region_open(struct pickle_vm *vm)
{
    size_t height = vm->n_stack;
    const struct pickle *pickle = vm->pickle;
    if (height == 0 || pickle_node(pickle, vm->stack[height - 1])->kind != PICKLE_LIST)
        return;
    if (height > 1 && pickle_node(pickle, vm->stack[height - 2])->kind != PICKLE_TEXT)
        return;
    bool is_apart = vm->n_marks > 1 && vm->marks[vm->n_marks - 2] == height;
    if (is_apart) /* another mark separates the list from its items */
        return;
    struct pickle_region *region = &vm->region;
    region->is_open = true;
    region->has_opaque = false;
    region->list = vm->stack[height - 1];
    region->begin = vm->op_at;
    region->n_marks = vm->n_marks;
    region->n_nodes = pickle->n_nodes;
    region->n_chunks = pickle->n_chunks;
    region->n_later = pickle->n_later;
    region->n_fresh = 0;
    if (region->list != vm->list)
        vm->list_at = region->begin;
}

int region_leave(struct pickle_vm *vm)
{
    vm->region.is_open = false;
    return vm->region.has_opaque ? repeat(vm) : 0;
}

/* Forgets the shared nodes that were made since the region began. */
static void shared_forget(struct pickle_vm *vm)
{
    pickle_id least = (pickle_id)vm->region.n_nodes;
    pickle_id *const singles[] = {&vm->shared.none, &vm->shared.truths[0], &vm->shared.truths[1],
                                  &vm->shared.empty_tuple};
    for (size_t i = 0; i < countof(singles); i++)
        if (*singles[i] >= least)
            *singles[i] = 0;
    for (size_t i = 0; i < SHARED_INTS; i++)
        if (vm->shared.ints[i] >= least)
            vm->shared.ints[i] = 0;
}

static void region_forget(struct pickle_vm *vm)
{
    const struct pickle_region *region = &vm->region;
    for (size_t i = 0; i < region->n_fresh; i++)
        vm->memo[region->fresh[i].index] = MEMO_PAST | region->fresh[i].made_at;
    shared_forget(vm);
    vm->pickle->n_nodes = region->n_nodes;
    vm->pickle->n_chunks = region->n_chunks;
    vm->pickle->n_later = region->n_later;
}

/* Adds the region as a splice; consecutive batches of one list extend the same splice. */
static void splice_add(struct pickle_vm *vm, uint32_t n_items)
{
    struct pickle *pickle = vm->pickle;
    struct pickle_splices *splices = &pickle->splices;
    pickle_id list = vm->region.list;
    struct pickle_splice *last = splices->len > 0 ? &splices->at[splices->len - 1] : NULL;
    pickle->nodes[list].truth = true;
    pickle->nodes[list].count += n_items;
    if (last && list == vm->list && last->end == vm->region.begin) {
        last->end = (uint32_t)vm->at;
        pickle->nodes[pickle->n_nodes - 1].count += n_items;
        return;
    }
    GROW(splices->at, splices->len, splices->cap);
    ASSERT(splices->at);
    splices->at[splices->len] =
        (struct pickle_splice){.begin = (uint32_t)vm->region.begin, .end = (uint32_t)vm->at};
    pickle_id id = vm_node(vm, (struct pickle_node){.kind = PICKLE_SPLICE,
                                                    .count = n_items,
                                                    .splice = (uint32_t)splices->len++});
    items_add(pickle, &pickle->nodes[list], &id, 1);
    vm->list = list;
}

int region_close(struct pickle_vm *vm, size_t n_items, bool *is_spliced)
{
    bool is_worth = vm->at - vm->region.begin >= vm->opts->splice_least_bytes;
    *is_spliced = n_items > 0 && (is_worth || vm->region.list == vm->list);
    if (!*is_spliced)
        return region_leave(vm);
    vm->region.is_open = false;
    vm->region.has_opaque = false;
    region_forget(vm);
    splice_add(vm, (uint32_t)n_items);
    return 0;
}

int splices_stop(struct pickle_vm *vm)
{
    if (vm->pickle->splices.len > 0)
        return repeat(vm);
    vm->is_splicing = false;
    return region_leave(vm);
}

/* ---- the memo ---- */

int splice_put(struct pickle_vm *vm, uint32_t index)
{
    if (vm->memo[index] != 0)
        return splices_stop(vm);
    if (!vm->region.is_open)
        return 0;
    if (!splice_makes(vm, vm->made_at))
        return region_leave(vm);
    splice_fresh_add(vm, index, vm->made_at);
    return 0;
}

void splices_reserve(struct pickle_vm *vm)
{
    struct pickle_splices *splices = &vm->pickle->splices;
    size_t before = (splices->n_indices + MEMO_WORD_BITS - 1) / MEMO_WORD_BITS;
    size_t n_words = (vm->cap_memo + MEMO_WORD_BITS - 1) / MEMO_WORD_BITS;
    splices->used = xrealloc(splices->used, n_words * sizeof(*splices->used));
    memset(splices->used + before, 0, (n_words - before) * sizeof(*splices->used));
    splices->n_indices = vm->cap_memo;
}

/* The global that the opcode at `at` names. */
static uint32_t global_at(const struct pickle *pickle, size_t at)
{
    size_t low = 0, high = pickle->n_globals;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (pickle->globals[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* The node that the opcode at `at` made, or a node of the same kind without its parts. */
static struct pickle_node node_again(const struct pickle_vm *vm, size_t at)
{
    const char *op = vm->pickle->text.at + at;
    uint8_t kind = splice_made_kinds[(unsigned char)*op];
    if (kind == PICKLE_TEXT)
        return (struct pickle_node){.kind = kind, .at = at + 5, .count = le32_get(op + 1)};
    if (kind == PICKLE_GLOBAL)
        return (struct pickle_node){.kind = kind, .global = global_at(vm->pickle, at)};
    return (struct pickle_node){.kind = kind, .truth = true};
}

/*
 * Can the node be imported? That is so for a text, and for a name that GLOBAL can write;
 * pickle_write() refuses other names.
 */
static bool can_import(const struct pickle *pickle, const struct pickle_node *node)
{
    if (node->kind != PICKLE_GLOBAL)
        return node->kind == PICKLE_TEXT;
    const struct pickle_global *global = &pickle->globals[node->global];
    return !memchr(global->name.at, '.', global->name.len) &&
           !memchr(global->name.at, '\n', global->name.len) &&
           !memchr(global->module.at, '\n', global->module.len);
}

static void import_add(struct pickle_vm *vm, uint32_t index, const struct pickle_node *node)
{
    struct pickle_splices *splices = &vm->pickle->splices;
    GROW(splices->imports, splices->n_imports, splices->cap_imports);
    splices->imports[splices->n_imports++] = (struct pickle_import){index, *node};
}

/* Does the identity of this object matter: may it be in two places and still be one object? */
static bool has_identity(const struct pickle_node *node)
{
    return (node->kind >= PICKLE_TUPLE && node->kind <= PICKLE_NEW) ||
           node->kind == PICKLE_BYTEARRAY;
}

/*
 * Runs a GET outside of regions. An object within a splice must be in no other place. If an object
 * with parts is in two places, a spliced list within it would be too, so no more splices are made.
 */
static int outside_get(struct pickle_vm *vm, uint32_t index, const struct pickle_node *node)
{
    bool is_past = vm->memo[index] & MEMO_PAST;
    if (is_past && !can_import(vm->pickle, node))
        return repeat(vm);
    if (is_past)
        vm->memo[index] = vm_node(vm, *node);
    else if (has_identity(node) && splices_stop(vm) != 0)
        return ERR_DATA;
    vm_push(vm, vm->memo[index]);
    return 0;
}

/* Runs a GET in a region, of an object that was made before the list. */
static int import(struct pickle_vm *vm, uint32_t index, const struct pickle_node *node)
{
    if (!can_import(vm->pickle, node)) {
        int rc = vm->memo[index] & MEMO_PAST ? repeat(vm) : region_leave(vm);
        return rc ? rc : outside_get(vm, index, node);
    }
    import_add(vm, index, node);
    vm_push(vm, vm->memo[index] & MEMO_PAST ? vm_node(vm, *node) : vm->memo[index]);
    return 0;
}

int splice_get(struct pickle_vm *vm, uint32_t index)
{
    uint32_t met = vm->memo[index];
    size_t at = met & ~MEMO_PAST;
    struct pickle_region *region = &vm->region;
    if (region->is_open && splice_is_fresh(vm, met)) {
        splice_use(vm, index);
        vm_push(vm, met);
        return 0;
    }
    struct pickle_node node = met & MEMO_PAST ? node_again(vm, at) : *pickle_node(vm->pickle, met);
    if (!region->is_open)
        return outside_get(vm, index, &node);
    splice_use(vm, index);
    if (!(met & MEMO_PAST) || at < vm->list_at)
        return import(vm, index, &node);
    region->has_opaque = region->has_opaque || !can_import(vm->pickle, &node);
    vm->memo[index] = vm_node(vm, node);
    splice_fresh_add(vm, index, at);
    vm_push(vm, vm->memo[index]);
    return 0;
}

int opaque_refuse(struct pickle_vm *vm, const pickle_id *ids, size_t n_ids)
{
    for (size_t i = 0; i < n_ids && vm->region.has_opaque; i++) {
        const struct pickle_node *node = pickle_node(vm->pickle, ids[i]);
        if (node->truth && has_identity(node))
            return repeat(vm);
    }
    return 0;
}

/* ---- the end ---- */

static int import_order(const void *a, const void *b)
{
    const struct pickle_import *left = a, *right = b;
    return (left->index > right->index) - (left->index < right->index);
}

static void imports_sort(struct pickle_splices *splices)
{
    size_t n = 0;
    if (splices->n_imports > 0)
        qsort(splices->imports, splices->n_imports, sizeof(*splices->imports), import_order);
    for (size_t i = 0; i < splices->n_imports; i++)
        if (n == 0 || splices->imports[n - 1].index != splices->imports[i].index)
            splices->imports[n++] = splices->imports[i];
    splices->n_imports = n;
}

static bool has_bytes(const struct pickle_node *node)
{
    return node->kind >= PICKLE_LONG && node->kind <= PICKLE_BYTEARRAY &&
           node->kind != PICKLE_FLOAT;
}

/*
 * Collects the bytes of the text that are still needed in `kept`. Offsets of decoded texts begin at
 * the text's length, so they change when it does.
 */
struct keeping {
    const struct pickle *pickle;
    struct buf kept;
    size_t len; /* length of all bytes that will be kept */
};

typedef void node_fn(struct keeping *keeping, struct pickle_node *node);
typedef void str_fn(struct keeping *keeping, struct str *str);

static bool is_in_text(const struct pickle *pickle, struct str str)
{
    uintptr_t at = (uintptr_t)str.at, begin = (uintptr_t)pickle->text.at;
    return at >= begin && at < begin + pickle->text.len;
}

static void node_count(struct keeping *keeping, struct pickle_node *node)
{
    bool is_kept = has_bytes(node) && node->at < keeping->pickle->text.len;
    keeping->len += is_kept ? node->count : 0;
}

static void str_count(struct keeping *keeping, struct str *str)
{
    keeping->len += is_in_text(keeping->pickle, *str) ? str->len : 0;
}

static void node_keep(struct keeping *keeping, struct pickle_node *node)
{
    size_t text_len = keeping->pickle->text.len;
    if (!has_bytes(node))
        return;
    if (node->at >= text_len) {
        node->at = node->at - text_len + keeping->len;
        return;
    }
    struct str bytes = pickle_bytes(keeping->pickle, node);
    node->at = keeping->kept.len;
    buf_add_str(&keeping->kept, bytes);
}

static void str_keep(struct keeping *keeping, struct str *str)
{
    if (!is_in_text(keeping->pickle, *str))
        return;
    const char *to = keeping->kept.at + keeping->kept.len;
    buf_add_str(&keeping->kept, *str);
    str->at = to;
}

static void texts_each(struct keeping *keeping, struct pickle *pickle, node_fn *node, str_fn *str)
{
    for (size_t i = 0; i < pickle->n_nodes; i++)
        node(keeping, &pickle->nodes[i]);
    for (size_t i = 0; i < pickle->splices.n_imports; i++)
        node(keeping, &pickle->splices.imports[i].node);
    for (size_t i = 0; i < pickle->n_globals; i++) {
        str(keeping, &pickle->globals[i].module);
        str(keeping, &pickle->globals[i].name);
    }
    for (size_t i = 0; i < pickle->n_storages; i++) {
        struct pickle_storage *storage = &pickle->storages[i];
        str(keeping, &storage->module);
        str(keeping, &storage->type);
        str(keeping, &storage->key);
        str(keeping, &storage->location);
    }
}

/*
 * Replaces the text by the bytes that nodes need. The text was not overwritten while it was read,
 * because splices were hashed from it.
 */
static void text_keep(struct pickle *pickle, struct buf *own, struct buf *room)
{
    struct keeping keeping = {.pickle = pickle};
    texts_each(&keeping, pickle, node_count, str_count);
    buf_reserve(&keeping.kept, keeping.len);
    texts_each(&keeping, pickle, node_keep, str_keep);
    ASSERT(keeping.kept.len == keeping.len);
    if (room)
        *room = (struct buf){.at = own->at, .cap = own->cap};
    else
        buf_release(own);
    *own = keeping.kept;
    pickle->text = buf_str(own);
}

void splices_finish(struct pickle_vm *vm)
{
    struct pickle *pickle = vm->pickle;
    struct pickle_splices *splices = &pickle->splices;
    imports_sort(splices);
    for (size_t i = 0; i < splices->len; i++) {
        struct pickle_splice *splice = &splices->at[i];
        splice->hash = XXH3_64bits(pickle->text.at + splice->begin, splice->end - splice->begin);
    }
    if (vm->opts->own)
        text_keep(pickle, vm->opts->own, vm->opts->room);
}
