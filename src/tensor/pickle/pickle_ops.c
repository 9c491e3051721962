/* SPDX-License-Identifier: Apache-2.0
 *
 * The opcodes. Each is a line of a table: its operand, and its effect on the stack.
 */
#include "base/parse.h"
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pickle/pickle_impl.h"

enum {
    NAME_MAX_BYTES = 1024,
    PROTOCOL_MAX = 5
};

static int push_node(struct pickle_vm *vm, struct pickle_node node)
{
    vm_push(vm, vm_node(vm, node));
    return 0;
}

/* ---- the stack ---- */

static int op_mark(struct pickle_vm *vm)
{
    GROW(vm->marks, vm->n_marks, vm->cap_marks);
    vm->marks[vm->n_marks++] = (uint32_t)vm->n_stack;
    if (vm->is_splicing && !vm->region.is_open)
        region_open(vm);
    return 0;
}

static int op_pop(struct pickle_vm *vm)
{
    if (!vm_has(vm, 1)) {
        if (vm->n_marks == 0)
            return vm_underflow(vm);
        vm->n_marks--;
        return 0;
    }
    vm->n_stack--;
    return 0;
}

static int op_pop_mark(struct pickle_vm *vm)
{
    pickle_id *ids;
    size_t n_ids;
    return vm_mark_take(vm, &ids, &n_ids);
}

static int op_dup(struct pickle_vm *vm)
{
    if (!vm_has(vm, 1))
        return vm_underflow(vm);
    if (vm->is_splicing && splices_stop(vm) != 0)
        return ERR_DATA;
    vm_push(vm, vm->stack[vm->n_stack - 1]);
    return 0;
}

/* ---- the memo ---- */

static int op_put(struct pickle_vm *vm)
{
    return vm_memo_put(vm, vm->number);
}

static int op_memoize(struct pickle_vm *vm)
{
    return vm_memo_put(vm, vm->n_memoized++);
}

static int op_get(struct pickle_vm *vm)
{
    if (vm->number >= vm->cap_memo || vm->memo[vm->number] == 0)
        return vm_fail(vm, "an object of the memo that is not there");
    if (vm->is_splicing)
        return splice_get(vm, (uint32_t)vm->number);
    vm_push(vm, vm->memo[vm->number]);
    return 0;
}

static int line_to_number(struct pickle_vm *vm)
{
    return u64_parse(vm->operand, 0, UINT64_MAX, &vm->number, NULL) == 0
               ? 0
               : vm_fail(vm, "what should be a number is none");
}

static int op_put_text(struct pickle_vm *vm)
{
    int rc = line_to_number(vm);
    return rc ? rc : op_put(vm);
}

static int op_get_text(struct pickle_vm *vm)
{
    int rc = line_to_number(vm);
    return rc ? rc : op_get(vm);
}

/* ---- values ---- */

/*
 * Half of the objects in records and tensors are None, booleans and the like; *shared is the one
 * node for all equal values.
 */
static int push_shared(struct pickle_vm *vm, pickle_id *shared, struct pickle_node node)
{
    if (*shared == 0)
        *shared = vm_node(vm, node);
    vm_push(vm, *shared);
    return 0;
}

static int op_none(struct pickle_vm *vm)
{
    return push_shared(vm, &vm->shared.none, (struct pickle_node){.kind = PICKLE_NONE});
}

static int op_bool(struct pickle_vm *vm)
{
    bool truth = vm->number != 0;
    return push_shared(vm, &vm->shared.truths[truth],
                       (struct pickle_node){.kind = PICKLE_BOOL, .truth = truth});
}

static int op_int(struct pickle_vm *vm)
{
    int64_t value = (int64_t)vm->number;
    pickle_id *shared = vm_shared_int(vm, value);
    if (*shared != 0 && pickle_node(vm->pickle, *shared)->integer != value)
        *shared = 0;
    return push_shared(vm, shared, (struct pickle_node){.kind = PICKLE_INT, .integer = value});
}

static int op_float(struct pickle_vm *vm)
{
    struct pickle_node node = {.kind = PICKLE_FLOAT};
    memcpy(&node.real, &vm->number, sizeof(node.real));
    return push_node(vm, node);
}

static int bytes_push(struct pickle_vm *vm, enum pickle_kind kind)
{
    if (vm->operand.len > UINT32_MAX)
        return vm_fail(vm, "more than 4 GiB in one object");
    struct str kept = vm_keep(vm, vm->operand);
    return push_node(vm, (struct pickle_node){.kind = (uint8_t)kind,
                                              .at = (uint64_t)(kept.at - vm->pickle->text.at),
                                              .count = (uint32_t)kept.len});
}

/* Does the last byte only repeat the sign bit of the byte before it? */
static bool is_longer_than_needed(struct str digits)
{
    unsigned char last = (unsigned char)digits.at[digits.len - 1];
    bool is_below = (digits.at[digits.len - 2] & 0x80) != 0;
    return last == (is_below ? 0xff : 0);
}

/* The operand is little-endian two's complement; a number that fits into 8 bytes becomes an INT. */
static int op_long(struct pickle_vm *vm)
{
    struct str digits = vm->operand;
    while (digits.len > 8 && is_longer_than_needed(digits))
        digits.len--;
    vm->operand = digits;
    if (digits.len > 8)
        return bytes_push(vm, PICKLE_LONG);
    uint64_t value = le_get(digits.at, digits.len);
    unsigned unused_bits = (unsigned)(64 - 8 * digits.len);
    if (digits.len > 0 && unused_bits > 0)
        value = (uint64_t)((int64_t)(value << unused_bits) >> unused_bits);
    vm->number = value;
    return op_int(vm);
}

static int op_text(struct pickle_vm *vm)
{
    if (!text_is_python(vm->operand))
        return vm_fail(vm, "a text that is not UTF-8");
    return bytes_push(vm, PICKLE_TEXT);
}

static int op_bytes(struct pickle_vm *vm)
{
    return bytes_push(vm, PICKLE_BYTES);
}

static int op_bytearray(struct pickle_vm *vm)
{
    return bytes_push(vm, PICKLE_BYTEARRAY);
}

static int decoded_push(struct pickle_vm *vm, pickle_id id)
{
    if (id == 0)
        return vm_fail(vm, "a text with a malformed escape");
    vm_push(vm, id);
    return 0;
}

static int op_quoted_text(struct pickle_vm *vm)
{
    return decoded_push(vm, vm_text_quoted(vm, vm->operand));
}

static int op_escaped_text(struct pickle_vm *vm)
{
    return decoded_push(vm, vm_text_escaped(vm, vm->operand));
}

/* "00" and "01" are False and True; a long ends with L. */
static int op_int_text(struct pickle_vm *vm)
{
    struct str digits = vm->operand;
    if (str_equal(digits, STR("00")) || str_equal(digits, STR("01"))) {
        vm->number = digits.at[1] == '1';
        return op_bool(vm);
    }
    if (str_ends_with(digits, STR("L")))
        digits.len--;
    bool is_negative = str_starts_with(digits, STR("-"));
    struct str size = {digits.at + is_negative, digits.len - is_negative};
    if (u64_parse(size, 0, INT64_MAX, &vm->number, NULL) != 0)
        return vm_fail(vm, "a decimal number that does not fit 64 bits");
    vm->number = is_negative ? -vm->number : vm->number;
    return op_int(vm);
}

static int op_float_text(struct pickle_vm *vm)
{
    char text[64], *end;
    size_t len = MIN(vm->operand.len, sizeof(text) - 1);
    memcpy(text, vm->operand.at, len);
    text[len] = '\0';
    double value = strtod(text, &end);
    if (len == 0 || *end != '\0' || len < vm->operand.len)
        return vm_fail(vm, "what should be a number is none");
    memcpy(&vm->number, &value, sizeof(value));
    return op_float(vm);
}

/* ---- containers ---- */

static bool is_key(const struct pickle_node *node)
{
    return node->kind != PICKLE_LIST && node->kind != PICKLE_DICT && node->kind != PICKLE_SET &&
           node->kind != PICKLE_BYTEARRAY;
}

static int keys_check(struct pickle_vm *vm, const pickle_id *ids, size_t n_ids, size_t step)
{
    for (size_t i = 0; i < n_ids; i += step)
        if (!is_key(pickle_node(vm->pickle, ids[i])))
            return vm_fail(vm, "a key that can change");
    return 0;
}

static int container_push(struct pickle_vm *vm, enum pickle_kind kind, const pickle_id *ids,
                          size_t n_ids)
{
    struct pickle_node node = {.kind = (uint8_t)kind};
    bool has_pairs = kind == PICKLE_DICT;
    if (has_pairs && n_ids % 2 != 0)
        return vm_fail(vm, "a key without a value");
    if ((has_pairs || kind == PICKLE_FROZENSET) &&
        keys_check(vm, ids, n_ids, has_pairs ? 2 : 1) != 0)
        return ERR_DATA;
    node.count = (uint32_t)(has_pairs ? n_ids / 2 : n_ids);
    if (kind == PICKLE_TUPLE || kind == PICKLE_FROZENSET)
        items_set(vm->pickle, &node, ids, n_ids);
    else
        items_add(vm->pickle, &node, ids, n_ids);
    return push_node(vm, node);
}

static int op_empty(struct pickle_vm *vm)
{
    struct pickle_node node = {.kind = (uint8_t)vm->number};
    return node.kind == PICKLE_TUPLE ? push_shared(vm, &vm->shared.empty_tuple, node)
                                     : push_node(vm, node);
}

static int op_from_mark(struct pickle_vm *vm)
{
    pickle_id *ids;
    size_t n_ids;
    int rc = vm_mark_take(vm, &ids, &n_ids);
    return rc ? rc : container_push(vm, (enum pickle_kind)vm->number, ids, n_ids);
}

static int op_tuple(struct pickle_vm *vm)
{
    size_t n_ids = (size_t)vm->number;
    if (!vm_has(vm, n_ids))
        return vm_underflow(vm);
    vm->n_stack -= n_ids;
    return container_push(vm, PICKLE_TUPLE, vm->stack + vm->n_stack, n_ids);
}

static bool is_call(const struct pickle_node *node)
{
    return node->kind == PICKLE_CALL || node->kind == PICKLE_NEW;
}

static const struct pickle_callable *callable_of(const struct pickle *pickle,
                                                 const struct pickle_node *call)
{
    const struct pickle_node *callee = pickle_node(pickle, call->call.callee);
    return callee->kind == PICKLE_GLOBAL ? pickle->globals[callee->global].known : NULL;
}

/*
 * The node that takes items of this kind: the container itself, or a member of `later` of the call
 * that makes the container; NULL if the items cannot be set there.
 */
static struct pickle_node *target_of(struct pickle_vm *vm, pickle_id id, enum pickle_kind kind)
{
    struct pickle_node *node = &vm->pickle->nodes[id];
    if (node->kind == kind)
        return node;
    if (!is_call(node))
        return NULL;
    const struct pickle_callable *callable = callable_of(vm->pickle, node);
    bool takes_pairs = !callable || callable->result == RESULT_DICT;
    if (callable && !(kind == PICKLE_DICT && takes_pairs))
        return NULL;
    struct pickle_later *later = pickle_add_later(vm->pickle, id);
    return kind == PICKLE_DICT ? &later->pairs : &later->items;
}

static int append(struct pickle_vm *vm, pickle_id id, enum pickle_kind kind, const pickle_id *ids,
                  size_t n_ids)
{
    if (opaque_refuse(vm, &id, 1) != 0)
        return ERR_DATA;
    struct pickle_node *target = target_of(vm, id, kind);
    if (!target)
        return vm_fail(vm, "this kind of object takes no such items");
    items_add(vm->pickle, target, ids, n_ids);
    target->count += (uint32_t)(kind == PICKLE_DICT ? n_ids / 2 : n_ids);
    return 0;
}

/* Runs the APPENDS of a region, which may become a splice. */
static int batch_end(struct pickle_vm *vm, bool *is_spliced)
{
    size_t height = vm->marks[vm->n_marks - 1];
    int rc = region_close(vm, vm->n_stack - height, is_spliced);
    if (rc || !*is_spliced)
        return rc;
    vm->n_marks--;
    vm->n_stack = height;
    return 0;
}

/* Runs APPENDS, SETITEMS and ADDITEMS; the operand is the kind. */
static int op_add_from_mark(struct pickle_vm *vm)
{
    enum pickle_kind kind = (enum pickle_kind)vm->number;
    pickle_id *ids;
    size_t n_ids;
    bool is_spliced = false;
    int rc = kind == PICKLE_LIST && region_ends(vm) ? batch_end(vm, &is_spliced) : 0;
    if (rc || is_spliced)
        return rc;
    rc = vm_mark_take(vm, &ids, &n_ids);
    if (rc == 0 && kind == PICKLE_DICT && n_ids % 2 != 0)
        rc = vm_fail(vm, "a key without a value");
    if (rc == 0 && kind != PICKLE_LIST)
        rc = keys_check(vm, ids, n_ids, kind == PICKLE_DICT ? 2 : 1);
    if (rc == 0 && !vm_has(vm, 1))
        rc = vm_underflow(vm);
    return rc ? rc : append(vm, vm->stack[vm->n_stack - 1], kind, ids, n_ids);
}

static int op_append(struct pickle_vm *vm)
{
    if (!vm_has(vm, 2))
        return vm_underflow(vm);
    vm->n_stack--;
    return append(vm, vm->stack[vm->n_stack - 1], PICKLE_LIST, &vm->stack[vm->n_stack], 1);
}

static int op_setitem(struct pickle_vm *vm)
{
    if (!vm_has(vm, 3))
        return vm_underflow(vm);
    vm->n_stack -= 2;
    const pickle_id *pair = &vm->stack[vm->n_stack];
    int rc = keys_check(vm, pair, 1, 1);
    return rc ? rc : append(vm, pair[-1], PICKLE_DICT, pair, 2);
}

/* ---- names and calls ---- */

static int global_push(struct pickle_vm *vm, struct str module, struct str name)
{
    struct pickle *pickle = vm->pickle;
    if (module.len == 0 || name.len == 0 || module.len + name.len > NAME_MAX_BYTES ||
        !text_is_python(module) || !text_is_python(name))
        return vm_fail(vm, "a name that is none");
    if (vm->region.is_open && memchr(name.at, '.', name.len) && region_leave(vm) != 0)
        return ERR_DATA; /* a name with a dot cannot be written with GLOBAL */
    GROW(pickle->globals, pickle->n_globals, pickle->cap_globals);
    pickle->globals[pickle->n_globals] =
        (struct pickle_global){.module = module,
                               .name = name,
                               .known = pickle_callable_find(module, name),
                               .at = vm->op_at};
    return push_node(
        vm, (struct pickle_node){.kind = PICKLE_GLOBAL, .global = (uint32_t)pickle->n_globals++});
}

/* The operand is "module\nname". */
static int op_global(struct pickle_vm *vm)
{
    struct str module, rest = vm_keep(vm, vm->operand);
    str_next(&rest, '\n', &module);
    return global_push(vm, module, rest);
}

static int op_stack_global(struct pickle_vm *vm)
{
    if (!vm_has(vm, 2))
        return vm_underflow(vm);
    const struct pickle_node *name = pickle_node(vm->pickle, vm_pop(vm));
    const struct pickle_node *module = pickle_node(vm->pickle, vm_pop(vm));
    if (name->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT)
        return vm_fail(vm, "a name that is none");
    return global_push(vm, pickle_bytes(vm->pickle, module), pickle_bytes(vm->pickle, name));
}

/*
 * True if the parts of an argument were dropped with a splice. A call such as a tensor's then
 * cannot be checked.
 */
static bool arguments_opaque(struct pickle_vm *vm, pickle_id args)
{
    if (!vm->region.has_opaque)
        return false;
    struct pickle_walk walk = pickle_items(pickle_node(vm->pickle, args));
    int rc = opaque_refuse(vm, &args, 1);
    for (pickle_id id; rc == 0 && (id = pickle_next(vm->pickle, &walk)) != 0;)
        rc = opaque_refuse(vm, &id, 1);
    return rc != 0;
}

static int call_push(struct pickle_vm *vm, enum pickle_kind kind, pickle_id callee, pickle_id args)
{
    const struct pickle_node *function = pickle_node(vm->pickle, callee);
    if (function->kind != PICKLE_GLOBAL)
        return vm_fail(vm, "a call of what is no name");
    if (pickle_node(vm->pickle, args)->kind != PICKLE_TUPLE)
        return vm_fail(vm, "a call without a tuple of arguments");
    if (arguments_opaque(vm, args))
        return ERR_DATA;
    int rc = vm_tensor_check(vm, vm->pickle->globals[function->global].known, args);
    return rc ? rc
              : push_node(vm, (struct pickle_node){.kind = (uint8_t)kind, .call = {callee, args}});
}

static int op_call(struct pickle_vm *vm)
{
    if (!vm_has(vm, 2))
        return vm_underflow(vm);
    pickle_id args = vm_pop(vm), callee = vm_pop(vm);
    return call_push(vm, (enum pickle_kind)vm->number, callee, args);
}

static int op_python_2(struct pickle_vm *vm)
{
    return vm_fail(vm, "an object of a class of Python 2, which torch.save never wrote");
}

static int op_build(struct pickle_vm *vm)
{
    if (!vm_has(vm, 2))
        return vm_underflow(vm);
    pickle_id state = vm_pop(vm), id = vm->stack[vm->n_stack - 1];
    if (opaque_refuse(vm, &id, 1) != 0)
        return ERR_DATA;
    if (!is_call(pickle_node(vm->pickle, id)))
        return vm_fail(vm, "this kind of object has no state");
    struct pickle_later *later = pickle_add_later(vm->pickle, id);
    pickle_add_state(vm->pickle, &later->states, state);
    return 0;
}

static int op_persistent(struct pickle_vm *vm)
{
    if (!vm_has(vm, 1))
        return vm_underflow(vm);
    pickle_id storage = vm_storage(vm, vm_pop(vm));
    if (storage == 0)
        return ERR_DATA;
    vm_push(vm, storage);
    return 0;
}

/* ---- the frame of it all ---- */

static int op_proto(struct pickle_vm *vm)
{
    if (vm->number > PROTOCOL_MAX)
        return vm_fail(vm, "a protocol that is not known");
    vm->pickle->protocol = (unsigned)vm->number;
    return 0;
}

static int op_frame(struct pickle_vm *vm)
{
    return vm->number > vm->pickle->text.len - vm->at ? vm_fail(vm, "a frame beyond the end") : 0;
}

static int op_stop(struct pickle_vm *vm)
{
    if (vm->n_stack != 1 || vm->n_marks != 0)
        return vm_fail(vm, "the stack should hold one object at the end");
    vm->pickle->root = vm_pop(vm);
    vm->is_done = true;
    return 0;
}

/* clang-format off */
const struct pickle_op pickle_ops[256] = {
    [0x80] = {"PROTO", UINT_1, op_proto, 0},
    [0x95] = {"FRAME", UINT_8, op_frame, 0},
    ['.'] = {"STOP", NO_OPERAND, op_stop, 0},
    ['('] = {"MARK", NO_OPERAND, op_mark, 0},
    ['0'] = {"POP", NO_OPERAND, op_pop, 0},
    ['1'] = {"POP_MARK", NO_OPERAND, op_pop_mark, 0},
    ['2'] = {"DUP", NO_OPERAND, op_dup, 0},
    ['q'] = {"BINPUT", UINT_1, op_put, 0},
    ['r'] = {"LONG_BINPUT", UINT_4, op_put, 0},
    ['p'] = {"PUT", LINE, op_put_text, 0},
    [0x94] = {"MEMOIZE", NO_OPERAND, op_memoize, 0},
    ['h'] = {"BINGET", UINT_1, op_get, 0},
    ['j'] = {"LONG_BINGET", UINT_4, op_get, 0},
    ['g'] = {"GET", LINE, op_get_text, 0},
    ['N'] = {"NONE", NO_OPERAND, op_none, 0},
    [0x88] = {"NEWTRUE", NO_OPERAND, op_bool, 1},
    [0x89] = {"NEWFALSE", NO_OPERAND, op_bool, 0},
    ['J'] = {"BININT", INT_4, op_int, 0},
    ['K'] = {"BININT1", UINT_1, op_int, 0},
    ['M'] = {"BININT2", UINT_2, op_int, 0},
    ['I'] = {"INT", LINE, op_int_text, 0},
    ['L'] = {"LONG", LINE, op_int_text, 0},
    [0x8a] = {"LONG1", COUNTED_1, op_long, 0},
    [0x8b] = {"LONG4", COUNTED_4_SIGNED, op_long, 0},
    ['F'] = {"FLOAT", LINE, op_float_text, 0},
    ['G'] = {"BINFLOAT", DOUBLE_8, op_float, 0},
    ['S'] = {"STRING", LINE, op_quoted_text, 0},
    ['T'] = {"BINSTRING", COUNTED_4_SIGNED, op_text, 0},
    ['U'] = {"SHORT_BINSTRING", COUNTED_1, op_text, 0},
    ['V'] = {"UNICODE", LINE, op_escaped_text, 0},
    ['X'] = {"BINUNICODE", COUNTED_4, op_text, 0},
    [0x8c] = {"SHORT_BINUNICODE", COUNTED_1, op_text, 0},
    [0x8d] = {"BINUNICODE8", COUNTED_8, op_text, 0},
    ['B'] = {"BINBYTES", COUNTED_4, op_bytes, 0},
    ['C'] = {"SHORT_BINBYTES", COUNTED_1, op_bytes, 0},
    [0x8e] = {"BINBYTES8", COUNTED_8, op_bytes, 0},
    [0x96] = {"BYTEARRAY8", COUNTED_8, op_bytearray, 0},
    [']'] = {"EMPTY_LIST", NO_OPERAND, op_empty, PICKLE_LIST},
    ['}'] = {"EMPTY_DICT", NO_OPERAND, op_empty, PICKLE_DICT},
    [0x8f] = {"EMPTY_SET", NO_OPERAND, op_empty, PICKLE_SET},
    [')'] = {"EMPTY_TUPLE", NO_OPERAND, op_empty, PICKLE_TUPLE},
    ['l'] = {"LIST", NO_OPERAND, op_from_mark, PICKLE_LIST},
    ['d'] = {"DICT", NO_OPERAND, op_from_mark, PICKLE_DICT},
    ['t'] = {"TUPLE", NO_OPERAND, op_from_mark, PICKLE_TUPLE},
    [0x91] = {"FROZENSET", NO_OPERAND, op_from_mark, PICKLE_FROZENSET},
    [0x85] = {"TUPLE1", NO_OPERAND, op_tuple, 1},
    [0x86] = {"TUPLE2", NO_OPERAND, op_tuple, 2},
    [0x87] = {"TUPLE3", NO_OPERAND, op_tuple, 3},
    ['a'] = {"APPEND", NO_OPERAND, op_append, 0},
    ['e'] = {"APPENDS", NO_OPERAND, op_add_from_mark, PICKLE_LIST},
    ['s'] = {"SETITEM", NO_OPERAND, op_setitem, 0},
    ['u'] = {"SETITEMS", NO_OPERAND, op_add_from_mark, PICKLE_DICT},
    [0x90] = {"ADDITEMS", NO_OPERAND, op_add_from_mark, PICKLE_SET},
    ['c'] = {"GLOBAL", TWO_LINES, op_global, 0},
    [0x93] = {"STACK_GLOBAL", NO_OPERAND, op_stack_global, 0},
    ['R'] = {"REDUCE", NO_OPERAND, op_call, PICKLE_CALL},
    [0x81] = {"NEWOBJ", NO_OPERAND, op_call, PICKLE_NEW},
    ['i'] = {"INST", TWO_LINES, op_python_2, 0},
    ['o'] = {"OBJ", NO_OPERAND, op_python_2, 0},
    ['b'] = {"BUILD", NO_OPERAND, op_build, 0},
    ['Q'] = {"BINPERSID", NO_OPERAND, op_persistent, 0},
};
/* clang-format on */
