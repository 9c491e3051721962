/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the opcodes that records consist of without a function call for each. Only the successful
 * case is handled here: any other case is left to the table of pickle_ops.c, which runs the opcode
 * again and reports errors.
 */
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pickle/pickle_impl.h"

static inline void node_push(struct pickle_vm *vm, struct pickle_node node)
{
    struct pickle *pickle = vm->pickle;
    GROW(pickle->nodes, pickle->n_nodes, pickle->cap_nodes);
    pickle->nodes[pickle->n_nodes] = node;
    vm_push(vm, (pickle_id)pickle->n_nodes++);
}

static inline void shared_push(struct pickle_vm *vm, pickle_id *shared, struct pickle_node node)
{
    if (*shared != 0) {
        vm_push(vm, *shared);
        return;
    }
    *shared = (pickle_id)vm->pickle->n_nodes;
    node_push(vm, node);
}

static inline void int_push(struct pickle_vm *vm, int64_t value)
{
    pickle_id *shared = vm_shared_int(vm, value);
    if (*shared != 0 && pickle_node(vm->pickle, *shared)->integer != value)
        *shared = 0;
    shared_push(vm, shared, (struct pickle_node){.kind = PICKLE_INT, .integer = value});
}

/* Pushes an ASCII text. False for any other text, which is left to pickle_ops.c. */
static inline bool text_push(struct pickle_vm *vm, size_t at, size_t left)
{
    const char *text = vm->pickle->text.at + at;
    size_t len = left >= 5 ? le32_get(text + 1) : SIZE_MAX, i = 0;
    uint64_t bits = 0, word;
    if (left < 5 || len > left - 5)
        return false;
    for (text += 5; i + sizeof(word) <= len; i += sizeof(word)) {
        memcpy(&word, text + i, sizeof(word));
        bits |= word;
    }
    for (; i < len; i++)
        bits |= (unsigned char)text[i];
    if (bits & 0x8080808080808080 && !text_is_python((struct str){text, len}))
        return false;
    node_push(vm, (struct pickle_node){.kind = PICKLE_TEXT, .at = at + 5, .count = (uint32_t)len});
    return true;
}

static inline bool object_push(struct pickle_vm *vm, uint32_t index)
{
    if (index >= vm->cap_memo || !splice_is_fresh(vm, vm->memo[index]))
        return false;
    splice_use(vm, index);
    vm_push(vm, vm->memo[index]);
    return true;
}

/*
 * Runs the PUT of the object that the opcode at `made_at` left on the stack. False: left to
 * pickle_ops.c.
 */
static inline bool object_put(struct pickle_vm *vm, uint32_t index, size_t made_at)
{
    bool has_room = index < vm->cap_memo && index < vm->pickle->text.len;
    if (!has_room || vm->memo[index] != 0 || !splice_makes(vm, made_at))
        return false;
    splice_fresh_add(vm, index, made_at);
    vm->memo[index] = vm->stack[vm->n_stack - 1];
    return true;
}

/* Runs one opcode. Returns its length, 0 if it is left to pickle_ops.c. */
static inline size_t op_run(struct pickle_vm *vm, size_t at, size_t made_at, size_t left)
{
    const char *op = vm->pickle->text.at + at;
    uint64_t bits;
    struct pickle_node node = {0};
    switch (*op) {
    case 'h':
        return left >= 2 && object_push(vm, (unsigned char)op[1]) ? 2 : 0;
    case 'j':
        return left >= 5 && object_push(vm, le32_get(op + 1)) ? 5 : 0;
    case 'q':
        return left >= 2 && object_put(vm, (unsigned char)op[1], made_at) ? 2 : 0;
    case 'r':
        return left >= 5 && object_put(vm, le32_get(op + 1), made_at) ? 5 : 0;
    case 'X':
        return text_push(vm, at, left) ? 5 + (size_t)le32_get(op + 1) : 0;
    case 'N':
        shared_push(vm, &vm->shared.none, node);
        return 1;
    case (char)0x88:
    case (char)0x89:
        node = (struct pickle_node){.kind = PICKLE_BOOL, .truth = *op == (char)0x88};
        shared_push(vm, &vm->shared.truths[node.truth], node);
        return 1;
    case ']':
    case '}':
        node.kind = *op == ']' ? PICKLE_LIST : PICKLE_DICT;
        node_push(vm, node);
        return 1;
    default:
        break;
    }
    if (left < 9)
        return 0;
    switch (*op) {
    case 'K':
        int_push(vm, (unsigned char)op[1]);
        return 2;
    case 'M':
        int_push(vm, le16_get(op + 1));
        return 3;
    case 'J':
        int_push(vm, (int32_t)le32_get(op + 1));
        return 5;
    case 'G':
        bits = be64_get(op + 1);
        node.kind = PICKLE_FLOAT;
        memcpy(&node.real, &bits, sizeof(bits));
        node_push(vm, node);
        return 9;
    default:
        return 0;
    }
}

void region_run(struct pickle_vm *vm)
{
    size_t at = vm->at, made_at = vm->op_at, end = vm->pickle->text.len, len;
    while (at < end && (len = op_run(vm, at, made_at, end - at)) != 0) {
        made_at = at;
        at += len;
    }
    vm->op_at = made_at;
    vm->at = at;
}
