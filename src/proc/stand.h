/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether processes do something, and at what place the others wait, as far as /proc shows it to
 * the process that started them.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

enum {
    PROC_PLACE_BYTES = 96
};

/* The state of a process with all its descendants. */
struct proc_stand {
    uint64_t cpu_ms;   /* CPU time that they have used so far */
    uint64_t io_bytes; /* bytes by system calls, and bytes read from disk; 0: they are not shown */
    uint64_t family;   /* a number that changes when one of them comes or goes */
    bool is_blocked;   /* one of them is in the kernel, where no signal wakes it (state D) */
    /*
     * The process itself, or the last of a chain in which each parent has one child, such as a
     * shell and its program.
     */
    pid_t pid;
    char state;   /* as in proc(5); 0: it is gone */
    pid_t tracer; /* 0: none */
    /*
     * The bytes of stack that its first thread uses. Equal for processes of one program that wait
     * at the same place of it, and different for most others. 0: not known.
     */
    uint64_t depth;
    /* Where its first thread is: "sleeps in futex (futex_do_wait)"; "" if the process is gone. */
    char place[PROC_PLACE_BYTES];
};

/*
 * Looks once at each of the roots. Costs about 10 us for each process of the machine, and as much
 * for each process of the roots.
 */
void proc_stands_read(const pid_t *roots, size_t n_roots, struct proc_stand *out);
/*
 * Adds what the threads of the process and of its descendants do, a line for each process:
 *     pid 4711: 2 threads python sleeps in futex; python blocked in read (nfs_wait_on_request)
 * Adds at most max_bytes. Names are as the programs have them: any bytes but newlines.
 */
void proc_threads_add(struct buf *out, pid_t root, size_t max_bytes);
