/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs as a file (file/file.h) or a command line (list/list.h) describes them, with all variables filled in: the plan that
 * graph.h carries out. Jobs are in an order in which each comes after those that it needs.
 *
 * All texts and arrays are in the plan's own memory, and live as long as the plan.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    PLAN_JOBS_MAX = 1000000,
    PLAN_EDGES_MAX = 16000000,
    PLAN_NAME_BYTES_MAX = 200 /* of a job's name, which names files of logs */
};

enum plan_kind {
    PLAN_RUN, /* a command */
    PLAN_MAP, /* muster's own verbs: argv is "{muster}", "map" …; the run adds the devices */
    PLAN_LAUNCH,
    PLAN_MERGE
};

/* What proves that a job has done its work. */
struct plan_out {
    const char
        *path; /* relative to the job's cwd, or absolute; ends with "/" if it has to be a folder */
    const char
        *json_has; /* a member that the JSON object in the file has to have; NULL: not asked for */
    const char *pattern; /* of names in the folder that `count_min` counts; NULL: all */
    uint64_t
        count_min; /* lines of the file, or entries of the folder, at least; 0: not asked for */
};

/* `auto` memory: learned from earlier runs of jobs like it. */
#define PLAN_MEMORY_AUTO UINT64_MAX
/* What muster fit has found for the same command on such a device. */
#define PLAN_BATCH_AUTO UINT64_MAX

struct plan_devices {
    uint32_t n_min, n_max; /* 0, 0: none */
    uint32_t share;        /* per mille; 0: whole devices, or by memory */
    uint64_t mem_bytes;    /* 0: devices for itself; PLAN_MEMORY_AUTO */
};

struct plan_job {
    const char *name; /* "train/phi,MATH,PITA,r1": the stage, and the coordinates. Unique */
    uint32_t stage;   /* position in plan->stages */
    enum plan_kind kind;
    /*
     * NULL-terminated. A template: when the job starts, the run fills in {batch}, {gpu}, {gpus}, {gpu_uuid}, {seed},
     * {attempt}, {job}, {run_dir} and {muster}; {{ and }} are braces.
     */
    const char *const *argv;
    const char *const *env; /* NULL-terminated NAME=VALUE or NAME; templates as argv; NULL: none */
    const char *cwd;        /* absolute; NULL: where muster was started */
    const uint32_t *needs;
    uint32_t n_needs;
    struct plan_devices devices;
    uint32_t n_cpus;
    const char *hosts; /* a list of patterns of names, as "node*,big1"; NULL: any */
    /* Which devices of its host, by index, name or identity, as "0,*H100*"; NULL: any. */
    const char *device_names;
    int32_t priority;
    uint32_t n_retries;
    uint64_t timeout_ms; /* 0: none */
    uint64_t batch;      /* {batch} at first; 0: none is used; PLAN_BATCH_AUTO */
    const struct plan_out *outs;
    uint32_t n_outs;
    const char *const
        *inputs; /* files whose change makes the job stale, besides the outs of those that it needs;
                                * NULL-terminated; NULL: none */
    uint32_t line; /* of the stage in the file, for messages; 0: none */
};

/* CPUs that the job takes of its host; 0: not counted. A job without devices takes at least one. */
static inline uint32_t plan_job_cpus(const struct plan_job *job)
{
    return job->devices.n_max == 0 ? MAX(job->n_cpus, 1u) : job->n_cpus;
}

struct plan_stage {
    const char *name;
    uint32_t n_jobs;
    /*
     * Digest of the stage's command before variables are filled in, and of what else decides how long its jobs take.
     * 0: its jobs have nothing in common.
     */
    uint64_t signature;
};

struct plan_memory;
struct plan {
    struct plan_job *jobs;
    uint32_t n_jobs;
    struct plan_stage *stages;
    uint32_t n_stages;
    uint64_t n_edges;
    bool has_links; /* above outs, when plan_index() looked */
    struct plan_memory *memory;
};

void plan_release(struct plan *plan);
/* Memory of the plan's, aligned for any type, filled with zeros. Never NULL. */
void *plan_alloc(struct plan *plan, size_t bytes);
/* A copy, NUL-terminated, in the plan's memory. */
const char *plan_text(struct plan *plan, struct str text);
/* The position of the job with this name, or UINT32_MAX, which is DAG_NO_JOB as well. After plan_index() only. */
uint32_t plan_find(const struct plan *plan, const char *name);
/* A digest of the names and commands of all jobs. */
uint64_t plan_digest(const struct plan *plan);
/* Makes the index of names. ERR_USAGE: two jobs with one name, or two that leave the same file. */
MUST_CHECK int plan_index(struct plan *plan, struct err *err);
