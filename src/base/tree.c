/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/env_list.h"
#include "base/xalloc.h"

struct walk {
    int (*visit)(void *context, const struct tree_entry *entry, struct err *err);
    void *context;
    struct buf path; /* of what is visited */
    size_t root_len;
};

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_itself_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int names_read(const char *path, struct env_list *out, struct err *err)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    if (!folder)
        return fail_errno(err, "read %s", path);
    for (errno = 0; (entry = readdir(folder)); errno = 0)
        if (!is_itself_or_parent(entry->d_name))
            env_list_add(out, xstrdup(entry->d_name));
    int rc = errno ? fail_errno(err, "read %s", path) : 0;
    closedir(folder);
    if (out->len > 0)
        qsort(out->at, out->len, sizeof(*out->at), by_bytes);
    return rc;
}

/* NOLINTBEGIN(misc-no-recursion): at most TREE_DEPTH_MAX deep */
static int entry_walk(struct walk *walk, unsigned depth, struct err *err);

static int folder_walk(struct walk *walk, unsigned depth, struct err *err)
{
    struct env_list names = {0};
    size_t len = walk->path.len;
    if (depth == TREE_DEPTH_MAX)
        return fail(err, ERR_DATA, "%s is deeper than %d folders", buf_text(&walk->path),
                    TREE_DEPTH_MAX);
    int rc = names_read(buf_text(&walk->path), &names, err);
    for (size_t i = 0; rc == 0 && i < names.len; i++) {
        buf_addf(&walk->path, "/%s", names.at[i]);
        rc = entry_walk(walk, depth + 1, err);
        walk->path.len = len;
        walk->path.at[len] = '\0';
    }
    env_list_release(&names);
    return rc;
}

static int entry_walk(struct walk *walk, unsigned depth, struct err *err)
{
    const char *path = buf_text(&walk->path), *slash = strrchr(path, '/');
    struct tree_entry entry = {.path = path,
                               .below = path + walk->root_len,
                               .name = slash ? slash + 1 : path,
                               .depth = depth};
    if ((depth == 0 ? stat(path, &entry.st) : lstat(path, &entry.st)) != 0)
        return fail_errno(err, "read %s", path);
    int rc = walk->visit(walk->context, &entry, err);
    if (rc == TREE_SKIP)
        return 0;
    return rc == 0 && S_ISDIR(entry.st.st_mode) ? folder_walk(walk, depth, err) : rc;
}
/* NOLINTEND(misc-no-recursion) */

int tree_walk(const char *root,
              int (*visit)(void *context, const struct tree_entry *entry, struct err *err),
              void *context, struct err *err)
{
    struct walk walk = {.visit = visit, .context = context, .root_len = strlen(root)};
    buf_add_text(&walk.path, root);
    int rc = entry_walk(&walk, 0, err);
    buf_release(&walk.path);
    return rc == TREE_END ? 0 : rc;
}
