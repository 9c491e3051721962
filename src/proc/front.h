/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that muster's caller knows, where the work is done by a fork of it.
 *
 * `sleep & exec muster` gives muster children that it did not start. As a subreaper it would adopt their orphans
 * together with those of its own workers, and nothing that the kernel shows tells the two apart for certain: an
 * orphan may have changed its session and dropped its environment. So the work is then done by a fork, which has no
 * children but its own; what it adopts, it has started. The caller's process, the front, keeps the children that were
 * there, hands signals on, and ends as the fork ends. The fork is killed if the front is.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * Returns in the process that is to do the work: this one, with *signals_fd -1, if it has no children; else a fork of
 * it. To be called before anything is opened that two processes must not hold, and with one thread.
 */
MUST_CHECK int front_begin(int *signals_fd, struct err *err);
/*
 * is_heard: from now on a signal to the front comes as a byte, its number, from signals_fd. Else, and at first, it is
 * sent on as a signal. One to the whole process group or to every process of a unit comes directly as well. Harmless
 * with -1.
 */
void front_listen(int signals_fd, bool is_heard);
