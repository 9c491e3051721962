/* SPDX-License-Identifier: Apache-2.0
 *
 * How many records a file holds, by what it says and by what is there.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "rule/names.h"
#include "tensor/torch/torch_mend.h"

struct said {
    const struct pickle *pickle;
    const struct key_table *keys;
};

static bool count_of(const void *object, struct str name, uint64_t *count)
{
    const struct said *said = object;
    return pickle_to_u64(said->pickle, keys_find_text(said->keys, said->pickle, name), count);
}

static int records_count(struct graft *graft, uint64_t *n_records)
{
    const struct pickle *pickle = graft_graph(graft, 0);
    const struct pickle_node *root = pickle_node(pickle, pickle->root);
    const struct pickle_node *pairs = dict_pairs(pickle, pickle->root);
    struct key_table keys;
    *n_records = root->kind == PICKLE_LIST || root->kind == PICKLE_TUPLE ? root->count : UINT64_MAX;
    if (!pairs)
        return 0;
    keys_take(&keys, pickle, pairs);
    *n_records = record_count_said(count_of, &(struct said){pickle, &keys});
    int rc = counts_check(graft, 0, &keys);
    free(keys.at);
    return rc;
}

int torch_count(const char *path, const struct merge_rules *rules, uint64_t *n_records,
                struct err *err)
{
    const struct torch_merge_opts opts = {.rules = rules};
    struct torch_part part = {0};
    struct graft graft = {.opts = &opts, .parts = &part, .n_parts = 1, .depth = 1, .err = err};
    struct stat st = {0};
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    int rc = torch_read(&part.file, path, fd, (uint64_t)st.st_size, err);
    if (rc == 0)
        rc = records_count(&graft, n_records);
    torch_release(&part.file);
    return rc;
}
