/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of torch.save, its pickle any bytes, cut into parts that are merged again: refused with
 * a sentence, or a merge of the parts is what a merge of one part with all records is, down to
 * the bytes of every tensor.
 *
 *   byte 0   how many parts, and whether a line follows: a key that is cut    then  the pickle
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "fuzz.h"
#include "tensor/torch/torch_merge_impl.h"
#include "tensor/torch/torch_split.h"
#include "torch_file.h"

enum {
    PARTS_MAX = 8
};

/* What split says a merge needs: " --rule 'PATH=same'" for each. */
static void rules_note(void *context, const char *text)
{
    struct buf *rules = context;
    ASSERT(text[0] != '\0');
    buf_add_text(rules, text);
}

/* Not if there were too many to say, or if they are about other keys too. */
static bool is_told_all(const char *said)
{
    return !strstr(said, " and so on") && !strpbrk(said, "*?[\\");
}

static int merge(const char *said, const char *const *paths, size_t n_paths, const char *out,
                 struct err *err)
{
    static const char begin[] = " --rule '", end[] = "=same'";
    struct merge_rules wanted = {0};
    struct torch_merge_stats stats;
    cleanup_buf struct buf ignored = BUF_INIT;
    const struct torch_merge_opts opts = {
        .rules = &wanted, .pass_through = true, .note = rules_note, .context = &ignored};
    int rc = 0;
    for (const char *at = said; rc == 0 && (at = strstr(at, begin)); at++) {
        const char *rule = at + strlen(begin), *behind = strstr(rule, end);
        if (!behind)
            break; /* the name of a callable, which is said as well, looks like one */
        size_t len = (size_t)(behind - rule) + strlen(end) - 1;
        rc = merge_rule_add(&wanted, (struct str){rule, len}, err);
    }
    if (rc == 0)
        rc = torch_merge(&opts, paths, n_paths, out, &stats, err);
    merge_rules_release(&wanted);
    return rc;
}

/* Cut into so many parts, all of them written: their paths, to be freed; 0: it is refused. */
static size_t split(const char *path, const char *key, size_t n_parts, struct buf *said,
                    char **paths)
{
    struct torch_split *split = NULL;
    struct err err = {0};
    const struct torch_split_opts opts = {.keys = &key,
                                          .n_keys = key ? 1 : 0,
                                          .pass_through = true,
                                          .note = rules_note,
                                          .context = said,
                                          .n_parts = n_parts};
    size_t n = 0, n_made = 0;
    int rc = torch_split_open(&split, path, &opts, &err);
    ASSERT(rc == 0 || err.text[0]);
    if (rc == 0) {
        torch_split_parts(split, &n);
        ASSERT(n == n_parts);
    }
    for (; n_made < n && rc == 0; n_made++) {
        struct outfile out = OUTFILE_INIT;
        paths[n_made] = xasprintf("%s/part_%zu_of_%zu.pt", fuzz_folder(), n_made, n);
        rc = outfile_open(&out, paths[n_made], true, &err);
        if (rc == 0)
            rc = torch_split_fill(split, n_made, paths[n_made], &out, &err);
        if (rc == 0)
            rc = outfile_commit(&out, &err);
        ASSERT(rc == 0 || err.text[0]);
        outfile_close(&out);
    }
    torch_split_close(split);
    return rc == 0 ? n_made : 0;
}

static void read_again(struct torch_part *part, const char *path)
{
    struct stat st;
    struct err err = {0};
    part->fd = open(path, O_RDONLY | O_CLOEXEC);
    ASSERT(part->fd >= 0 && fstat(part->fd, &st) == 0);
    if (torch_read(&part->file, path, part->fd, (uint64_t)st.st_size, &err))
        BUG("what was made is refused: %s", err.text);
}

static void compare(const char *path, const char *other)
{
    bool met_splice = false;
    struct merge_state merge = {.met_splice = &met_splice, .n_parts = 2};
    merge.parts = xcalloc(2, sizeof(*merge.parts));
    key_pool_init(&merge.pool, &merge);
    read_again(&merge.parts[0], path);
    read_again(&merge.parts[1], other);
    pickle_id left = torch_merge_graph(&merge, 0)->root, right = torch_merge_graph(&merge, 1)->root;
    ASSERT(values_same(&merge, 1, right, 1, right) == SAME);
    ASSERT(values_same(&merge, 0, left, 1, right) != DIFFERENT && !met_splice);
    torch_merge_release(&merge);
}

static void paths_free(char **paths)
{
    for (size_t i = 0; i < PARTS_MAX; i++) {
        if (paths[i])
            unlink(paths[i]);
        free(paths[i]);
    }
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, size}, line = {NULL, 0};
    unsigned choice = fuzz_choice(&input);
    size_t n_parts = 2 + choice % (PARTS_MAX - 1);
    cleanup_buf struct buf file = BUF_INIT, said = BUF_INIT, ignored = BUF_INIT;
    cleanup_free char *joined = xasprintf("%s/joined.pt", fuzz_folder());
    cleanup_free char *one = xasprintf("%s/one.pt", fuzz_folder());
    char *parts[PARTS_MAX] = {0}, *whole[PARTS_MAX] = {0};
    struct err err = {0};
    if (choice & 64 && !str_next(&input, '\n', &line))
        return 0;
    cleanup_free char *key = line.at ? xstrndup(line.at, line.len) : NULL;
    if (!input.at)
        return 0;
    torch_file_make(input, &file);
    cleanup_free char *path = xstrdup(fuzz_file("whole.pt", buf_str(&file)));
    unlink(joined);
    unlink(one);
    size_t n = split(path, key, n_parts, &said, parts);
    size_t n_whole = split(path, key, 1, &ignored, whole);
    if (n > 0) {
        ASSERT(n_whole == 1);
        int rc = merge(buf_text(&said), (const char *const *)parts, n, joined, &err);
        if (rc && (path_exists(joined) || !err.text[0]))
            BUG("refused, with an output: %s", err.text);
        if (rc == 0 && is_told_all(buf_text(&said))) {
            if (merge(buf_text(&said), (const char *const *)whole, 1, one, &err))
                BUG("parts can be merged, and the whole cannot: %s", err.text);
            compare(joined, one);
        }
    }
    paths_free(parts);
    paths_free(whole);
    return 0;
}
