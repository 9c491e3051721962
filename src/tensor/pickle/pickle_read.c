/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads opcode by opcode: takes the operand off the text, and runs the function that the table has
 * for the opcode.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pickle/pickle_impl.h"

static bool take(struct pickle_vm *vm, uint64_t len, struct str *out)
{
    if (len > vm->pickle->text.len - vm->at)
        return false;
    *out = (struct str){vm->pickle->text.at + vm->at, (size_t)len};
    vm->at += len;
    return true;
}

static bool take_line(struct pickle_vm *vm, size_t skip, struct str *out)
{
    const char *begin = vm->pickle->text.at + vm->at;
    size_t left = vm->pickle->text.len - vm->at;
    const char *newline = skip <= left ? memchr(begin + skip, '\n', left - skip) : NULL;
    if (!newline)
        return false;
    *out = (struct str){begin, (size_t)(newline - begin)};
    vm->at += out->len + 1;
    return true;
}

static bool operand_read(struct pickle_vm *vm, enum pickle_operand kind)
{
    static const struct {
        uint8_t n_bytes;
        bool is_counted, is_signed, is_big;
    } forms[] = {
        [UINT_1] = {1, false, false, false},         [UINT_2] = {2, false, false, false},
        [INT_4] = {4, false, true, false},           [UINT_4] = {4, false, false, false},
        [UINT_8] = {8, false, false, false},         [DOUBLE_8] = {8, false, false, true},
        [COUNTED_1] = {1, true, false, false},       [COUNTED_4] = {4, true, false, false},
        [COUNTED_4_SIGNED] = {4, true, true, false}, [COUNTED_8] = {8, true, false, false},
    };
    struct str bytes;
    if (kind == LINE)
        return take_line(vm, 0, &vm->operand);
    if (kind == TWO_LINES) {
        size_t begin = vm->at;
        bool is_there = take_line(vm, 0, &bytes);
        vm->at = begin;
        return is_there && take_line(vm, bytes.len + 1, &vm->operand);
    }
    if (!take(vm, forms[kind].n_bytes, &bytes))
        return false;
    vm->number = bytes.len == 1       ? (unsigned char)bytes.at[0]
                 : bytes.len == 2     ? le16_get(bytes.at)
                 : bytes.len == 4     ? le32_get(bytes.at)
                 : forms[kind].is_big ? be64_get(bytes.at)
                                      : le64_get(bytes.at);
    if (forms[kind].is_signed)
        vm->number = (uint64_t)(int64_t)(int32_t)vm->number;
    return !forms[kind].is_counted || take(vm, vm->number, &vm->operand);
}

static int step(struct pickle_vm *vm)
{
    static const struct pickle_op end = {.name = "end"};
    const struct str *text = &vm->pickle->text;
    vm->made_at = vm->op_at;
    vm->op_at = vm->at;
    vm->op = &end;
    if (vm->at >= text->len)
        return vm_fail(vm, "the pickle was cut off");
    const struct pickle_op *op = &pickle_ops[(unsigned char)text->at[vm->at++]];
    vm->op = op;
    if (!op->run)
        return vm_fail(vm, "an opcode that is not known");
    if (vm->region.is_open && splice_op_bytes[(unsigned char)text->at[vm->op_at]] == 0 &&
        region_leave(vm) != 0)
        return ERR_DATA;
    vm->number = op->argument;
    bool is_byte = op->operand == UINT_1 && vm->at < text->len;
    if (is_byte)
        vm->number = (unsigned char)text->at[vm->at++];
    else if (op->operand != NO_OPERAND && !operand_read(vm, op->operand))
        return vm_fail(vm, "the pickle was cut off");
    return op->run(vm);
}

/*
 * Frees the memory of an overwritten text behind the bytes that are kept. The text's length stays
 * if there are decoded texts, because their offsets are counted from it.
 */
static void rest_free(struct pickle_vm *vm)
{
    struct pickle *pickle = vm->pickle;
    struct buf *own = vm->opts->own;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)own->at + vm->n_kept + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)own->at + own->len) & ~(page - 1);
    if (end > begin)
        (void)madvise(own->at + (begin - (uintptr_t)own->at), end - begin, MADV_DONTNEED);
    if (pickle->decoded.len == 0)
        pickle->text.len = own->len = vm->n_kept;
}

/*
 * Reads the pickle, with splices or as nodes only. *must_repeat: splices do not work for this
 * pickle, and it must be read again as nodes.
 */
static int read_once(struct pickle *pickle, struct str text, const struct pickle_opts *opts,
                     bool is_splicing, bool *must_repeat, struct err *err)
{
    struct pickle_vm vm = {.pickle = pickle,
                           .opts = opts,
                           .err = err,
                           .op = &pickle_ops['.'],
                           .is_splicing = is_splicing,
                           .keeps_text = is_splicing};
    pickle_init(pickle);
    pickle->text = text;
    GROW(vm.stack, vm.n_stack, vm.cap_stack); /* never NULL */
    int rc = text.len > UINT32_MAX ? vm_fail(&vm, "a pickle of more than 4 GiB") : 0;
    while (rc == 0 && !vm.is_done) {
        if (vm.region.is_open)
            region_run(&vm);
        rc = step(&vm);
    }
    pickle->n_bytes = vm.at;
    if (rc == 0 && !opts->has_more && vm.at < text.len) {
        vm.op_at = vm.at;
        rc = vm_fail(&vm, "something follows the end");
    }
    *must_repeat = rc != 0 && (vm.must_repeat || pickle->splices.len > 0);
    if (rc == 0 && is_splicing)
        splices_finish(&vm);
    else if (rc == 0 && opts->own)
        rest_free(&vm);
    free(vm.stack);
    free(vm.memo);
    free(vm.marks);
    free(vm.slots);
    free(vm.region.fresh);
    return rc;
}

int pickle_read(struct pickle *pickle, struct str text, const struct pickle_opts *opts,
                struct err *err)
{
    bool is_splicing = opts->splice_least_bytes > 0 && text.len <= INT32_MAX, must_repeat;
    ASSERT(!opts->own || opts->own->at == text.at);
    int rc = read_once(pickle, text, opts, is_splicing, &must_repeat, err);
    if (!must_repeat)
        return rc;
    pickle_release(pickle);
    if (err)
        *err = (struct err){0};
    return read_once(pickle, text, opts, false, &must_repeat, err);
}
