/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/xalloc.h"
#include "node/bundle.h"

enum {
    KEPT_MIN = 4,            /* at least so many programs stay, whatever their age */
    UNUSED_S = 24 * 60 * 60, /* a program in use is touched once an hour */
    TOUCHED_S = 30 * 60,     /* a newer touch is not renewed */
    NAME_CHARS = BUNDLE_HASH_BYTES - 1
};

struct kept {
    char *path;
    struct timespec used;
};

/* ---- old programs ---- */

static bool is_bundle_name(const char *name)
{
    size_t len = 0;
    while (hex_digit(name[len]) >= 0)
        len++;
    return len == NAME_CHARS && name[len] == '\0';
}

/* A folder of an unfinished installation or removal; its agent may have been killed. */
static bool is_temporary(const char *name)
{
    return strncmp(name, "new-", 4) == 0 || strncmp(name, "old-", 4) == 0;
}

static bool is_unused(struct timespec used)
{
    return time(NULL) - used.tv_sec > UNUSED_S;
}

static int latest_first(const void *a, const void *b)
{
    struct timespec x = ((const struct kept *)a)->used, y = ((const struct kept *)b)->used;
    return x.tv_sec != y.tv_sec ? (x.tv_sec < y.tv_sec) - (x.tv_sec > y.tv_sec)
                                : (x.tv_nsec < y.tv_nsec) - (x.tv_nsec > y.tv_nsec);
}

static void tree_drop(const char *path)
{
    struct err err;
    int rc = remove_tree(path, &err);
    (void)rc; /* a later call removes the rest */
}

/*
 * Another agent may have begun to use the program since this agent looked at it. So the folder is first renamed, and
 * gets its name back if it was touched in the meantime.
 */
static void kept_remove(const struct kept *kept, const char *cache)
{
    cleanup_free char *old_path =
        xasprintf("%s/old-%s-%d", cache, path_basename(kept->path), getpid());
    struct stat st;
    if (rename(kept->path, old_path) != 0)
        return;
    bool is_used = stat(old_path, &st) == 0 && !is_unused(st.st_mtim);
    if (!is_used || rename(old_path, kept->path) != 0)
        tree_drop(old_path);
}

/* Removes old programs. Nothing depends on their removal, so no failure is reported. */
static void cache_clean(const char *cache)
{
    DIR *entries = opendir(cache);
    const struct dirent *entry;
    struct kept *kept = NULL;
    size_t n = 0;
    while (entries && (entry = readdir(entries))) {
        struct stat st;
        char *path = path_join(cache, entry->d_name);
        bool is_there = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
        if (is_there && is_bundle_name(entry->d_name)) {
            kept = xrealloc(kept, (n + 1) * sizeof(*kept));
            kept[n++] = (struct kept){steal_ptr(&path), st.st_mtim};
        } else if (is_there && is_temporary(entry->d_name) && is_unused(st.st_mtim)) {
            tree_drop(path);
        }
        free(path);
    }
    if (entries)
        closedir(entries);
    if (n > 0)
        qsort(kept, n, sizeof(*kept), latest_first);
    for (size_t i = 0; i < n; i++) {
        if (i >= KEPT_MIN && is_unused(kept[i].used))
            kept_remove(&kept[i], cache);
        free(kept[i].path);
    }
    free(kept);
}

/* ---- a new one ---- */

static int path_sync(const char *path, struct err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0 ? 0 : fail_errno(err, "sync %s", path);
}

/* Writes all files to the disk, so that after a power cut there is the whole program or none. */
static int bundle_sync(const struct bundle *bundle, const char *folder, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < bundle->n_files; i++)
        rc = path_sync(bundle->files[i].path, err);
    return rc ? rc : path_sync(folder, err);
}

static bool is_whole(const char *folder, const char *name)
{
    struct bundle bundle;
    struct err ignored = {0};
    bool is = bundle_of_folder(folder, &bundle, &ignored) == 0 && strcmp(bundle.name, name) == 0;
    bundle_release(&bundle);
    return is;
}

/* Gives the folder its final name. Returns true also if another agent was faster. On false, errno has the reason. */
static bool place_try(const char *folder, const char *target)
{
    bool is_placed = rename(folder, target) == 0;
    int number = errno;
    if (!is_placed && (number == EEXIST || number == ENOTEMPTY))
        is_placed = is_whole(target, path_basename(target));
    errno = number;
    return is_placed;
}

/* Gives the folder its final name. An older folder of this name that lacks files is replaced. */
static int kept_place(const char *folder, const char *target, struct err *err)
{
    const char *name = path_basename(target);
    cleanup_free char *cache = path_dirname(target);
    cleanup_free char *old_path = xasprintf("%s/old-%s-%d", cache, name, getpid());
    if (place_try(folder, target))
        return 0;
    bool is_moved = rename(target, old_path) == 0;
    int rc = place_try(folder, target) ? 0 : fail_errno(err, "rename %s to %s", folder, name);
    if (is_moved)
        tree_drop(old_path);
    return rc;
}

int kept_install(const char *self_path, const char *name, struct err *err)
{
    cleanup_free char *folder = path_dirname(self_path), *cache = path_dirname(folder);
    cleanup_free char *target = path_join(cache, name);
    struct bundle bundle;
    if (!is_bundle_name(name) || !is_temporary(path_basename(folder)))
        return fail(err, ERR_USAGE, "muster installs itself on hosts (muster map --hosts)");
    int rc = bundle_of_folder(folder, &bundle, err);
    if (rc)
        return rc;
    if (strcmp(bundle.name, name) != 0)
        rc = fail(err, ERR_DATA, "the files in %s are not those that were sent", folder);
    if (rc == 0)
        rc = bundle_sync(&bundle, folder, err);
    if (rc == 0)
        rc = kept_place(folder, target, err);
    if (rc == 0)
        cache_clean(cache);
    bundle_release(&bundle);
    return rc;
}

static int touch_one(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    (void)st, (void)flag, (void)where;
    (void)utimensat(AT_FDCWD, path, NULL, 0);
    return 0;
}

/* Touches all files of the program, because programs that clean /tmp look at each file. */
void kept_touch(const char *self_path)
{
    cleanup_free char *folder = path_dirname(self_path);
    struct stat st;
    if (stat(folder, &st) != 0 || time(NULL) - st.st_mtim.tv_sec > TOUCHED_S)
        (void)nftw(folder, touch_one, 4, FTW_PHYS);
}
