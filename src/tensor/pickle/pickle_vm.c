/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's parts: nodes, the stack with its marks, the memo.
 */
#include "base/xalloc.h"
#include "tensor/pickle/pickle_impl.h"

int vm_fail(struct pickle_vm *vm, const char *what)
{
    return fail(vm->err, ERR_DATA, "%s: byte %zu (%s): %s", vm->opts->name, vm->op_at,
                vm->op->name ? vm->op->name : "?", what);
}

/* ---- nodes ---- */

pickle_id vm_node(struct pickle_vm *vm, struct pickle_node node)
{
    return pickle_add(vm->pickle, node);
}

/* The kept bytes are never more than those read so far, so they fit in front of the current
 * opcode. */
struct str vm_keep(struct pickle_vm *vm, struct str bytes)
{
    if (!vm->opts->own || vm->keeps_text)
        return bytes;
    char *to = vm->opts->own->at + vm->n_kept;
    memmove(to, bytes.at, bytes.len);
    vm->n_kept += bytes.len;
    return (struct str){to, bytes.len};
}

/* ---- the stack ---- */

int vm_underflow(struct pickle_vm *vm)
{
    return vm_fail(vm, "there are too few objects on the stack");
}

/* Pops everything above the last mark, and the mark. */
int vm_mark_take(struct pickle_vm *vm, pickle_id **ids, size_t *n_ids)
{
    *ids = NULL;
    *n_ids = 0;
    if (vm->n_marks == 0)
        return vm_fail(vm, "there is no mark on the stack");
    if (region_ends(vm) && region_leave(vm) != 0)
        return ERR_DATA;
    size_t height = vm->marks[--vm->n_marks];
    *ids = vm->stack + height;
    *n_ids = vm->n_stack - height;
    vm->n_stack = height;
    return 0;
}

/* ---- the memo ---- */

/*
 * A pickle of n bytes cannot define more than n objects. A larger index is malformed, and its memo
 * would take memory for nothing.
 */
int vm_memo_put(struct pickle_vm *vm, uint64_t index)
{
    if (!vm_has(vm, 1))
        return vm_underflow(vm);
    if (index >= vm->pickle->text.len)
        return vm_fail(vm, "a number in the memo that is greater than the pickle is long");
    if (index >= vm->cap_memo) {
        size_t cap = MAX((size_t)index + 1, vm->cap_memo + vm->cap_memo / 2 + 64);
        vm->memo = xrealloc(vm->memo, cap * sizeof(*vm->memo));
        memset(vm->memo + vm->cap_memo, 0, (cap - vm->cap_memo) * sizeof(*vm->memo));
        vm->cap_memo = cap;
        if (vm->is_splicing)
            splices_reserve(vm);
    }
    if (vm->is_splicing && splice_put(vm, (uint32_t)index) != 0)
        return ERR_DATA;
    vm->memo[index] = vm->stack[vm->n_stack - 1];
    return 0;
}
