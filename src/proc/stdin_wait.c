/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/stdin_wait.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/proctree.h"

enum {
    CHAIN_MAX = 8 /* a script that runs a script … */
};

/* Reads the first line of /proc/PID/WHAT. False: the kernel does not show it. */
static bool proc_line(pid_t pid, const char *what, char line[128])
{
    char path[64];
    line[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
    cleanup_file FILE *file = fopen(path, "re");
    return file && (fgets(line, 128, file) || !ferror(file));
}

/* /proc/PID/syscall reads "NUMBER ARG0 …" for a thread blocked in a system call; the number of
 * read() is 0 on x86-64 and 63 on arm64. */
static int reads_stdin(pid_t pid)
{
    char text[128];
    if (!proc_line(pid, "syscall", text) || !text[0])
        return -1;
    return strncmp(text, "0 0x0 ", 6) == 0 || strncmp(text, "63 0x0 ", 7) == 0;
}

/* Adds the children of all its threads. */
static void children_add(pid_t pid, struct buf *pids)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    if (!folder)
        return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        cleanup_free char *list = xasprintf("%s/%s/children", path, entry->d_name);
        cleanup_file FILE *file = entry->d_name[0] == '.' ? NULL : fopen(list, "re");
        for (pid_t child; file && fscanf(file, "%d", &child) == 1;)
            buf_add(pids, &child, sizeof(child));
    }
    closedir(folder);
}

static pid_t pid_at(const struct buf *pids, size_t at)
{
    pid_t pid;
    memcpy(&pid, pids->at + at, sizeof(pid));
    return pid;
}

/* Adds all descendants; without the `children` files, by a look at all processes of the machine. */
static bool descendants_add(pid_t root, struct buf *pids)
{
    if (path_exists("/proc/thread-self/children")) {
        children_add(root, pids);
        for (size_t at = 0; at < pids->len; at += sizeof(pid_t))
            children_add(pid_at(pids, at), pids);
        return true;
    }
    struct proctree tree = PROCTREE_INIT;
    bool is_read = proctree_read(&tree);
    proctree_keep_below(&tree, root);
    for (size_t i = 0; i < tree.n; i++)
        buf_add(pids, &tree.at[i].pid, sizeof(pid_t));
    proctree_release(&tree);
    return is_read;
}

static bool waits_for_child(pid_t pid)
{
    char text[128];
    unsigned long number = 0;
    if (!proc_line(pid, "syscall", text) || sscanf(text, "%lu ", &number) != 1)
        return false;
    return number == SYS_wait4 || number == SYS_waitid;
}

static bool is_in_read(pid_t pid)
{
    char text[128];
    unsigned long number = 0;
    return proc_line(pid, "syscall", text) && sscanf(text, "%lu ", &number) == 1 &&
           number == SYS_read;
}

static bool has_one_thread(pid_t pid)
{
    struct proc_stat stat;
    return proc_stat_read(pid, &stat) && stat.threads == 1;
}

static bool reads_from(pid_t pid, int pipe_fd)
{
    char path[64];
    struct stat theirs, ours;
    snprintf(path, sizeof(path), "/proc/%d/fd/0", pid);
    return stat(path, &theirs) == 0 && fstat(pipe_fd, &ours) == 0 && theirs.st_dev == ours.st_dev &&
           theirs.st_ino == ours.st_ino;
}

/*
 * The last of a chain in which each process has one thread and waits for its only child; 0: there
 * is no such chain, or the kernel does not show it. Each process is examined before its child: if
 * the child still exists when it is examined, its parent has been waiting for it all the time.
 */
static pid_t chain_end(pid_t pid)
{
    for (int depth = 0; depth < CHAIN_MAX; depth++) {
        char path[64], children[128];
        int child, another;
        snprintf(path, sizeof(path), "task/%d/children", pid);
        if (!has_one_thread(pid) || !proc_line(pid, path, children))
            return 0;
        int n_children = sscanf(children, "%d %d", &child, &another);
        if (n_children < 1)
            return pid;
        if (n_children > 1 || !waits_for_child(pid))
            return 0;
        pid = child;
    }
    return 0;
}

bool proc_waits_for_stdin(pid_t pid, int pipe_fd)
{
    pid_t last = chain_end(pid);
    return last > 0 && reads_stdin(last) == 1 && reads_from(last, pipe_fd);
}

/* False if the process is blocked in another call: that may be a wait for input, such as poll(). */
static bool computes_or_sleeps(pid_t pid)
{
    char text[128];
    long number = -1;
    if (!proc_line(pid, "syscall", text))
        return false;
    bool is_blocked = sscanf(text, "%ld ", &number) == 1;
    return strncmp(text, "running", 7) == 0 ||
           (is_blocked && (number == SYS_clock_nanosleep || number == SYS_nanosleep));
}

static bool has_ended(pid_t pid)
{
    struct proc_stat stat;
    return proc_stat_read(pid, &stat) ? proc_is_dead(&stat) : kill(pid, 0) != 0 && errno == ESRCH;
}

bool proc_is_at_work(pid_t pid)
{
    if (has_ended(pid))
        return true;
    pid_t last = chain_end(pid);
    return last > 0 && computes_or_sleeps(last);
}

int proc_reads_stdin(pid_t root)
{
    cleanup_buf struct buf pids = BUF_INIT;
    int found = reads_stdin(root);
    if (found == 0)
        (void)descendants_add(root, &pids);
    for (size_t at = 0; at < pids.len && found == 0; at += sizeof(pid_t))
        found = reads_stdin(pid_at(&pids, at)) == 1;
    return found;
}

static bool is_idle(pid_t pid)
{
    return has_one_thread(pid) && (is_in_read(pid) || waits_for_child(pid));
}

bool proc_is_idle(pid_t root)
{
    cleanup_buf struct buf pids = BUF_INIT;
    bool idle = is_idle(root) && descendants_add(root, &pids);
    for (size_t at = 0; at < pids.len && idle; at += sizeof(pid_t))
        idle = has_ended(pid_at(&pids, at)) || is_idle(pid_at(&pids, at));
    return idle;
}
