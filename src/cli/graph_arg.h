/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a job that a command line describes: those of muster graph -- COMMAND, and of
 * muster add.
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
/* Stores a struct job_options.priority: -1000 to 1000, or low, normal, high. */
int priority_store(struct str text, void *field, struct err *err);
bool priority_text(const void *field, struct buf *out);

/* clang-format off */
#define JOB_OPTS(at)                                                                                                   \
    {OPT_U64, 0, "gpus-per-job", "N", "number of devices of each job; with 0 a job takes one CPU and no device (default 1)", (at) + offsetof(struct job_options, n_devices), 0, 64}, \
    {OPT_SIZE, 0, "memory", "SIZE", "memory that a job reserves on each of its devices; jobs that reserve memory may share a device (default: a job has its devices for itself)", (at) + offsetof(struct job_options, mem_bytes)}, \
    {OPT_U64, 0, "share", "PERCENT", "percent of its device that a job takes; jobs whose shares are together at most 100 may run on one device (default 100)", (at) + offsetof(struct job_options, share_percent), 1, 100}, \
    {OPT_U64, 0, "cpus", "N", "number of CPUs that each job takes (default: CPUs are not counted; 1 for a job without devices)", (at) + offsetof(struct job_options, n_cpus), 0, 65536}, \
    {OPT_U64, 0, "retries", "N", "start a failed job again, up to N times (default 0)", (at) + offsetof(struct job_options, n_retries), 0, 1000}, \
    {OPT_DURATION, 0, "timeout", "DURATION", "end a job that runs longer than this; the job has then failed (default: no limit)", (at) + offsetof(struct job_options, timeout_ms)}, \
    {OPT_PARSE, 0, "priority", "N", "priority of the jobs: -1000 to 1000, or low, normal, high; larger numbers start first (default 0)", (at) + offsetof(struct job_options, priority), .parse = priority_store, .format = priority_text}
/* clang-format on */
