/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/orphans.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "proc/guard_wire.h"
#include "proc/proctree.h"

enum {
    ENVIRON_MAX_BYTES = 4 << 20
};

/* False for a zombie too: it can no longer end any process, and may never be reaped. */
static bool is_there(const struct proctree *tree, long pid)
{
    for (size_t i = 0; i < tree->n; i++)
        if (tree->at[i].pid == pid)
            return !proc_is_dead(&tree->at[i]);
    return false;
}

/*
 * The marker is "muster pid.guard pid,…", the innermost pair last. True if both processes of that
 * last pair are dead, so that neither will end this process.
 */
static bool is_unguarded(const struct proctree *tree, struct str marker)
{
    char text[64], *dot;
    const char *comma = memrchr(marker.at, ',', marker.len);
    const char *last = comma ? comma + 1 : marker.at;
    snprintf(text, sizeof(text), "%.*s", (int)(marker.at + marker.len - last), last);
    long muster = strtol(text, &dot, 10);
    long guard = *dot == '.' ? strtol(dot + 1, NULL, 10) : 0;
    return muster > 0 && guard > 0 && !is_there(tree, muster) && !is_there(tree, guard);
}

/*
 * True if the process's environment holds `entry`. *unguarded: its muster and its guard are dead.
 */
static bool environ_holds(const struct proctree *tree, pid_t pid, struct str entry, bool *unguarded)
{
    char path[64];
    bool holds = false;
    cleanup_buf struct buf environ_text = BUF_INIT;
    snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    *unguarded = false;
    if (file_read(path, ENVIRON_MAX_BYTES, &environ_text, NULL) != 0)
        return false;
    struct str rest = buf_str(&environ_text), one;
    while (str_next(&rest, '\0', &one)) {
        holds = holds || str_equal(one, entry);
        if (str_starts_with(one, STR(GUARD_MARKER "=")))
            *unguarded = is_unguarded(
                tree, (struct str){one.at + sizeof(GUARD_MARKER), one.len - sizeof(GUARD_MARKER)});
    }
    return holds;
}

size_t orphans_end(const char *entry, pid_t *one)
{
    struct proctree tree = PROCTREE_INIT;
    size_t count = 0;
    if (!proctree_read(&tree))
        return 0;
    for (size_t i = 0; i < tree.n; i++) {
        const struct proc_stat *stat = &tree.at[i];
        bool unguarded;
        if (stat->pid == getpid() || proc_is_dead(stat) ||
            !environ_holds(&tree, stat->pid, str_of(entry), &unguarded))
            continue;
        if (unguarded)
            proc_signal(stat, SIGKILL);
        *one = stat->pid;
        count++;
    }
    proctree_release(&tree);
    return count;
}
