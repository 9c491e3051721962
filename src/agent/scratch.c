/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "proc/guard.h"

enum {
    OWNER_BYTES_MAX = 16 * 1024 /* of text in the lock file */
};
static const char lock_name[] = ".lock", new_lock_name[] = ".lock.new";

/* The folder in which agents make their folders; free() it. */
static char *place_new(void)
{
    const char *tmp = getenv("TMPDIR");
    return path_absolute(tmp && *tmp ? tmp : "/tmp");
}

static char *prefix_new(void)
{
    return xasprintf("muster-agent-%u-", getuid());
}

static int lock_take(const char *folder, const char *name, int flags)
{
    cleanup_free char *path = path_join(folder, name);
    cleanup_fd int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | flags, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
        return -1;
    return steal_fd(&fd);
}

/*
 * Takes the lock before the file gets the name under which other agents look for it. -1: the file system has no
 * locks, so no other agent takes the folder for abandoned.
 */
static int lock_make(const char *folder, const struct scratch_owner *owner)
{
    cleanup_free char *made = path_join(folder, new_lock_name);
    cleanup_free char *path = path_join(folder, lock_name);
    cleanup_free char *text = xasprintf("%lu\n%s\n%s", owner->keep_ms, owner->head, owner->run);
    struct err ignored = {0};
    cleanup_fd int fd = lock_take(folder, new_lock_name, O_CREAT | O_EXCL);
    if (fd < 0 || write_all(fd, text, strlen(text), &ignored) != 0 || rename(made, path) != 0)
        return -1;
    return steal_fd(&fd);
}

int scratch_take(struct scratch *scratch, const struct scratch_owner *owner, struct reaper *reaper,
                 struct err *err)
{
    uint64_t number = 0;
    cleanup_free char *place = place_new(), *prefix = prefix_new();
    if (scratch->path)
        return 0;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        return fail_errno(err, "draw a random number");
    cleanup_free char *path = xasprintf("%s/%s%016lx", place, prefix, number);
    if (mkdir(path, 0700) != 0)
        return fail_errno(err, "make a folder in %s", place);
    scratch->lock_fd = lock_make(path, owner);
    scratch->path = steal_ptr(&path);
    /* If no keeper starts, another agent removes the folder. */
    if (keeper_start_for_folder(&scratch->keeper, scratch->path, owner->keep_ms, scratch->lock_fd,
                                NULL) == 0)
        reaper_spare(reaper, scratch->keeper.pid);
    return 0;
}

static void folder_remove(const char *path)
{
    struct err ignored = {0};
    (void)!remove_tree(path, &ignored);
}

/*
 * Starts the keeper of a folder that was taken over. It is started only now, because earlier it would be ended as a
 * process that a worker has left behind.
 */
static bool adopted_leave(const struct adopted_scratch *adopted)
{
    struct keeper keeper;
    if (keeper_start_for_folder(&keeper, adopted->path, adopted->keep_ms, adopted->lock_fd, NULL))
        return false;
    keeper_leave(&keeper);
    return true;
}

static void adopted_close(struct scratch *scratch, bool is_left)
{
    for (size_t i = 0; i < scratch->n_adopted; i++) {
        struct adopted_scratch *adopted = &scratch->adopted[i];
        if (!is_left || !adopted_leave(adopted))
            folder_remove(adopted->path);
        fd_close(&adopted->lock_fd);
        free(adopted->path);
    }
    free(steal_ptr(&scratch->adopted));
    scratch->n_adopted = 0;
}

void scratch_close(struct scratch *scratch, bool is_left)
{
    adopted_close(scratch, is_left);
    if (scratch->path && is_left && scratch->keeper.pid > 0) {
        keeper_leave(&scratch->keeper);
    } else if (scratch->path) {
        keeper_dismiss(&scratch->keeper);
        folder_remove(scratch->path);
    }
    fd_close(&scratch->lock_fd);
    free(steal_ptr(&scratch->path));
}

static void adopt(struct scratch *scratch, const char *path, uint64_t keep_ms, int lock_fd)
{
    scratch->adopted =
        xrealloc(scratch->adopted, (scratch->n_adopted + 1) * sizeof(*scratch->adopted));
    scratch->adopted[scratch->n_adopted++] =
        (struct adopted_scratch){xstrdup(path), lock_fd, keep_ms};
}

static void folder_judge(struct scratch *scratch, const char *path,
                         const struct scratch_owner *owner)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str rest, keep, head, run;
    struct stat st;
    uint64_t keep_ms = 0;
    cleanup_fd int fd = lock_take(path, lock_name, 0);
    if (fd < 0 || fstat(fd, &st) != 0 || file_read_fd(fd, path, OWNER_BYTES_MAX, &text, NULL) != 0)
        return;
    rest = buf_str(&text);
    bool is_read = str_next(&rest, '\n', &keep) && str_next(&rest, '\n', &head) &&
                   str_next(&rest, '\n', &run) &&
                   u64_parse(keep, 0, UINT64_MAX / 2, &keep_ms, NULL) == 0;
    int64_t age_ms = clock_wall_ms() - (int64_t)st.st_mtim.tv_sec * 1000;
    if (is_read && str_equal(head, str_of(owner->head)))
        adopt(scratch, path, owner->keep_ms, steal_fd(&fd));
    else if (!is_read || age_ms > (int64_t)keep_ms ||
             (run.len > 0 && str_equal(run, str_of(owner->run))))
        folder_remove(path);
}

void scratch_sweep(struct scratch *scratch, const struct scratch_owner *owner)
{
    cleanup_free char *place = place_new(), *prefix = prefix_new();
    const struct dirent *entry;
    struct stat st;
    DIR *folder = opendir(place);
    while (folder && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        cleanup_free char *path = path_join(place, entry->d_name);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid())
            folder_judge(scratch, path, owner);
    }
    if (folder)
        closedir(folder);
}

bool scratch_is_full(const struct scratch *scratch)
{
    return scratch->path && disk_is_full(scratch->path);
}
