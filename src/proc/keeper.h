/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper: a process that does nothing but wait for muster's end. When muster and a guard are
 * killed at the same moment, no other process is left to end what that guard's worker had started.
 * The keeper ends it (orphans_end), and then itself. Each run has one, in a session of its own.
 *
 * The process is not called muster, so that a kill by that name spares it. It does not help if it
 * is killed too, nor against a process that has dropped the environment variable by which it would
 * be recognised.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct keeper {
    pid_t pid;   /* 0: none */
    int fd;      /* muster's end of the pipe; the kernel closes it when muster dies */
    char *entry; /* only for a keeper of a run */
    uint64_t limit_ms;
};

/*
 * `entry` as for orphans_end. After muster's death the keeper ends orphans until none is left, for
 * at most limit_ms. Until then it keeps the descriptors `held`, the locks of the run's devices,
 * open.
 */
MUST_CHECK int keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms,
                            const int *held, size_t n_held, struct err *err);
/*
 * Replaces the keeper by one that holds other descriptors. On an error the old keeper stays.
 * Harmless if there is no keeper.
 */
MUST_CHECK int keeper_renew(struct keeper *keeper, const int *held, size_t n_held, struct err *err);
/*
 * Starts a keeper of a folder. After muster's death the keeper gives up `lock_fd`, so that another
 * process may take the folder over by this lock (flock). If no process has taken the lock keep_ms
 * later, the keeper removes the folder. lock_fd -1: there is no lock.
 */
MUST_CHECK int keeper_start_for_folder(struct keeper *keeper, const char *folder, uint64_t keep_ms,
                                       int lock_fd, struct err *err);
/*
 * Ends the keeper, because muster ends in order and no worker is left. Harmless if there is no
 * keeper.
 */
void keeper_dismiss(struct keeper *keeper);
/* Leaves the keeper as if muster had died: the keeper of a folder removes it later. */
void keeper_leave(struct keeper *keeper);
