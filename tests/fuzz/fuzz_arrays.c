/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as two files of arrays that are merged: what becomes of them reads back, and merged alone
 * is the same file again.
 */
#include "fuzz.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "tensor/array/array_merge.h"

static const enum tensor_kind kinds[] = {TENSOR_SAFETENSORS, TENSOR_NPY, TENSOR_NPZ};

static int merge(enum tensor_kind kind, const char *const *paths, size_t n_paths, const char *out,
                 const struct merge_rules *rules)
{
    const struct array_merge_opts opts = {.rules = rules, .force = true};
    struct err err = {0};
    uint64_t n_bytes = 0;
    int rc = array_merge(&opts, kind, paths, n_paths, out, &n_bytes, &err);
    ASSERT(rc == 0 || ((rc == ERR_DATA || rc == ERR_USAGE) && err.text[0]));
    return rc;
}

static void same_check(const char *a, const char *b)
{
    cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;
    ASSERT(file_read(a, SIZE_MAX / 2, &left, NULL) == 0);
    ASSERT(file_read(b, SIZE_MAX / 2, &right, NULL) == 0);
    ASSERT(str_equal(buf_str(&left), buf_str(&right)));
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size};
    unsigned choice = fuzz_choice(&input), cut = fuzz_choice(&input) * 16;
    size_t middle = MIN(input.len, (size_t)cut);
    cleanup_free char *a = xstrdup(fuzz_file("a", (struct str){input.at, middle}));
    cleanup_free char *b =
        xstrdup(fuzz_file("b", (struct str){input.at + middle, input.len - middle}));
    cleanup_free char *out = xasprintf("%s/out", fuzz_folder());
    cleanup_free char *again = xasprintf("%s/again", fuzz_folder());
    const char *const both[] = {a, b}, *const made[] = {out};
    enum tensor_kind kind = kinds[choice % countof(kinds)];
    struct merge_rules rules = {0}, none = {0};
    if (choice / countof(kinds) % 2)
        ASSERT(merge_rule_add(&rules, STR("*=cat0"), NULL) == 0);
    if (merge(kind, both, middle == 0 || cut == 255 * 16 ? 1 : 2, out, &rules) == 0) {
        ASSERT(merge(kind, made, 1, again, &none) == 0);
        same_check(out, again);
    }
    merge_rules_release(&rules);
    unlink(out);
    return 0;
}
