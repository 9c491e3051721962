/* SPDX-License-Identifier: Apache-2.0
 *
 * Is this machine fit for the work? First all facts are gathered. Slow facts, and facts whose gathering may block,
 * come from child processes and from the device helper, each with a deadline. Then every check judges the facts.
 */
#pragma once

#include "device/spec.h"
#include "doctor/facts.h"
#include "doctor/finding.h"

/* name (of an operand, and in the output), what it looks at */
#define DOCTOR_CHECKS(X)                                                   \
    X(driver, "the driver: there, answering, of one version")              \
    X(access, "device files: there, and open to this user")                \
    X(alike, "devices: model, memory, MIG mode the same")                  \
    X(health, "devices: lost, ill, ECC errors, heat")                      \
    X(modes, "devices: compute mode, persistence")                         \
    X(links, "PCIe, NVLink, NUMA")                                         \
    X(processes, "who computes on the devices")                            \
    X(orphans, "who holds a device without anybody left who would end it") \
    X(visible, "variables that hide devices, and the order they count in") \
    X(shm, "/dev/shm")                                                     \
    X(limits, "open files, locked memory, address space")                  \
    X(memory, "memory that is left, and that may be used")                 \
    X(cpus, "cores that may be used: affinity, quota")                     \
    X(threads, "threads of BLAS and OpenMP, switches that slow down")      \
    X(folder, "the folder for runs: there, writable, local")               \
    X(disk, "room and speed under it")                                     \
    X(clock, "the clock, and the file server's")                           \
    X(slurm, "Slurm, and the job this is in")                              \
    X(ranks, "variables that make ranks of workers")

struct doctor_opts {
    const char *self_path;          /* for the device helper */
    const struct device_spec *spec; /* SPEC_ALL: the whole machine */
    const char *runs_dir;
    const char *python;   /* the interpreter that is asked for its packages; NULL: none */
    uint64_t deadline_ms; /* for all facts; one query of a GPU gets a sixth */
};

/*
 * Gathers all facts. ERR_UNAVAILABLE if the spec names a device that is not here. Everything else that is wrong
 * becomes a fact, and then a finding.
 */
MUST_CHECK int doctor_gather(const struct doctor_opts *opts, struct facts *out, struct err *err);
void facts_release(struct facts *facts);

/* The devices of facts->devices that the environment leaves visible, so that a run can use them. A
 * new list; release it. */
struct device_list runnable_devices(const struct facts *facts);

/* ERR_USAGE if there is no such check. */
MUST_CHECK int check_find(const char *name, size_t *out, struct err *err);
/* All checks, or those whose flag is set (one flag a check, in the order of the table). */
void doctor_judge(const struct facts *facts, const bool *chosen, struct findings *out);
size_t checks_count(void);
/* The name of a check, "shm"; and what the check looks at. */
const char *check_name(size_t check);
const char *check_purpose(size_t check);
