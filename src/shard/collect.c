/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "data/file_merge/file_merge.h"
#include "tensor/array/array_merge.h"
#include "tensor/torch/torch_merge.h"

static void trace_of(const struct stat *st, struct file_trace *out)
{
    out->device = st->st_dev;
    out->inode = st->st_ino;
    out->bytes = (uint64_t)st->st_size;
    out->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool is_same_trace(const struct file_trace *a, const struct file_trace *b)
{
    return strcmp(a->path, b->path) == 0 && a->device == b->device && a->inode == b->inode &&
           a->bytes == b->bytes && a->mtime_ns == b->mtime_ns;
}

/* True for an errno that means that the folder or file is not there. Any other says nothing about that. */
static bool says_absent(int number)
{
    return number == ENOENT || number == ENOTDIR || number == EACCES || number == ELOOP;
}

static int trace_add(struct file_traces *traces, const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return says_absent(errno) ? 0 : fail_errno(err, "look at %s", path);
    traces->at = xrealloc(traces->at, (traces->len + 1) * sizeof(*traces->at));
    struct file_trace *trace = &traces->at[traces->len++];
    trace->path = xstrdup(path);
    trace_of(&st, trace);
    return 0;
}

void file_traces_release(struct file_traces *traces)
{
    for (size_t i = 0; i < traces->len; i++)
        free(traces->at[i].path);
    free(traces->at);
    *traces = (struct file_traces){0};
}

static int folder_unread(const char *path, int number)
{
    (void)path;
    return !says_absent(number);
}

static int glob_check(int status, const char *pattern, struct err *err)
{
    if (status == GLOB_ABORTED)
        return fail_errno(err, "read the folder of %s", pattern);
    if (status == GLOB_NOSPACE)
        return fail(err, ERR_STOPPED, "find %s: out of memory", pattern);
    return 0;
}

static int traces_take(const struct collect *ask, struct file_traces *out, struct err *err)
{
    glob_t found = {0};
    if (!ask->pattern)
        return trace_add(out, ask->path, err);
    int rc = glob_check(glob(ask->pattern, 0, folder_unread, &found), ask->pattern, err);
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
        rc = trace_add(out, found.gl_pathv[i], err);
    globfree(&found);
    return rc;
}

int collect_before(const struct collect *ask, struct file_traces *before, struct err *err)
{
    *before = (struct file_traces){0};
    return traces_take(ask, before, err);
}

static bool was_there(const struct collect *ask, const struct file_traces *before,
                      const struct file_trace *trace)
{
    if (trace->mtime_ns < ask->since_ns)
        return true;
    for (size_t i = 0; i < before->len; i++)
        if (is_same_trace(&before->at[i], trace))
            return true;
    return false;
}

static int none_found(const struct collect *ask, const char *old, struct err *err)
{
    if (old)
        return fail(err, ERR_DATA,
                    "it wrote nothing that %s names: %s was there before it began; move it "
                    "away, or let the name hold {run}",
                    ask->option, old);
    if (ask->pattern)
        return fail(err, ERR_DATA, "it left no file that matches %s, here '%s'", ask->option,
                    ask->pattern);
    return fail(err, ERR_DATA, "it did not write the file %s, which {output} names", ask->path);
}

static int one_choose(const struct collect *ask, const struct file_traces *before,
                      const struct file_traces *now, const char **path, size_t *n_found,
                      struct err *err)
{
    const char *old = NULL, *first = NULL, *second = NULL;
    size_t n_new = 0;
    for (size_t i = 0; i < now->len; i++) {
        if (was_there(ask, before, &now->at[i])) {
            old = now->at[i].path;
            continue;
        }
        if (n_new++ == 0)
            first = now->at[i].path;
        else
            second = now->at[i].path;
    }
    *path = first;
    *n_found = n_new;
    if (n_new == 0)
        return none_found(ask, old, err);
    if (n_new == 1)
        return 0;
    return fail(err, ERR_DATA,
                "%zu new files match %s, here '%s', where one is expected: %s, %s%s; "
                "let the pattern say more",
                n_new, ask->option, ask->pattern, first, second, n_new > 2 ? " …" : "");
}

/* Syncs the file and its name to disk: a row that names it will be committed next. */
static int file_settle(const char *path, uint64_t *bytes, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno(err, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_DATA, "%s is no regular file", path);
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

/* The message names the difference first, and last the option that turns the check off. */
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

static int records_check(const struct collect *ask, struct collected *out, struct err *err)
{
    out->records = UINT64_MAX;
    if (!ask->is_counted)
        return 0;
    int rc = records_count(ask, out->path, &out->records, err);
    if (rc || ask->takes_any || out->records == ask->expect || out->records == UINT64_MAX)
        return rc;
    return count_is_wrong(ask, out, err);
}

int collect_find(const struct collect *ask, const struct file_traces *before, struct collected *out,
                 struct err *err)
{
    struct file_traces now = {0};
    const char *path = NULL;
    size_t n_found = 1;
    *out = (struct collected){0};
    int rc = traces_take(ask, &now, err);
    if (rc == 0)
        rc = one_choose(ask, before, &now, &path, &n_found, err);
    out->is_absent = ask->pattern && n_found == 0;
    if (rc == 0) {
        out->path = path_absolute(path);
        out->name = xstrdup(path);
        rc = file_settle(out->path, &out->bytes, err);
    }
    if (rc == 0)
        rc = records_check(ask, out, err);
    if (rc) {
        free(steal_ptr(&out->path));
        free(steal_ptr(&out->name));
    }
    file_traces_release(&now);
    return rc;
}
