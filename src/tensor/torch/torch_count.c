/* SPDX-License-Identifier: Apache-2.0
 *
 * How many records a file holds, by what it says and by what is there.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "rule/names.h"
#include "tensor/torch/torch_merge_impl.h"

/* 0: it has none, or is no dictionary. */
static pickle_id root_get(const struct torch_file *file, const char *key)
{
    const struct pickle *pickle = &file->pickle;
    bool is_dict = pickle_node(pickle, pickle->root)->kind == PICKLE_DICT;
    return is_dict ? pickle_get(pickle, pickle->root, key) : 0;
}

static bool list_len(const struct pickle *pickle, pickle_id id, uint64_t *len)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    *len = node->count;
    return id != 0 && (node->kind == PICKLE_LIST || node->kind == PICKLE_TUPLE);
}

/* UINT64_MAX: it says nothing. */
static uint64_t count_said(const struct torch_file *file, const char *count_name)
{
    pickle_id id = root_get(file, count_name);
    const struct pickle_node *node = pickle_node(&file->pickle, id);
    return id != 0 && node->kind == PICKLE_INT && node->integer >= 0 ? (uint64_t)node->integer
                                                                     : UINT64_MAX;
}

static int count_check(const struct torch_file *file, const char *count_name, struct err *err)
{
    const char *name = counted_name(count_name);
    uint64_t said = count_said(file, count_name), held;
    if (said == UINT64_MAX || !list_len(&file->pickle, root_get(file, name), &held) || said == held)
        return 0;
    return fail(err, ERR_DATA,
                "%s: '%s' says %lu, and '%s' holds %lu; --rule '%s=sum' takes them as they are",
                file->path, count_name, said, name, held, count_name);
}

static int records_count(const struct torch_file *file, uint64_t *n_records, struct err *err)
{
    if (list_len(&file->pickle, file->pickle.root, n_records))
        return 0;
    *n_records = UINT64_MAX;
    for (const char *const *name = record_count_names; *name; name++) {
        int rc = count_check(file, *name, err);
        if (rc)
            return rc;
        if (*n_records == UINT64_MAX)
            *n_records = count_said(file, *name);
    }
    return 0;
}

int torch_count(const char *path, uint64_t *n_records, struct err *err)
{
    struct torch_file file = {0};
    struct stat st = {0};
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    int rc = torch_read(&file, path, fd, (uint64_t)st.st_size, err);
    if (rc == 0)
        rc = records_count(&file, n_records, err);
    torch_release(&file);
    return rc;
}
