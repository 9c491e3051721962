/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/collect.h"
#include "shard/shard.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "data/file_merge/file_merge.h"
#include "tensor/array/array_merge.h"
#include "tensor/torch/torch_merge.h"

int collect_before(const struct collect *ask, struct file_traces *before, struct err *err)
{
    return left_files_before(&ask->left, before, err);
}

static bool leads_to(const char *path, const struct stat *file, const char *other)
{
    struct stat link, st;
    return other && lstat(path, &link) == 0 && S_ISLNK(link.st_mode) && stat(other, &st) == 0 &&
           st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* Syncs the file and its name to disk, because a row that names the file will be committed next. */
static int file_settle(const char *path, const char *passing_path, uint64_t *bytes, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno(err, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_DATA, "%s is no regular file", path);
    if (leads_to(path, &st, passing_path))
        return fail(err, ERR_DATA, "%s is a link to {input}, which is removed; copy it", path);
    if (fsync(fd) != 0)
        return fail_errno(err, "sync %s", path);
    *bytes = (uint64_t)st.st_size;
    return fsync_parent(path, err);
}

static int records_count(const struct collect *ask, const char *path, uint64_t *n_records,
                         struct err *err)
{
    enum tensor_kind kind = ask->tensors;
    /* A rule that matches nothing in this file may match in another. */
    struct merge_rules rules = {.is_shared = true, .n_more = 1};
    bool is_doubted = kind != TENSOR_NONE && ask->is_as_it_is;
    int rc = is_doubted ? tensor_kind_of(path, &kind, err) : 0;
    if (rc || kind != ask->tensors)
        return rc;
    rc = ask->rules ? merge_rules_take(&rules, ask->rules, ask->rules_path, err) : 0;
    if (rc == 0)
        rc = kind == TENSOR_NONE    ? file_merge_count(path, ask->format, &rules, n_records, err)
             : kind == TENSOR_TORCH ? torch_count(path, &rules, n_records, err)
                                    : array_count(kind, path, &rules, n_records, err);
    merge_rules_release(&rules);
    return rc;
}

/* The message begins with the difference, and ends with the option that turns the check off. */
static int count_is_wrong(const struct collect *ask, const struct collected *found, struct err *err)
{
    bool is_short = found->records < ask->expect;
    uint64_t n_off = is_short ? ask->expect - found->records : found->records - ask->expect;
    return fail(err, ERR_DATA,
                "%s holds %lu record%s, expected %lu, one for each item: the program %s %lu; see "
                "its log (if the program is not meant to write one record for each item, %s turns "
                "this check off)",
                found->path, found->records, found->records == 1 ? "" : "s", ask->expect,
                is_short ? "lost" : "wrote too many, by", n_off, ask->uncounted);
}

int collect_count(const struct collect *ask, struct collected *out, struct err *err)
{
    out->records = UINT64_MAX;
    if (!ask->is_counted)
        return 0;
    int rc = records_count(ask, out->path, &out->records, err);
    if (rc || ask->takes_any || out->records == ask->expect || out->records == UINT64_MAX)
        return rc;
    return count_is_wrong(ask, out, err);
}

void collected_release(struct collected *collected)
{
    free(collected->path);
    free(collected->name);
    free(collected->origin);
    *collected = (struct collected){0};
}

struct shard_file collected_take(struct collected *collected)
{
    struct shard_file file = {.bytes = collected->bytes, .records = collected->records};
    file.path = steal_ptr(&collected->path);
    file.origin = steal_ptr(&collected->origin);
    return file;
}

int collect_find(const struct collect *ask, const struct file_traces *before, struct collected *out,
                 struct err *err)
{
    struct left_file left;
    *out = (struct collected){0};
    int rc = left_file_find(&ask->left, before, &left, err);
    out->is_absent = left.is_absent;
    if (rc)
        return rc;
    out->path = steal_ptr(&left.trace.path);
    out->name = steal_ptr(&left.name);
    rc = file_settle(out->path, ask->passing_path, &out->bytes, err);
    if (rc == 0)
        rc = collect_count(ask, out, err);
    if (rc)
        collected_release(out);
    return rc;
}
