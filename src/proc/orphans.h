/* SPDX-License-Identifier: Apache-2.0
 *
 * Orphan sweep: processes that an earlier muster started and that outlived it. They are recognised
 * by a variable in the environment they were started with, which their descendants inherit.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * Returns how many living processes of this host, apart from the caller, have exactly `entry`
 * ("NAME=value") in their environment; *one becomes the pid of one of them. Other users' processes
 * cannot be looked into. A process whose muster and guard (GUARD_MARKER) are both dead is killed;
 * any other is left to its muster or guard.
 */
size_t orphans_end(const char *entry, pid_t *one);
