/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of processes, read from /proc. Used to end what a dead process left behind; not for
 * anything frequent: a snapshot takes about 10 us for each process of the machine. (The `children`
 * files of /proc would be cheaper, but not every kernel has them, and they may miss children while
 * processes come and go.) It needs only libc, because muster-guard links it too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    pid_t pid, parent, group, session;
    int terminal; /* 0: none */
    int threads;
    char state; /* as in proc(5): R S D Z T … */
    uint64_t
        start_ticks;    /* since boot; with pid it identifies a process even if the pid is reused */
    uint64_t cpu_ticks; /* used by it, and by children that it has waited for */
};

struct proctree {
    struct proc_stat *at;
    size_t n, cap;
};

#define PROCTREE_INIT \
    {                 \
        0             \
    }

/*
 * Zombies and processes on their way out hold nothing any more. (A process whose first thread has
 * ended shows as a zombie too, but has other threads.)
 */
bool proc_is_dead(const struct proc_stat *stat);
/* What /proc/PID/stat says. False if it is malformed. */
bool proc_stat_parse(const char *text, pid_t pid, struct proc_stat *out);
/* False if there is no such process (any more). */
bool proc_stat_read(pid_t pid, struct proc_stat *out);
/* Signal exactly that process. False, and no signal sent, if its pid has been reused. */
bool proc_signal(const struct proc_stat *stat, int signal);

/* Has this process a child, living or dead? */
bool proc_has_children(void);

/* All processes that /proc shows. False: no /proc, or no memory. */
bool proctree_read(struct proctree *tree);
/* Keep only the descendants of root (not root itself), parents before their children. */
void proctree_keep_below(struct proctree *tree, pid_t root);
void proctree_release(struct proctree *tree);
