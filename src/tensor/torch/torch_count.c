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

/* UINT64_MAX: it does not say. */
static uint64_t count_said(const struct pickle *pickle, const struct key_table *keys)
{
    uint64_t n_records;
    for (const char *const *name = record_count_names; *name; name++)
        if (pickle_to_u64(pickle, keys_find_text(keys, pickle, str_of(*name)), &n_records))
            return n_records;
    return UINT64_MAX;
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
    *n_records = count_said(pickle, &keys);
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
