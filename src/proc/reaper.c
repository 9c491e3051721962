/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that a dead guard leaves are adopted by muster (a subreaper) and ended here.
 *
 * The reaper ends every child that was neither added nor spared, and that did not exist when the
 * reaper was opened. Such a child descends from a process that this process has started: children
 * that muster got from its caller belong to another process, the front (front.h).
 *
 * The reaper reaps every child that has ended. A zombie holds nothing but its pid, which only its
 * parent, this process, can free. So a child that muster starts must be added or spared before the
 * next reaper_run, and must not be waited for elsewhere.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "proc/guard.h"
#include "proc/proctree.h"

enum {
    GUARD_LOOKS_MAX = 40, /* with the pauses: ten milliseconds */
    GUARD_PAUSE_NS = 250000,
    WAIT_FIRST_MS = 1,
    WAIT_LAST_MS = 50
};

struct pids {
    pid_t *at;
    size_t n, cap;
};

struct reaper {
    struct pids added;  /* guards that live */
    struct pids spared; /* other living children, such as a device helper that hangs */
    bool scan_due;      /* a process ended that may have left orphans to us */
};

static bool pids_has(const struct pids *pids, pid_t pid)
{
    for (size_t i = 0; i < pids->n; i++)
        if (pids->at[i] == pid)
            return true;
    return false;
}

static void pids_add(struct pids *pids, pid_t pid)
{
    if (pids_has(pids, pid))
        return;
    if (pids->n == pids->cap) {
        pids->cap = pids->cap ? 2 * pids->cap : 16;
        pids->at = xrealloc(pids->at, pids->cap * sizeof(*pids->at));
    }
    pids->at[pids->n++] = pid;
}

static bool pids_remove(struct pids *pids, pid_t pid)
{
    for (size_t i = 0; i < pids->n; i++) {
        if (pids->at[i] != pid)
            continue;
        pids->at[i] = pids->at[--pids->n];
        return true;
    }
    return false;
}

int reaper_open(struct reaper **out, struct err *err)
{
    struct proctree tree = PROCTREE_INIT;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return fail_errno(err, "become a subreaper");
    struct reaper *reaper = *out = xcalloc(1, sizeof(*reaper));
    if (proc_has_children() && proctree_read(&tree))
        for (size_t i = 0; i < tree.n; i++)
            if (tree.at[i].parent == getpid())
                reaper_spare(reaper, tree.at[i].pid);
    proctree_release(&tree);
    return 0;
}

void reaper_add(struct reaper *reaper, pid_t pid)
{
    pids_add(&reaper->added, pid);
}

void reaper_spare(struct reaper *reaper, pid_t pid)
{
    pids_add(&reaper->spared, pid);
}

static bool is_orphan(const struct reaper *reaper, const struct proc_stat *stat)
{
    return stat->parent == getpid() && !pids_has(&reaper->added, stat->pid) &&
           !pids_has(&reaper->spared, stat->pid);
}

/*
 * Kills `root` and its descendants in `all`. A newer child becomes muster's when its parent dies;
 * the next scan ends it.
 */
static size_t end_below(const struct proctree *all, const struct proc_stat *root)
{
    size_t alive = 0;
    struct proctree below = {.at = xmalloc(all->n * sizeof(*all->at)), .n = all->n, .cap = all->n};
    memcpy(below.at, all->at, all->n * sizeof(*all->at));
    proctree_keep_below(&below, root->pid);
    alive += !proc_is_dead(root) && proc_signal(root, SIGKILL);
    for (size_t i = 0; i < below.n; i++)
        alive += !proc_is_dead(&below.at[i]) && proc_signal(&below.at[i], SIGKILL);
    proctree_release(&below);
    return alive;
}

/* Returns how many orphans were found alive. */
static size_t end_orphans(struct reaper *reaper)
{
    struct proctree tree = PROCTREE_INIT;
    size_t alive = 0;
    if (proc_has_children() && proctree_read(&tree))
        for (size_t i = 0; i < tree.n; i++)
            if (is_orphan(reaper, &tree.at[i]))
                alive += end_below(&tree, &tree.at[i]);
    proctree_release(&tree);
    return alive;
}

static void reap_one(struct reaper *reaper, pid_t pid,
                     void (*ended)(void *context, pid_t pid, int wait_status), void *context)
{
    int status = 0;
    if (waitpid(pid, &status, WNOHANG | __WALL) != pid)
        return;
    if (pids_remove(&reaper->added, pid)) {
        /* A guard that exits with status 0 has ended all its descendants itself. */
        reaper->scan_due = reaper->scan_due || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        if (ended)
            ended(context, pid, status);
    } else if (!pids_remove(&reaper->spared, pid)) {
        reaper->scan_due = true;
    }
}

void reaper_run(struct reaper *reaper, void (*ended)(void *context, pid_t pid, int wait_status),
                void *context)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || info.si_pid == 0)
            break;
        reap_one(reaper, info.si_pid, ended, context);
    }
    if (!reaper->scan_due)
        return;
    reaper->scan_due = false;
    end_orphans(reaper);
}

/* Guards without a worker end within a millisecond. While there is a child, all of /proc is read, which takes longer. */
static void guards_await(struct reaper *reaper)
{
    reaper_run(reaper, NULL, NULL);
    for (unsigned n = 0; reaper->added.n > 0 && n < GUARD_LOOKS_MAX; n++) {
        nanosleep(&(struct timespec){.tv_nsec = GUARD_PAUSE_NS}, NULL);
        reaper_run(reaper, NULL, NULL);
    }
}

size_t reaper_finish(struct reaper *reaper, uint64_t limit_ms)
{
    guards_await(reaper);
    uint64_t end_ms = clock_now_ms() + limit_ms;
    uint64_t wait_ms = WAIT_FIRST_MS;
    for (;;) {
        reaper_run(reaper, NULL, NULL);
        /* Guards that still live are ending their workers; they are waited for, not signalled. */
        size_t alive = end_orphans(reaper) + reaper->added.n;
        uint64_t now = clock_now_ms();
        if (alive == 0 || now >= end_ms)
            return alive;
        uint64_t nap_ms = MIN(wait_ms, end_ms - now);
        nanosleep(&(struct timespec){.tv_nsec = (long)nap_ms * 1000000}, NULL);
        wait_ms = MIN(2 * wait_ms, WAIT_LAST_MS);
    }
}

void reaper_close(struct reaper *reaper)
{
    if (!reaper)
        return;
    free(reaper->added.at);
    free(reaper->spared.at);
    free(reaper);
}
