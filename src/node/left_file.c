/* SPDX-License-Identifier: Apache-2.0 */
#include "node/left_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

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

/* Does the errno mean that the folder or file is not there? Another errno tells nothing about that. */
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

static int traces_take(const struct left_ask *ask, struct file_traces *out, struct err *err)
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

int left_files_before(const struct left_ask *ask, struct file_traces *before, struct err *err)
{
    *before = (struct file_traces){0};
    return traces_take(ask, before, err);
}

static bool was_there(const struct left_ask *ask, const struct file_traces *before,
                      const struct file_trace *trace)
{
    if (trace->mtime_ns < ask->since_ns)
        return true;
    for (size_t i = 0; i < before->len; i++)
        if (is_same_trace(&before->at[i], trace))
            return true;
    return false;
}

static int none_found(const struct left_ask *ask, const char *old, struct err *err)
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

static int one_choose(const struct left_ask *ask, const struct file_traces *before,
                      const struct file_traces *now, const struct file_trace **chosen,
                      size_t *n_found, struct err *err)
{
    const struct file_trace *first = NULL;
    const char *old = NULL, *second = NULL;
    size_t n_new = 0;
    for (size_t i = 0; i < now->len; i++) {
        if (was_there(ask, before, &now->at[i])) {
            old = now->at[i].path;
            continue;
        }
        if (n_new++ == 0)
            first = &now->at[i];
        else
            second = now->at[i].path;
    }
    *chosen = first;
    *n_found = n_new;
    if (n_new == 0)
        return none_found(ask, old, err);
    if (n_new == 1)
        return 0;
    return fail(err, ERR_DATA,
                "%zu new files match %s, here '%s', where one is expected: %s, %s%s; "
                "let the pattern say more",
                n_new, ask->option, ask->pattern, first->path, second, n_new > 2 ? " …" : "");
}

void left_file_release(struct left_file *file)
{
    free(file->name);
    free(file->trace.path);
    *file = (struct left_file){0};
}

int left_file_find(const struct left_ask *ask, const struct file_traces *before,
                   struct left_file *out, struct err *err)
{
    struct file_traces now = {0};
    const struct file_trace *chosen = NULL;
    size_t n_found = 1;
    *out = (struct left_file){0};
    int rc = traces_take(ask, &now, err);
    if (rc == 0)
        rc = one_choose(ask, before, &now, &chosen, &n_found, err);
    out->is_absent = ask->pattern && n_found == 0;
    if (rc == 0 && chosen) {
        out->name = xstrdup(chosen->path);
        out->trace = *chosen;
        out->trace.path = path_absolute(chosen->path);
    }
    file_traces_release(&now);
    if (rc == 0 && disk_is_full(out->trace.path)) {
        rc = fail(err, ERR_STOPPED, "its disk is full, and %s may have been cut short",
                  out->trace.path);
        err->sys = ENOSPC;
        left_file_release(out);
    }
    return rc;
}

static int changed_fail(const char *path, struct err *err)
{
    int rc = fail(err, ERR_UNAVAILABLE, "%s has changed since its program ended", path);
    if (err)
        err->sys = ESTALE;
    return rc;
}

bool left_file_is_other(const struct err *err)
{
    return err->code == ERR_UNAVAILABLE && (err->sys == ESTALE || err->sys == ENOENT);
}

int left_file_unchanged(const struct file_trace *trace, int fd, struct err *err)
{
    struct stat st;
    struct file_trace now = {.path = trace->path};
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "look at %s", trace->path);
    trace_of(&st, &now);
    return is_same_trace(trace, &now) ? 0 : changed_fail(trace->path, err);
}

int file_trace_open(const char *path, struct file_trace *now, int *fd, struct err *err)
{
    struct stat st;
    cleanup_fd int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
    if (opened < 0 && errno == ELOOP)
        return fail(err, ERR_DATA, "%s is a link, and links are not followed between hosts", path);
    if (opened < 0)
        return fail_errno_as(err, errno == ENOENT ? ERR_UNAVAILABLE : ERR_DATA, "open %s", path);
    if (fstat(opened, &st) != 0)
        return fail_errno(err, "look at %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_DATA, "%s is no regular file", path);
    *now = (struct file_trace){.path = xstrdup(path)};
    trace_of(&st, now);
    *fd = steal_fd(&opened);
    return 0;
}

int left_file_open(const struct file_trace *trace, int *fd, struct err *err)
{
    struct file_trace now = {0};
    int rc = file_trace_open(trace->path, &now, fd, err);
    if (rc == 0 && now.path && !is_same_trace(trace, &now)) {
        fd_close(fd);
        rc = changed_fail(trace->path, err);
    }
    free(now.path);
    return rc;
}
