/* SPDX-License-Identifier: Apache-2.0
 *
 * The cause of a worker's death, from its exit status, the kernel's counts, and the end of its output. Pure.
 * The strings are those that PyTorch, JAX, CUDA, HIP and Accelerate print
 * (docs/decisions/0004-verdicts.md lists the sources).
 */
#pragma once

#include "base/buf.h"

#define DEATHS(X)                                                                                  \
    X(CLEAN, "ended")                                                                              \
    X(FAILED, "failed")   /* non-zero status */                                                    \
    X(CRASHED, "crashed") /* a signal that it caused itself: SIGSEGV, SIGABRT … */               \
    X(OOM, "out of device memory")                                                                 \
    X(HOST_OOM, "out of host memory") /* the kernel's OOM killer, or MemoryError */                \
    X(KILLED, "sender unknown; at about that time the kernel killed a process for lack of memory") \
    X(DEVICE_LOST, "its device is gone")                                                           \
    X(NOT_STARTED, "could not be started") /* exec failed */                                       \
    X(ENDED_BY_US, "was ended")            /* TERM or KILL that we sent */

enum death {
#define X(id, text) DEATH_##id,
    DEATHS(X)
#undef X
};

struct death_facts {
    int exit_code, exit_signal;
    bool exec_failed;
    bool we_ended_it;
    bool device_lost; /* the samples say so */
    /*
     * How many processes the kernel killed for lack of memory around that time: on the whole machine, and near
     * this one (in its memory cgroup; on the machine, if the cgroup has no count). That alone does not prove that
     * this process was one of them. The kernel kills the largest process, so it must also have been large.
     */
    uint64_t oom_kills_near, oom_kills_host;
    uint64_t rss_peak_bytes, memory_bytes; /* memory_bytes: of the machine, or the cgroup's limit */
    struct str stderr_tail, stdout_tail;
};

enum death verdict_of(const struct death_facts *facts);
const char *death_text(enum death death);
/* Names a worker's own end: "status 7", "SIGSEGV", "signal 34". */
void exit_format(char out[24], int exit_code, int exit_signal);
