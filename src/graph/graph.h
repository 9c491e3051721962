/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster graph`: jobs that need each other, each started when what it needs is done and devices are free for it, and
 * proved by what it leaves. core/dag.h decides, this room does.
 *
 *   plan.h     the jobs, as values                 graph.c    from the request to the status
 *   steps.c    the dag's events and actions        process.c  a job as a process, and what its end means
 *   seats.c    devices as the dag counts them      placeholders.c words with placeholders
 *   proof.c    the files that a job left           past.c     what earlier sessions did, and what is stale
 *   prepare.c  what is looked at before a job starts   spoilt.c   files that were changed after their job had ended
 *   record.c   rows of run.db                      orders.c   orders to a graph that runs
 *   explain.c  what a job waits for                report.c   progress, status and summary
 *   chain.c    what a job waits for in the end
 *   find.c     the run to go on with               dry_run.c  the schedule, without a run
 *   why.c      what a run that has ended says      file/file.h, list/list.h  where plans come from
 *   learn.c    what jobs of a stage take           remember.h the same, from one run to the next
 *   ended.c    orders to a run that has ended
 *   command.c  words and environment of a job     hosts.c    machines that come, are lost and return
 */
#pragma once

#include "base/log.h"
#include "base/texts.h"
#include "graph/plan.h"
#include "node/allocation.h"
#include "node/environment.h"

/* In the run's folder: what a command line's list was read from, if that was standard input. */
#define GRAPH_INPUT "stdin"

struct joblog;
struct graph_list;

struct graph_request {
    struct allocation_wish allocation;
    struct environment_wish environment;
    const char *file;     /* absolute; NULL: the jobs are those of a command line */
    const char *identity; /* what makes two graphs of command lines the same; NULL with a file */
    const char *run_dir, *runs_dir; /* NULL: a new folder below the default */
    struct {
        const char *dir;  /* the run to go on with; NULL: it is looked for */
        const char *root; /* runs_root(NULL) where the command was typed; NULL: here */
    } resume;
    bool fresh; /* begins a new run */
    /* When from, redo and fresh were asked for: they do not concern what was done later. 0: now. */
    uint64_t since_wall_ms;
    bool adopts,
        overwrites; /* of outputs that are there and that no run of this graph made: take them for done; replace them */
    struct texts only, from, redo; /* patterns of job names (graph_selected) */
    bool halts;                    /* nothing new after the first job that failed for good */
    uint64_t n_running_max;        /* 0: no limit */
    uint64_t grace_ms, limit_ms, log_cap_bytes;
    bool prints; /* what jobs print on stdout is printed when they have ended, job by job */
    bool explain, detach, is_quiet, has_color;
    /* For PLAN_BATCH_AUTO: the batch size of a command, in which {batch} stands, on a device, one of n_devices. */
    int (*batch_of)(const char *const *command, const struct environment_wish *environment,
                    const struct device *device, size_t n_devices, uint64_t *out, struct err *err);
    const char *on_finish;
    struct joblog *joblog;         /* NULL: none */
    const char *results;           /* the folder of GNU parallel's --results; NULL: none */
    const struct graph_list *list; /* of a command line; NULL with a file */
    const char *const *words;      /* that make this request again, for the manifest */
};

/*
 * Runs the plan's jobs. Returns 0 if all jobs that were asked for are done; 1 if some failed or could not run; 75 if
 * the run was stopped or jobs are held; 128 + n after a signal; or an error: ERR_USAGE, ERR_UNAVAILABLE, ERR_DATA
 * (run.db).
 */
MUST_CHECK int graph_run(struct log *log, const char *self_path,
                         const struct graph_request *request, struct plan *plan, struct err *err);

/*
 * Makes the checks that are possible before the run begins. *earlier: the run that it will go on with, a new string;
 * NULL: none.
 */
MUST_CHECK int graph_check(const struct graph_request *request, struct plan *plan, char **earlier,
                           struct err *err);

/* A machine, with what a run would have of it. */
struct planned_host {
    char *name; /* in the list of --hosts */
    bool is_local;
    uint32_t n_cpus; /* that muster may use there */
    struct device_list devices;
};

struct planned_hosts {
    struct planned_host *at;
    size_t len;
};

/*
 * Prints the schedule on stdout, by the times that earlier runs took, on the devices of `hosts`, or of this machine (NULL);
 * `plot`: a file for a drawing of it, as SVG or HTML by its name; NULL: none.
 */
MUST_CHECK int graph_dry_run(struct log *log, const char *self_path,
                             const struct graph_request *request, struct plan *plan,
                             const struct planned_hosts *hosts, const char *plot, struct err *err);
/*
 * Adds what an ended run says of the jobs that match the names, stages or patterns; for each pattern, first the jobs
 * that are not done. ERR_USAGE: a pattern matches no job that the run knows.
 */
MUST_CHECK int graph_why(const char *dir, const struct texts *patterns, struct buf *out,
                         struct err *err);
/*
 * Carries out "retry", "hold", "release" or "cancel" on a run that has ended; it takes effect in the next session.
 * *told: what was done. ERR_USAGE: there is no such job; ERR_UNAVAILABLE: no job is in a state for the order, or the
 * run is going on.
 */
MUST_CHECK int graph_order_ended(const char *dir, const char *word, const struct texts *patterns,
                                 struct buf *told, struct err *err);
/* The name of a stage. Jobs of `muster add` have a stage of their own, with the number after the plan's last. */
const char *stage_name(const struct plan *plan, uint32_t stage);
/* A pattern is a stage, a job's name, or either with * and ?. */
bool graph_selected(const struct texts *patterns, const struct plan *plan,
                    const struct plan_job *job);
