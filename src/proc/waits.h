/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process waits for, as far as /proc tells.
 */
#pragma once

#include <sys/types.h>

/*
 * 1: the process or one below it is blocked in read(0, …), so it wants input; 0: none of them is;
 * -1: the kernel does not say (no /proc/PID/syscall, or no right to read it). Costs a look at each of these processes,
 * and at every process of the machine where the kernel lists nobody's children: not for anything frequent.
 */
int proc_reads_stdin(pid_t root);
