/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds how many records a file has, by its counts and by its lists.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "rule/names.h"
#include "tensor/torch/torch_normalise.h"

struct said {
    const struct pickle *pickle;
    struct torch_key_index *keys;
};

static bool count_of(const void *object, struct str name, uint64_t *count)
{
    const struct said *said = object;
    uint32_t number = torch_key_index_find_text(said->keys, name);
    return number != UINT32_MAX &&
           pickle_to_u64(said->pickle, torch_key_index_value(said->keys, number, 0), count);
}

static int records_count(struct merge_state *merge, uint64_t *n_records)
{
    const struct pickle *pickle = torch_merge_graph(merge, 0);
    const struct pickle_node *root = pickle_node(pickle, pickle->root);
    struct torch_key_index keys;
    *n_records = root->kind == PICKLE_LIST || root->kind == PICKLE_TUPLE ? root->count : UINT64_MAX;
    if (!dict_pairs(pickle, pickle->root))
        return 0;
    torch_key_index_init(&keys, &merge->pool);
    int rc = torch_merge_keys_take(merge, 0, pickle->root, &keys);
    if (rc == 0)
        *n_records = record_count_said(count_of, &(struct said){pickle, &keys});
    if (rc == 0)
        rc = counts_check(merge, &keys);
    torch_key_index_release(&keys);
    return rc;
}

int torch_count(const char *path, const struct merge_rules *rules, uint64_t *n_records,
                struct err *err)
{
    const struct torch_merge_opts opts = {.rules = rules};
    struct torch_part part = {0};
    bool met_splice = false;
    struct merge_state merge = {.opts = &opts,
                                .parts = &part,
                                .n_parts = 1,
                                .depth = 1,
                                .met_splice = &met_splice,
                                .err = err};
    struct stat st = {0};
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    int rc = torch_read(&part.file, path, fd, (uint64_t)st.st_size, err);
    key_pool_init(&merge.pool, &merge);
    if (rc == 0)
        rc = records_count(&merge, n_records);
    key_pool_release(&merge.pool);
    torch_release(&part.file);
    return rc;
}
