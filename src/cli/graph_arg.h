/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a job that is described on a command line: those of muster graph -- COMMAND, and of muster add.
 */
#pragma once

#include "graph/plan.h"
#include "opt/cmd.h"

struct job_options {
    uint64_t n_devices, n_cpus, n_retries, timeout_ms, mem_bytes, share_percent;
    int32_t priority;
};

void job_options_default(struct job_options *options);
MUST_CHECK int job_devices_make(const struct job_options *options, struct plan_devices *out,
                                struct err *err);
/* A struct job_options.priority: -1000 to 1000, or low, normal, high. */
int priority_store(struct str text, void *field, struct err *err);
bool priority_text(const void *field, struct buf *out);

/* clang-format off */
#define JOB_OPTS(at)                                                                                                   \
    {OPT_U64, 0, "gpus-per-job", "N", "devices of each job; 0: none, and a job takes a CPU (default 1)", (at) + offsetof(struct job_options, n_devices), 0, 64}, \
    {OPT_SIZE, 0, "memory", "SIZE", "of each device, reserved for the job, which may share the device with others that reserve memory (default: the device for itself)", (at) + offsetof(struct job_options, mem_bytes)}, \
    {OPT_U64, 0, "share", "PERCENT", "of a device, for a job that may share it (default 100)", (at) + offsetof(struct job_options, share_percent), 1, 100}, \
    {OPT_U64, 0, "cpus", "N", "CPUs of each job (default: not counted; 1 for a job without devices)", (at) + offsetof(struct job_options, n_cpus), 0, 65536}, \
    {OPT_U64, 0, "retries", "N", "try a job that fails again, N times (default 0)", (at) + offsetof(struct job_options, n_retries), 0, 1000}, \
    {OPT_DURATION, 0, "timeout", "DURATION", "end a job that takes longer, which is a failure (default: no limit)", (at) + offsetof(struct job_options, timeout_ms)}, \
    {OPT_PARSE, 0, "priority", "N", "-1000 to 1000, or low, normal, high; larger starts first (default 0)", (at) + offsetof(struct job_options, priority), .parse = priority_store, .format = priority_text}
/* clang-format on */
