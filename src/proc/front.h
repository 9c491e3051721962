/* SPDX-License-Identifier: Apache-2.0
 *
 * The front: the process that muster's caller knows, when a fork of it does the work.
 *
 * `sleep & exec muster` gives muster children that it did not start. As a subreaper it would adopt
 * their orphans together with those of its own workers, and nothing that the kernel shows tells the
 * two apart for certain: an orphan may have changed its session and dropped its environment. In
 * that case a fork does the work. The fork has no children but its own, so all orphans that it
 * adopts descend from processes that it started. The caller's process, the front, keeps the
 * children that were there, hands signals on, and ends as the fork ends. The fork is killed if the
 * front is.
 *
 * A process that starts another muster is a front as well: it hands on its signals, which the other
 * muster may or may not get itself.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct front {
    pid_t worker;
    int fd;
    bool is_heard; /* the worker reads signals from its end of the socket */
};

/*
 * Returns in the process that is to do the work: this process if its parent is a front or if it has
 * no children, else a fork of it. The signals that the front hands on arrive at *signals_fd; it is
 * -1 if there is no front. Call this function while the process has one thread, and before anything
 * is opened that two processes must not both hold. `more`: further signals that are handed on;
 * NULL: none.
 */
MUST_CHECK int front_begin(int *signals_fd, const sigset_t *more, struct err *err);
/*
 * These two prepare a child that will become another muster: call front_open before the fork, and
 * front_leave in the child. front_begin in that muster finds the descriptor.
 */
MUST_CHECK int front_open(struct front *front, int *child_fd, struct err *err);
void front_leave(int child_fd);
/*
 * Call it in the parent. If the child also gets the signal from elsewhere, it counts the two as
 * one.
 */
void front_hand_on(struct front *front, int signal);

/*
 * is_heard: from now on each signal to the front arrives at signals_fd as a byte, its number. If it
 * is false, and before the first call, the front sends the signal on to the fork. A signal to the
 * whole process group, or to every process of a systemd unit, also reaches the fork directly.
 * Harmless with -1.
 */
void front_listen(int signals_fd, bool is_heard);
