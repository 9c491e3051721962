/* SPDX-License-Identifier: Apache-2.0 */
#include "store/orders.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "store/lock.h"

static const char *const stop_words[] = {[STOP_DRAIN] = "drain", [STOP_NOW] = "now"};

/* Does the process belong to the owner of the lock file that names it? Users can write any pid into
 * files of their own. */
static bool is_of_owner(const struct run_holder *holder)
{
    char path[32];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d", (int)holder->pid);
    return stat(path, &st) == 0 && st.st_uid == holder->owner;
}

/* Signals through a pidfd, and only if the same pid still holds the lock after the pidfd was
 * opened. So the signal cannot reach another process that was given the same pid since. */
static void signal_holder(const char *dir, pid_t pid)
{
    struct run_holder holder;
    cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd >= 0 && run_is_locked(dir, &holder) && holder.is_here && holder.pid == pid &&
        is_of_owner(&holder))
        syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, NULL, 0);
}

static int order_write(const char *dir, const char *name, struct str text, bool *was_running,
                       struct err *err)
{
    struct run_holder holder = {0};
    *was_running = run_is_locked(dir, &holder);
    if (!*was_running)
        return 0;
    cleanup_free char *path = path_join(dir, name);
    int rc = file_replace_fast(path, text, err);
    if (rc == 0 && holder.is_here)
        signal_holder(dir, holder.pid);
    return rc;
}

int run_stop(const char *dir, enum stop_how how, bool *was_running, struct err *err)
{
    cleanup_free char *content = xasprintf("%s\n", stop_words[how]);
    return order_write(dir, "stop", str_of(content), was_running, err);
}

bool run_stop_asked(const char *dir, enum stop_how *how)
{
    cleanup_free char *path = path_join(dir, "stop");
    cleanup_buf struct buf text = BUF_INIT;
    if (plain_file_read(path, 4096, &text, NULL) != 0)
        return false;
    /* A file with any other content, such as an empty one made with touch, asks for the gentler
     * stop. */
    *how = str_equal(str_trim(buf_str(&text)), STR("now")) ? STOP_NOW : STOP_DRAIN;
    return true;
}

/* ---- orders that are carried out once ---- */

int run_order_give(const char *dir, struct str text, char name[ORDER_NAME_MAX], bool *was_running,
                   struct err *err)
{
    uint32_t number = 0;
    if (text.len > ORDER_MAX_BYTES)
        return fail(err, ERR_USAGE, "the order is longer than %d bytes", ORDER_MAX_BYTES);
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint32_t)getpid();
    snprintf(name, ORDER_NAME_MAX, "order-%013lld-%08x", (long long)clock_wall_ms(), number);
    return order_write(dir, name, text, was_running, err);
}

/* Is it the name of a complete order? While an order is written, its file has another name. */
static bool is_order(const char *name)
{
    size_t len = strlen(name);
    return strncmp(name, "order-", 6) == 0 && len < ORDER_NAME_MAX &&
           (len < 4 || strcmp(name + len - 4, ".new") != 0);
}

/* Finds the oldest order after `name`. */
static int next_find(const char *dir, char name[ORDER_NAME_MAX], struct err *err)
{
    char before[ORDER_NAME_MAX];
    snprintf(before, sizeof(before), "%s", name);
    DIR *folder = opendir(dir);
    name[0] = '\0';
    if (!folder)
        return fail_errno(err, "open %s", dir);
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (is_order(entry->d_name) && strcmp(entry->d_name, before) > 0 &&
            (!name[0] || strcmp(entry->d_name, name) < 0))
            snprintf(name, ORDER_NAME_MAX, "%s", entry->d_name);
    closedir(folder);
    return 0;
}

int run_order_take(const char *dir, char name[ORDER_NAME_MAX], struct buf *text, struct err *err)
{
    int rc = next_find(dir, name, err);
    if (rc || !name[0])
        return rc;
    cleanup_free char *path = path_join(dir, name);
    rc = ours_check_file(path, err);
    if (rc == 0)
        rc = plain_file_read(path, ORDER_MAX_BYTES, text, err);
    if (unlink(path) != 0) /* otherwise it would be carried out again and again */
        return fail_errno_as(err, ERR_SYS, "remove %s", path);
    return rc;
}

/* Either this call or run_order_take() removes the file; the one that does wins. */
bool run_order_withdraw(const char *dir, const char *name)
{
    cleanup_free char *path = path_join(dir, name);
    return unlink(path) == 0;
}

int run_orders_drop(const char *dir, struct err *err)
{
    cleanup_free char *stop = path_join(dir, "stop");
    char name[ORDER_NAME_MAX] = "";
    if (unlink(stop) != 0 && errno != ENOENT)
        return fail_errno(err, "remove %s", stop);
    int rc = next_find(dir, name, err);
    while (rc == 0 && name[0]) {
        cleanup_free char *path = path_join(dir, name);
        if (unlink(path) != 0)
            return fail_errno(err, "remove %s", path);
        rc = next_find(dir, name, err);
    }
    return rc;
}
