/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process waits for, as far as /proc tells.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * 1: the process or one below it is blocked in read(0, …), so it wants input; 0: none of them is;
 * -1: the kernel does not say (no /proc/PID/syscall, or no right to read it). Costs a look at each of these processes,
 * and at every process of the machine where the kernel lists nobody's children: not for anything frequent.
 */
int proc_reads_stdin(pid_t root);

/*
 * The process waits for input and nothing that it could print is on its way: it, or the only process at
 * the end of a chain of parents that wait for their only child, has one thread, and that is blocked in
 * read(0, …) on the pipe whose other end is `pipe_fd`. What it printed before is in the pipe of its
 * stdout by now. False: it is at work, has threads or several children, or the kernel does not say.
 */
bool proc_rests(pid_t pid, int pipe_fd);

/* Every process of this family is blocked in read() or waits for a child: none of them is at work. One with
 * threads may be. Costs a look at every process of the machine, as proc_reads_stdin. */
bool proc_is_idle(pid_t root);
