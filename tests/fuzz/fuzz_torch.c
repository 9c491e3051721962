/* SPDX-License-Identifier: Apache-2.0
 *
 * Two files of torch.save, their pickles any bytes, parted by "\xff\xfe" (one alone: with itself), merged by
 * a rule: refused with a sentence and nothing in place, or a file that is read without a flaw, and shows the
 * same when it is merged once more.
 *
 *   byte 0   the rule, pass-through
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "fuzz.h"
#include "tensor/inspect.h"
#include "tensor/torch/torch.h"
#include "tensor/torch/torch_merge.h"
#include "torch_file.h"

static const char *const rules[] = {
    NULL,     ".=first", ".=same", ".=union", ".=concat",  ".=collect", ".=cat0", ".=sum-by-key",
    "*=same", "*=cat0",  "*=sum",  "*=max",   "*=collect", "*=union",   "*=drop", "+n=count"};

static void note_ignore(void *context, const char *text)
{
    (void)context;
    ASSERT(text[0] != '\0');
}

static int merge(const char *rule, bool pass_through, const char *const *paths, size_t n_paths,
                 const char *out, struct err *err)
{
    struct merge_rules wanted = {0};
    struct torch_merge_stats stats;
    const struct torch_merge_opts opts = {
        .rules = &wanted, .pass_through = pass_through, .note = note_ignore};
    int rc = rule ? merge_rule_add(&wanted, str_of(rule), err) : 0;
    ASSERT(rc == 0);
    rc = torch_merge(&opts, paths, n_paths, out, &stats, err);
    if (rc && strstr(err->text, "occur in too many places"))
        fuzz_cost_forgive();
    merge_rules_release(&wanted);
    return rc;
}

/* What is in it, with its storages looked up and their checksums compared. */
static void file_show(const char *path, struct buf *out)
{
    struct torch_file file;
    struct tree tree = {.out = out};
    struct stat st;
    struct err err = {0};
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ASSERT(fd >= 0 && fstat(fd, &st) == 0);
    if (torch_read(&file, path, fd, (uint64_t)st.st_size, &err))
        BUG("what was merged is refused: %s", err.text);
    ASSERT(file.pickle.protocol == 2);
    torch_tree(&file, &tree);
    buf_addf(out, "%zu storages\n", file.pickle.n_storages);
    torch_release(&file);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a.pt", "b.pt"};
    struct str input = {(const char *)data, size}, texts[2];
    unsigned choice = fuzz_choice(&input);
    cleanup_free char *out = xasprintf("%s/out.pt", fuzz_folder());
    cleanup_free char *again = xasprintf("%s/again.pt", fuzz_folder());
    const char *split = size > 2 ? memmem(input.at, input.len, "\xff\xfe", 2) : NULL;
    size_t len = split ? (size_t)(split - input.at) : input.len;
    char *paths[2];
    struct err err = {0};
    texts[0] = (struct str){input.at, len};
    texts[1] = split ? (struct str){split + 2, input.len - len - 2} : texts[0];
    for (size_t i = 0; i < 2; i++) {
        cleanup_buf struct buf file = BUF_INIT;
        torch_file_make(texts[i], &file);
        paths[i] = xstrdup(fuzz_file(names[i], buf_str(&file)));
    }
    unlink(out);
    unlink(again);
    int rc = merge(rules[choice % countof(rules)], choice & 64, (const char *const *)paths, 2, out,
                   &err);
    if (rc == 0) {
        cleanup_buf struct buf first = BUF_INIT, second = BUF_INIT;
        file_show(out, &first);
        if (merge(".=first", true, (const char *const *)&out, 1, again, &err))
            BUG("what was merged cannot be merged: %s", err.text);
        file_show(again, &second);
        ASSERT(str_equal(buf_str(&first), buf_str(&second)));
    } else if (path_exists(out) || !err.text[0]) {
        BUG("refused, with an output: %s", err.text);
    }
    free(paths[0]);
    free(paths[1]);
    return 0;
}
