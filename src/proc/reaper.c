/* SPDX-License-Identifier: Apache-2.0
 *
 * The second net: what a dead guard leaves is adopted by muster (a subreaper) and ended here.
 *
 * Who is ended: a child that was neither added nor there at the start, and that is proven ours: its
 * session was led by one of our guards, or its environment carries our marker, or nothing at all
 * was there before muster, so that every child descends from something muster started.
 *
 * Who is reaped: every child that has ended, whoever it is. A zombie holds nothing but its number,
 * only its parent can free that, and the parent is this process; so a child that muster starts must
 * be added before the next reaper_run and must not be waited for elsewhere.
 */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/guard.h"
#include "proc/guard_wire.h"
#include "proc/proctree.h"

enum {
    ENVIRON_MAX_BYTES = 4 << 20,
    WAIT_FIRST_MS = 1,
    WAIT_LAST_MS = 50
};

struct pids {
    pid_t *at;
    size_t n, cap;
};

struct reaper {
    struct pids added;  /* children muster started, alive */
    struct pids failed; /* guards that ended otherwise than with status 0, or have not yet */
    struct pids before; /* children that were there before muster */
    struct pids before_sessions; /* of them and their descendants: never signalled */
    bool nothing_before;
    bool scan_due; /* something ended that may have left orphans to us */
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

static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static int note_before(struct reaper *reaper, struct err *err)
{
    struct proctree tree = PROCTREE_INIT;
    if (!proctree_read(&tree)) {
        proctree_release(&tree);
        return fail(err, ERR_UNAVAILABLE,
                    "cannot read /proc: muster needs it to tell processes apart");
    }
    pid_t self = getpid();
    proctree_keep_below(&tree, self);
    for (size_t i = 0; i < tree.n; i++) {
        if (tree.at[i].parent == self)
            pids_add(&reaper->before, tree.at[i].pid);
        pids_add(&reaper->before_sessions, tree.at[i].session);
    }
    proctree_release(&tree);
    return 0;
}

int reaper_open(struct reaper **out, struct err *err)
{
    /* First subreaper, then look: whoever becomes ours in between is seen as having been there. */
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return fail_errno(err, "become a subreaper");
    struct reaper *reaper = xcalloc(1, sizeof(*reaper));
    reaper->nothing_before = !has_children();
    int rc = reaper->nothing_before ? 0 : note_before(reaper, err);
    if (rc) {
        reaper_close(reaper);
        return rc;
    }
    *out = reaper;
    return 0;
}

void reaper_add(struct reaper *reaper, pid_t pid)
{
    pids_add(&reaper->added, pid);
    pids_add(&reaper->failed, pid);
    /* The number is free for a new session only when nobody is left in the old one. */
    pids_remove(&reaper->before_sessions, pid);
}

void reaper_spare(struct reaper *reaper, pid_t pid)
{
    if (!pids_has(&reaper->before, pid))
        pids_add(&reaper->before, pid);
}

/* "muster pid.guard pid" pairs with commas; is one of them ours? */
static bool marker_is_ours(const struct reaper *reaper, struct str marker)
{
    struct str pair;
    for (struct str rest = marker; str_next(&rest, ',', &pair);) {
        char *end;
        long muster = strtol(pair.at, &end, 10);
        if (muster == getpid() && *end == '.' &&
            pids_has(&reaper->failed, (pid_t)strtol(end + 1, NULL, 10)))
            return true;
    }
    return false;
}

static bool environment_is_ours(const struct reaper *reaper, pid_t pid)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    cleanup_buf struct buf environment = BUF_INIT;
    if (file_read(path, ENVIRON_MAX_BYTES, &environment, NULL) != 0)
        return false;
    struct str entry;
    for (struct str rest = buf_str(&environment); str_next(&rest, '\0', &entry);)
        if (str_starts_with(entry, STR(GUARD_MARKER "=")))
            return marker_is_ours(reaper, (struct str){entry.at + sizeof(GUARD_MARKER),
                                                       entry.len - sizeof(GUARD_MARKER)});
    return false;
}

static bool is_orphan_of_ours(const struct reaper *reaper, const struct proc_stat *stat)
{
    if (stat->parent != getpid() || pids_has(&reaper->added, stat->pid) ||
        pids_has(&reaper->before, stat->pid))
        return false;
    if (reaper->nothing_before)
        return true;
    if (pids_has(&reaper->before_sessions, stat->session))
        return false;
    return pids_has(&reaper->failed, stat->session) || environment_is_ours(reaper, stat->pid);
}

/* KILL `root` and all below it. Its children become ours as it dies; those go at the next scan. */
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
    if (has_children() && proctree_read(&tree))
        for (size_t i = 0; i < tree.n; i++)
            if (is_orphan_of_ours(reaper, &tree.at[i]))
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
        /* A guard that ends well has seen to everything itself. */
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            pids_remove(&reaper->failed, pid);
        else
            reaper->scan_due = true;
        if (ended)
            ended(context, pid, status);
    } else if (!pids_remove(&reaper->before, pid)) {
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

size_t reaper_finish(struct reaper *reaper, uint64_t limit_ms)
{
    uint64_t end_ms = clock_now_ms() + limit_ms;
    uint64_t wait_ms = WAIT_FIRST_MS;
    for (;;) {
        reaper_run(reaper, NULL, NULL);
        /* Guards that still live are at their own work; they are waited for, not signalled. */
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
    free(reaper->failed.at);
    free(reaper->before.at);
    free(reaper->before_sessions.at);
    free(reaper);
}
