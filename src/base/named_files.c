/* SPDX-License-Identifier: Apache-2.0 */
#include "base/named_files.h"

#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/outfile.h"
#include "base/xalloc.h"

/* The real path of what exists, and behind it the names of what does not. As deep as the path has folders. */
static char *canonical_new(const char *path) /* NOLINT(misc-no-recursion) */
{
    cleanup_free char *base = output_base_new(path);
    char *real = realpath(base, NULL);
    cleanup_free char *absolute = path_absolute(base);
    if (real || absolute[0] != '/' || !absolute[1])
        return real ? real : xstrdup(base);
    cleanup_free char *folder = path_dirname(absolute);
    cleanup_free char *real_folder = canonical_new(folder);
    return path_join(real_folder, path_basename(absolute));
}

bool path_is_same(const char *a, const char *b)
{
    struct stat x, y;
    bool has_a = stat(a, &x) == 0, has_b = stat(b, &y) == 0;
    if (has_a && has_b)
        return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    if (has_a || has_b)
        return false;
    cleanup_free char *real_a = canonical_new(a), *real_b = canonical_new(b);
    return strcmp(real_a, real_b) == 0;
}

bool path_is_within(const char *path, const char *folder)
{
    cleanup_free char *x = canonical_new(path), *y = canonical_new(folder);
    size_t len = strlen(y);
    return strncmp(x, y, len) == 0 && (x[len] == '\0' || x[len] == '/' || y[len - 1] == '/');
}

static int same_fail(const struct named_file *one, const struct named_file *other, struct err *err)
{
    if (strcmp(one->name, other->name) == 0)
        return fail(err, ERR_USAGE, "%s: two of %s are the same file; name another one",
                    other->path, one->name);
    return fail(err, ERR_USAGE, "%s: %s and %s are the same file; name another one", other->path,
                one->name, other->name);
}

int named_files_check(const struct named_file *files, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct named_file *written = &files[i];
        if (!written->is_written || !written->path || output_is_direct(written->path))
            continue;
        for (size_t k = 0; k < n; k++)
            if (k != i && files[k].path && (k < i || !files[k].is_written) &&
                !output_is_direct(files[k].path) && path_is_same(written->path, files[k].path))
                return same_fail(&files[k], written, err);
    }
    return 0;
}

int named_files_free(const struct named_file *files, size_t n, bool overwrite, struct err *err)
{
    int rc = named_files_check(files, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (files[i].is_written && files[i].path)
            rc = output_check_free(files[i].path, overwrite, err);
    return rc;
}
