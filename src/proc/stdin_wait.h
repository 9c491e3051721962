/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a process waits for its standard input, as far as /proc shows it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * 1: the process or one of its descendants is blocked in read(0, …), so it wants input; 0: none
 * of them is; -1: the kernel does not show it (no /proc/PID/syscall, or no right to read it).
 * Reads the files of each of these processes, and of every process of the machine where the
 * kernel lists no children: too slow for anything frequent.
 */
int proc_reads_stdin(pid_t root);

/*
 * The process waits for input, and has written all that it could write so far. That is so when
 * the process (or the last of a chain, in which each parent waits for its only child) has one
 * thread, which is blocked in read(0, …) on the pipe whose other end is `pipe_fd`. What it
 * printed before is in the pipe of its stdout by now. False: it is at work, has several threads
 * or children, or the kernel does not show it.
 */
bool proc_waits_for_stdin(pid_t pid, int pipe_fd);

/*
 * The process has ended, or it (or the last of such a chain) has one thread, which computes or sleeps: what it was
 * given may not be all answered yet. False: it waits, or nobody can say.
 */
bool proc_is_at_work(pid_t pid);

/*
 * The process and all its descendants are blocked in read() or wait for a child: none of them
 * is at work. A process with several threads counts as at work. Reads the files of every
 * process of the machine.
 */
bool proc_is_idle(pid_t root);
