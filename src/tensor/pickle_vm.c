/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's parts: nodes, the stack with its marks, the memo.
 */
#include "base/xalloc.h"
#include "tensor/pickle_impl.h"

int vm_fail(struct pickle_vm *vm, const char *what)
{
    return fail(vm->err, ERR_DATA, "%s: byte %zu (%s): %s", vm->opts->name, vm->op_at, vm->op_name,
                what);
}

/* ---- nodes ---- */

pickle_id vm_node(struct pickle_vm *vm, struct pickle_node node)
{
    struct pickle *pickle = vm->pickle;
    GROW(pickle->nodes, pickle->n_nodes, pickle->cap_nodes);
    pickle->nodes[pickle->n_nodes] = node;
    return (pickle_id)pickle->n_nodes++;
}

void vm_push(struct pickle_vm *vm, pickle_id id)
{
    GROW(vm->stack, vm->n_stack, vm->cap_stack);
    vm->stack[vm->n_stack++] = id;
}

void items_add(struct pickle *pickle, struct pickle_node *container, const pickle_id *ids,
               size_t n_ids)
{
    if (n_ids == 0)
        return;
    size_t need = pickle->n_chunks + n_ids + 2;
    if (need > pickle->cap_chunks) {
        pickle->cap_chunks = MAX(need, pickle->cap_chunks + pickle->cap_chunks / 2);
        pickle->chunks = xrealloc(pickle->chunks, pickle->cap_chunks * sizeof(*pickle->chunks));
    }
    uint32_t last = container->chunks.last;
    bool is_at_end = last != 0 && last + 2 + pickle->chunks[last + 1] == pickle->n_chunks;
    if (!is_at_end) {
        uint32_t begin = (uint32_t)pickle->n_chunks;
        pickle->chunks[begin] = pickle->chunks[begin + 1] = 0;
        pickle->n_chunks += 2;
        if (last != 0)
            pickle->chunks[last] = begin;
        else
            container->chunks.first = begin;
        container->chunks.last = last = begin;
    }
    memcpy(pickle->chunks + pickle->n_chunks, ids, n_ids * sizeof(*ids));
    pickle->chunks[last + 1] += (uint32_t)n_ids;
    pickle->n_chunks += n_ids;
}

/* ---- the stack ---- */

/* Whether `n` objects stand above the last mark. */
bool vm_has(const struct pickle_vm *vm, size_t n)
{
    size_t floor = vm->n_marks > 0 ? vm->marks[vm->n_marks - 1] : 0;
    return vm->n_stack - floor >= n;
}

int vm_underflow(struct pickle_vm *vm)
{
    return vm_fail(vm, "there are too few objects on the stack");
}

pickle_id vm_pop(struct pickle_vm *vm)
{
    return vm->stack[--vm->n_stack];
}

/* Takes what stands above the last mark, and the mark. */
int vm_mark_take(struct pickle_vm *vm, pickle_id **ids, size_t *n_ids)
{
    *ids = NULL;
    *n_ids = 0;
    if (vm->n_marks == 0)
        return vm_fail(vm, "there is no mark on the stack");
    size_t height = vm->marks[--vm->n_marks];
    *ids = vm->stack + height;
    *n_ids = vm->n_stack - height;
    vm->n_stack = height;
    return 0;
}

/* ---- the memo ---- */

/* A pickle of n bytes cannot define more than n objects: a larger number is a trap. */
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
    }
    vm->memo[index] = vm->stack[vm->n_stack - 1];
    return 0;
}
