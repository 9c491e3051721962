/* SPDX-License-Identifier: Apache-2.0
 *
 * One worker under its guard. The guard (program muster-guard, small and static) stays between
 * muster and the worker: it is session leader and subreaper, and holds its end of a death pipe.
 * When nothing of its worker is left it may get another one. If muster dies (EOF on the pipe), the
 * guard ends all its descendants: TERM, grace period, KILL. If the guard dies, the worker gets the
 * parent-death signal, and muster, itself a subreaper, adopts and ends the processes that are left.
 *
 * If muster and a guard are killed at the same moment, the worker is ended by its parent-death
 * signal, and the processes that the worker had started by the run's keeper (proc/keeper.h).
 *
 * All descriptors are close-on-exec and non-blocking on muster's side.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct spawn_opts {
    const char *guard_path;  /* the muster-guard executable */
    const char *const *argv; /* the worker, NULL-terminated; argv[0] is looked up in PATH */
    const char *const *envp; /* the worker's whole environment; MUSTER_GUARD is added. NULL:
                              * muster's own */
    const char *cwd;         /* NULL: inherit */
    const cpu_set_t
        *cpus; /* pin the worker to those of them that we may use; NULL or none: no pinning */
    uint64_t grace_ms; /* between TERM and KILL; 0 = 10000 */
    /* The worker's standard streams; the caller closes its copies afterwards. -1: /dev/null. */
    int stdin_fd, stdout_fd, stderr_fd;
    int channel_fd; /* the worker gets it as descriptor 3; -1: none */
    /* Locks: the guard holds copies until all its descendants are gone; the worker gets none. */
    const int *held_fds;
    size_t n_held_fds; /* at most GUARD_HELD_MAX */
    bool guard_stays;  /* the guard stays after GONE or EXEC_FAILED, for guard_start; else it
                        * ends then */
};

#define SPAWN_OPTS_INIT                                                    \
    {                                                                      \
        .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .channel_fd = -1 \
    }

struct guard {
    pid_t pid;      /* of the guard; -1: none */
    int pidfd;      /* readable when the guard has ended */
    int control_fd; /* death pipe and orders; closing it ends the worker and all its descendants */
    int report_fd;  /* struct guard_report messages */
    pid_t worker_pid; /* known from GUARD_STARTED on; -1 before */
};

#define GUARD_INIT                                                                  \
    {                                                                               \
        .pid = -1, .pidfd = -1, .control_fd = -1, .report_fd = -1, .worker_pid = -1 \
    }

/*
 * Reports come in this order: STARTED or EXEC_FAILED; EXITED; GONE. All have the same size. STARTED
 * arrives a few milliseconds after the start, or together with EXITED if the worker ends before
 * that.
 */
enum guard_report_kind {
    GUARD_STARTED = 1, /* value: the worker's pid */
    GUARD_EXEC_FAILED, /* value: errno; stage: which step */
    GUARD_EXITED,      /* the worker itself ended: exit_code or exit_signal */
    GUARD_GONE,        /* nothing is left; value: how many descendants had to be ended */
    GUARD_STUCK,       /* KILL was sent and something still lives (D state); value: a pid */
};

enum guard_stage {
    STAGE_NONE,
    STAGE_CHDIR,
    STAGE_FDS,
    STAGE_AFFINITY,
    STAGE_LIMITS, /* process group, parent-death signal, signal mask */
    STAGE_FORK,
    STAGE_EXEC,
};

struct guard_report {
    int32_t kind, stage;
    int32_t value;
    int32_t exit_code, exit_signal; /* one is meaningful, the other 0; signal 0 = exited */
    int64_t cpu_ms; /* user + system of the worker and reaped descendants; EXITED and GONE */
    int64_t rss_peak_bytes;
};

/*
 * Call it from the main thread. It clones (VM, VFORK, PIDFD), which takes 0.1 ms however much
 * memory muster uses.
 */
MUST_CHECK int guard_spawn(struct guard *guard, const struct spawn_opts *opts, struct err *err);
/*
 * Starts the next worker under a guard that stayed; the worker before it must be gone with all its
 * descendants. If the start fails, close the guard. opts->guard_path is not used.
 */
MUST_CHECK int guard_start(struct guard *guard, const struct spawn_opts *opts, struct err *err);
/* 1: a report was read; 0: none now; negative: the guard is dead (EOF) or reading failed. */
int guard_read(struct guard *guard, struct guard_report *report, struct err *err);
/* Order the guard to end its worker: politely (TERM, grace, KILL), or at once. Harmless on a dead
 * guard. */
void guard_terminate(struct guard *guard);
void guard_kill(struct guard *guard);
/*
 * Like guard_terminate, with another signal than TERM. Descendants that outlive the worker then get
 * TERM.
 */
void guard_terminate_by(struct guard *guard, int signal);
/* Like guard_terminate, but the guard ends afterwards, even if guard_stays was set. */
void guard_dismiss(struct guard *guard);
void guard_close(struct guard *guard);

/*
 * muster's own side of supervision. reaper_open makes this process a subreaper. This process must
 * have started all its children itself (front.h); those that exist already are never signalled.
 */
struct reaper;
MUST_CHECK int reaper_open(struct reaper **out, struct err *err);
/*
 * Add a guard to the children that the reaper expects. Do this before the next reaper_run: a child
 * that the reaper does not know may be taken for an orphan and killed.
 */
void reaper_add(struct reaper *reaper, pid_t pid);
/*
 * Add a child that is not a guard and ends when it is told to. The reaper reaps it, but never
 * signals it or waits for it.
 */
void reaper_spare(struct reaper *reaper, pid_t pid);
/*
 * Call after SIGCHLD. Reaps ended children; each one that was added is reported through `ended`
 * (with the wait status), which may spawn and add new children. Adopted orphans of dead guards are
 * ended with KILL and reaped. No other code in the process may wait for children.
 */
void reaper_run(struct reaper *reaper, void (*ended)(void *context, pid_t pid, int wait_status),
                void *context);
/*
 * End the adopted descendants that are left, and wait at most limit_ms for them and for the added
 * children that still live. `ended` is not called. Returns how many are still alive.
 */
size_t reaper_finish(struct reaper *reaper, uint64_t limit_ms);
void reaper_close(struct reaper *reaper);
