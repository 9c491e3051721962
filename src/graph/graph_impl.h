/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share.
 */
#pragma once

#include <sys/stat.h>

#include "core/dag.h"
#include "core/verdict.h"
#include "graph/graph.h"
#include "graph/proof.h"
#include "node/background.h"
#include "proc/logfile.h"
#include "shell/device_watch.h"
#include "shell/shell.h"
#include "store/jobs.h"

enum {
    END_TEXT_BYTES = 400
};

struct graph;
struct graph_job;

/* One start of a job, until the dag has heard of its end. */
struct process {
    struct graph *graph;
    uint32_t job;
    struct node_worker *worker; /* NULL: it is gone, or was never started */
    struct process *next;       /* among those of the graph */
    struct seat seat;
    uint32_t devices[DAG_JOB_DEVICES_MAX]; /* positions among the chosen ones: the dag's numbers */
    uint32_t attempt;                      /* of all sessions */
    uint64_t batch, started_ms, mem_peak_bytes, rss_peak_bytes;
    int64_t started_wall_ms;
    bool is_alone;           /* on its devices, so that their memory is its own */
    bool was_ended, is_late; /* by us; because of its timeout */
    bool is_gone,
        is_settled; /* is_settled: the end is known, and the memory of its devices is awaited */
    enum dag_end end;
    char end_text[END_TEXT_BYTES];
    int status;                         /* as a shell gives it */
    struct logfile *out, *errors;       /* NULL: nothing was printed */
    uint64_t out_before, errors_before; /* bytes that earlier attempts left in their files */
    struct job_proof proof;
    struct {
        struct proof_ask ask;
        struct background background;
        atomic_bool is_given_up; /* files can be so large that nobody waits for it */
        struct stat *inputs_before, *outs_before; /* [n_inputs], [n_outs], when it started */
    } proving;
    char *command; /* for the joblog; NULL: not needed */
};

struct graph_job {
    const struct plan_job *plan;
    struct process *process; /* NULL: it does not run */
    char *end;               /* how it ended last; NULL: not, or well */
    uint64_t outs_digest, needs_digest;
    uint32_t attempts_before, n_attempts; /* of earlier sessions; of this one */
    uint32_t expected_ms;                 /* 0: unknown */
    uint64_t mem_peak_bytes;              /* of earlier runs; 0: unknown */
    int64_t begun_wall_ms;                /* its first start since it was done last; 0: none */
    bool is_wanted;                       /* not excluded by --only */
    bool is_held, is_cancelled;           /* by orders */
    bool was_done, is_stale;              /* by an earlier session */
};

/* A device as a run of the graph sees it. */
struct graph_device {
    uint32_t n_processes;
    bool awaits_memory;                           /* of a process that is gone */
    uint64_t idle_bytes, used_bytes, total_bytes; /* by the samples; idle: with no job of ours */
    uint64_t busy_ms;                             /* with at least one job */
    double busy_percent_ms, joules;
    uint64_t sampled_ms; /* the last sample; 0: none */
};

struct record; /* record.c */

struct graph {
    const struct graph_request *request;
    struct plan *plan;
    struct shell shell;
    struct allocation allocation;
    struct device_watch *watch;
    struct dag *dag;
    struct graph_job *jobs;
    uint32_t n_jobs, jobs_cap; /* those of the plan, then those that orders added */
    struct process *processes;
    uint32_t n_processes;
    struct graph_device *devices; /* [allocation.n_chosen] */
    struct {
        struct dag_event *at;
        size_t len, cap;
        bool is_handled;
    } events;
    struct record *record;
    bool is_resumed, is_over, has_memory; /* has_memory: some device has memory of its own */
    uint32_t n_done_here;
    uint64_t base_seed;
    char *cwd;
    struct plan added; /* the memory of jobs that orders added */
    struct buf stale;  /* lines on why jobs run again */
    uint64_t told_ms;  /* when the state was written last */
};

/* graph.c */
/* Notes in run.db how many jobs there are, and how to go on. */
MUST_CHECK int graph_facts_set(const struct graph *graph, struct err *err);
/* All but its shell. */
void graph_release(struct graph *graph);

/* steps.c */
/* Tells the dag, and carries out what it answers. */
void graph_tell(struct graph *graph, struct dag_event event);
/* Adds the job of graph->jobs[i] to the dag. ERR_STOPPED: memory. */
MUST_CHECK int graph_dag_add(struct graph *graph, uint32_t i, struct err *err);
/* Ends everything that runs. */
void graph_end_all(struct graph *graph, enum worker_end how);

/* seats.c */
MUST_CHECK int graph_dag_make(struct graph *graph, struct err *err);
/* Fills process->seat, and counts the process on its devices. */
void process_seat_take(struct process *process, const struct dag_placement *placement);
/* The process has ended, with all its descendants. */
void process_seat_ended(struct process *process);
/* Is the memory of its devices back? */
bool process_memory_is_back(const struct process *process);
void graph_devices_watch(struct graph *graph);
/* "gpu 0+1"; "": none. */
void process_devices_add(const struct process *process, struct buf *out);

/* process.c */
void process_start(struct graph *graph, uint32_t job);
/* Looks for timeouts, and for processes whose devices are ready. */
void processes_tick(struct graph *graph);
void process_free(struct process *process);
/* The beginning of the names of its logs: free() it. */
char *job_log_name_new(const char *job);

/* placeholders.c */
struct fill {
    const char *name; /* "batch" */
    const char *value;
};
/* ERR_USAGE: a placeholder is not known, or a brace is alone. */
MUST_CHECK int placeholders_fill(const char *text, const struct fill *fills, size_t n_fills,
                                 struct buf *out, struct err *err);

/* past.c */
/* Reads what earlier sessions did, and decides which jobs are done. */
MUST_CHECK int past_take(struct graph *graph, struct err *err);
/* Which jobs are to run: request->only, from, redo. ERR_USAGE: a pattern matches nothing. */
MUST_CHECK int selection_take(struct graph *graph, struct err *err);
/* Digests of what the job is: free() it. */
char *definition_new(const struct plan_job *job);
/* Of the outs of the jobs that it needs. */
uint64_t needs_digest(const struct graph *graph, const struct graph_job *job);

/* record.c */
void record_open(struct graph *graph);
/* Commits that the job begins. ERR_STOPPED: that cannot be done, and the run ends. */
MUST_CHECK int record_begun(struct graph *graph, const struct process *process, struct err *err);
void record_attempt(struct graph *graph, const struct process *process);
void record_job(struct graph *graph, uint32_t job, enum job_state state,
                const struct process *process);
/* Commits what was noted; makes durable what was committed. If that cannot be done, the run is given up. */
void record_flush(struct graph *graph);
void record_sync(struct graph *graph);
void record_close(struct graph *graph);

/* UINT32_MAX: there is none. */
uint32_t graph_find(const struct graph *graph, const char *name);

/* orders.c: "why JOB", "retry JOB", "hold JOB", "release JOB", "cancel JOB" with patterns, "add JSON". */
int graph_order(void *context, struct str line, struct buf *told, struct err *err);
/* Jobs that were added to the run in earlier sessions. */
MUST_CHECK int added_read(struct graph *graph, struct err *err);

/* explain.c: lines on what a job waits for, or how it ended. */
void job_explain(const struct graph *graph, uint32_t job, struct buf *out);

/* why.c: of every job that is not done, for who asks when the run has ended. */
void open_jobs_write(const struct graph *graph);
/* What an earlier session wrote is no longer so. */
void open_jobs_drop(const struct graph *graph);

/* report.c */
void report_progress(struct graph *graph, bool is_last);
/* state NULL: it goes on. */
void report_status(struct graph *graph, const char *state);
void report_summary(struct graph *graph, int status);
/* As the source of this verb printed it, at the start and at the end. */
void report_memory(const struct graph *graph, const char *when);

/* find.c: the folder of the run to go on with, a new string; NULL: none. */
MUST_CHECK int graph_run_find(const struct graph_request *request, char **out, struct err *err);
/*
 * A descriptor that locks the folder of runs, while the run to go on with is looked for and taken, or made: of two
 * musters that begin the same graph in the same moment, one finds the run of the other. -1: the file system cannot do that.
 */
int graph_begin_lock(const struct graph_request *request);
