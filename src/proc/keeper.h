/* SPDX-License-Identifier: Apache-2.0
 *
 * The third net: a process that does nothing but wait for muster's end. When muster and a guard are
 * killed in the same moment, nobody else is left to end what that guard's worker had started; the
 * keeper does (orphans_end), and then ends itself. One for a run, in a session of its own.
 *
 * It is not called muster, so that a kill by that name leaves it. What it cannot help: it is killed
 * too, or a process has thrown the environment away by which it is recognised.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct keeper {
    pid_t pid; /* 0: none */
    int fd;    /* muster's end: closed by its death */
};

/*
 * `entry` as for orphans_end. After muster's death the keeper sweeps for at most limit_ms, until no
 * orphan is left; until then it keeps the descriptors `held`, the locks of the run's devices, open.
 */
MUST_CHECK int keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms,
                            const int *held, size_t n_held, struct err *err);
/* muster ends by itself, and has nobody left: so does the keeper. Harmless if there is none. */
void keeper_dismiss(struct keeper *keeper);
