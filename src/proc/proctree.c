/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proctree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

bool proc_is_dead(const struct proc_stat *stat)
{
    return stat->state == 'X' || (stat->state == 'Z' && stat->threads <= 1);
}

/* The n-th word of text, counted from 0; words are separated by one space. */
static const char *word(const char *text, int n)
{
    while (text && n-- > 0) {
        text = strchr(text, ' ');
        text = text ? text + 1 : NULL;
    }
    return text;
}

/* The name of a program may hold spaces and parentheses: the fields start after the last ')'. */
bool proc_stat_parse(const char *text, pid_t pid, struct proc_stat *out)
{
    const char *fields = strrchr(text, ')');
    if (!fields || fields[1] != ' ')
        return false;
    fields += 2;
    const char *start = word(fields, 19); /* field 22 of proc(5); fields[0] is field 3 */
    if (!start)
        return false;
    out->pid = pid;
    out->state = fields[0];
    out->parent = (pid_t)strtol(word(fields, 1), NULL, 10);
    out->group = (pid_t)strtol(word(fields, 2), NULL, 10);
    out->session = (pid_t)strtol(word(fields, 3), NULL, 10);
    out->terminal = (int)strtol(word(fields, 4), NULL, 10);
    out->threads = (int)strtol(word(fields, 17), NULL, 10);
    out->start_ticks = strtoull(start, NULL, 10);
    out->cpu_ticks = 0;
    for (int n = 11; n <= 14; n++) /* utime, stime, cutime, cstime */
        out->cpu_ticks += strtoull(word(fields, n), NULL, 10);
    return true;
}

bool proc_stat_read(pid_t pid, struct proc_stat *out)
{
    char path[32], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (got <= 0)
        return false;
    text[got] = '\0';
    return proc_stat_parse(text, pid, out);
}

/* Raw calls: glibc has wrappers only from 2.36 on. */
static int pidfd_open_raw(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool proc_signal(const struct proc_stat *stat, int signal)
{
    int pidfd = pidfd_open_raw(stat->pid);
    struct proc_stat now;
    /*
     * The descriptor was opened before the check, so the signal goes to the process checked here.
     */
    bool same = proc_stat_read(stat->pid, &now) && now.start_ticks == stat->start_ticks;
    bool sent = false;
    if (same && pidfd >= 0)
        sent = syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0) == 0;
    else if (same)
        sent = kill(stat->pid, signal) == 0;
    if (pidfd >= 0)
        close(pidfd);
    return sent;
}

bool proc_has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

static bool tree_add(struct proctree *tree, const struct proc_stat *stat)
{
    if (tree->n == tree->cap) {
        size_t cap = tree->cap ? 2 * tree->cap : 256;
        struct proc_stat *at = realloc(tree->at, cap * sizeof(*at));
        if (!at)
            return false;
        tree->at = at;
        tree->cap = cap;
    }
    tree->at[tree->n++] = *stat;
    return true;
}

bool proctree_read(struct proctree *tree)
{
    tree->n = 0;
    DIR *folder = opendir("/proc");
    if (!folder)
        return false;
    bool complete = true;
    for (struct dirent *entry; complete && (entry = readdir(folder));) {
        struct proc_stat stat;
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0' && proc_stat_read((pid_t)pid, &stat))
            complete = tree_add(tree, &stat);
    }
    closedir(folder);
    return complete;
}

/*
 * Breadth first, in place: at[0, kept) are known descendants; each child of theirs is swapped in.
 */
void proctree_keep_below(struct proctree *tree, pid_t root)
{
    size_t kept = 0;
    for (size_t parent_index = 0; parent_index <= kept; parent_index++) {
        pid_t parent = parent_index == 0 ? root : tree->at[parent_index - 1].pid;
        for (size_t i = kept; i < tree->n; i++) {
            if (tree->at[i].parent != parent)
                continue;
            struct proc_stat child = tree->at[i];
            tree->at[i] = tree->at[kept];
            tree->at[kept++] = child;
        }
    }
    tree->n = kept;
}

void proctree_release(struct proctree *tree)
{
    free(tree->at);
    *tree = (struct proctree)PROCTREE_INIT;
}
