/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a process waits for its standard input, as far as /proc shows it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Returns 1 if the process or one of its descendants is blocked in read(0, …), so that it wants
 * input; 0 if none of them is; -1 if the kernel does not show it (no /proc/PID/syscall, or no right
 * to read it). Reads the files of each of these processes, and of every process of the machine
 * where the kernel lists no children: too slow for anything frequent.
 */
int proc_reads_stdin(pid_t root);

/*
 * True if the process waits for input and has written everything that it printed so far to the pipe
 * of its stdout. That is known if the process (or the last of a chain, in which each parent waits
 * for its only child) has one thread, which is blocked in read(0, …) on the pipe whose other end is
 * `pipe_fd`. False: it is at work, has several threads or children, or the kernel does not show it.
 */
bool proc_waits_for_stdin(pid_t pid, int pipe_fd);

/*
 * True if the process has ended, or if it has one thread, which computes or sleeps (for a chain as
 * above: its last process). It may not have answered all of its input yet. False: it waits, or its
 * state cannot be told.
 */
bool proc_is_at_work(pid_t pid);

/*
 * True if the process and all its descendants are blocked in read() or wait for a child, so that
 * none of them is at work. A process with several threads counts as at work. Costs as much as
 * proc_reads_stdin().
 */
bool proc_is_idle(pid_t root);
