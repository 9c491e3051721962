/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share.
 */
#pragma once

#include <sys/stat.h>

#include "base/name_index.h"
#include "base/rate.h"
#include "core/dag.h"
#include "core/verdict.h"
#include "graph/graph.h"
#include "graph/proof.h"
#include "graph/remember.h"
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

/* The batch size after n_halvings; 0: none. PLAN_BATCH_AUTO stays, since command.c finds its value. */
static inline uint64_t batch_halved(uint64_t batch, uint32_t n_halvings)
{
    return batch == PLAN_BATCH_AUTO ? batch : batch >> n_halvings;
}

/* Where the logs of a job have the output of one attempt: [0] of stdout, [1] of stderr. */
struct printed {
    uint32_t job;
    bool has[2], is_due;     /* is_due: still to be printed */
    uint64_t from[2], to[2]; /* bytes of the logs; `to` is found by print_add() */
};

/* One start of a job, until the dag has heard of its end. */
struct process {
    struct graph *graph;
    uint32_t job;
    struct node_worker *worker; /* NULL: it is gone, or was never started */
    struct process *next;       /* among those of the graph */
    struct seat seat;
    uint32_t devices[DAG_JOB_DEVICES_MAX]; /* positions among the chosen ones: the dag's numbers */
    uint32_t attempt;                      /* of all sessions */
    uint32_t n_halvings;                   /* of the batch */
    uint64_t batch, started_ms, mem_peak_bytes, rss_peak_bytes;
    int64_t started_wall_ms;
    bool is_alone;           /* on its devices, so that their memory is its own */
    bool was_ended, is_late; /* by us; is_late: because of its timeout */
    bool is_gone,
        is_settled; /* is_settled: its end is known; the memory of its devices is awaited */
    enum dag_end end;
    char end_text[END_TEXT_BYTES];
    int status;                   /* as a shell gives it */
    struct logfile *out, *errors; /* NULL: nothing was printed */
    struct printed printed;       /* the output of earlier attempts stands before it */
    struct err unopened;          /* why one of those files could not be opened */
    struct job_proof proof;
    struct {
        struct proof_ask ask;
        struct background background;
        atomic_bool is_given_up; /* the proof is abandoned: large files can take too long */
        struct stat *inputs_before, *outs_before; /* [n_inputs], [n_outs], when it started */
        struct output_claim claim;                /* of its outs, while it runs */
    } proving;
    char *command;                   /* for the joblog; NULL: not needed */
    struct preparation *preparation; /* until it is started; NULL: nothing is left of that */
    /* It is not settled before: on a host that was lost it may live on until then, and a job that was preempted makes a
     * pause. */
    uint64_t not_before_ms;
};

struct graph_job {
    const struct plan_job *plan;
    struct process *process; /* NULL: it does not run */
    char *end;               /* how the last attempt ended; NULL: none has, or it ended well */
    /* [plan->n_outs]: its outputs at the last check, without paths; NULL: it is not done, or has no output. */
    struct file_mark *left;
    char *spoilt; /* an output that was changed since; NULL: none is known */
    uint64_t
        looked_until_ms; /* until then its outputs are not checked again, unless one is spoilt */
    uint64_t outs_digest, needs_digest;
    uint32_t attempts_before, n_attempts; /* of earlier sessions; of this one */
    uint32_t n_halvings;                  /* of its batch, in all sessions */
    uint32_t expected_ms;                 /* 0: unknown */
    uint64_t mem_peak_bytes;              /* its own, of earlier sessions; 0: unknown */
    uint64_t expected_mem_bytes;          /* that, or what jobs of its stage took; 0: unknown */
    int64_t begun_wall_ms;                /* its first start since it was done last; 0: none */
    int64_t done_wall_ms;                 /* when an earlier session had done it; 0: none had */
    uint16_t place;                       /* the hosts and devices that it may use (fleet.places) */
    bool is_wanted;                       /* not excluded by --only */
    bool is_held, is_cancelled;           /* by orders */
    bool was_done, is_stale;              /* by an earlier session */
    bool is_redone;                       /* by --from or --redo */
    bool was_cut;                         /* its last attempt was ended with the run */
    enum job_state row_state;             /* as the session before left it */
};

/* A device as a run of the graph sees it. */
struct graph_device {
    uint32_t n_processes;
    bool awaits_memory;               /* of a process that is gone */
    bool is_up_due;                   /* as soon as it has that memory: it is back */
    uint64_t begun_bytes;             /* in use when it was found */
    uint64_t used_bytes, total_bytes; /* by the last sample that told it, or as it was found */
    uint64_t mem_peak_bytes;          /* in use, whoever used it */
    double busy_percent_ms, joules;
    uint64_t sampled_ms; /* the last sample; 0: none */
    uint64_t seen_ms;    /* the sum of the times between samples */
};

/* A machine of the run, as its jobs see it. */
struct graph_host {
    bool is_known;          /* to the dag */
    bool is_up, is_awaited; /* is_awaited: it was lost, and is asked for again */
    uint32_t n_done;        /* jobs, in this session */
};

/* A place of the dag: the hosts and devices that certain jobs may use. */
struct graph_place {
    const char *patterns;                /* of the file, as "node*,big1"; NULL: any */
    const char *device_names;            /* likewise, as "0,*H100*" */
    uint64_t denied[DAG_HOSTS_MAX / 64]; /* bits: hosts that lack the jobs' commands */
};

/* The same positions as allocation.hosts. is_leaving: it is given back; has_left: and no job runs there any more. */
struct graph_part {
    bool is_leaving, has_left;
};

struct graph_fleet {
    struct graph_host *hosts; /* [n_hosts], by the numbers of their nodes: 0 is this machine */
    struct graph_part *parts; /* [n_parts] */
    uint32_t n_hosts, n_parts;
    uint32_t n_devices;         /* that the dag knows: the first of the chosen ones */
    uint32_t n_devices_max;     /* that it can know */
    struct graph_place *places; /* [n_places], by their numbers in the dag; the first: all hosts */
    uint32_t n_places;
    struct name_index absent; /* commands and hosts that lack them (absent.c) */
    int64_t
        held_until_ms; /* wall clock: until then jobs of the last session may be alive; 0: none */
    const struct planned_hosts *planned; /* the hosts of a dry run; NULL: those of the shell */
    bool is_full;                        /* the dag has no room: hosts that come are not used */
    bool are_awaited;                    /* some hosts have not come yet */
};

/* What is known of the jobs of a stage that were done, in earlier sessions and in this one. */
struct stage_past {
    uint64_t ms; /* of all */
    uint32_t n;
    uint64_t mem_peak_bytes;
    uint32_t n_before;            /* of earlier sessions */
    struct stage_memo remembered; /* of earlier runs */
    uint32_t n_reported;          /* n, at the last report to the dag */
    uint64_t mem_reported_bytes;
    uint32_t first_job; /* of the plan's jobs; valid if graph->learned.next is not NULL */
};

struct preparation; /* prepare.c */

struct record; /* record.c */
struct print;  /* print.c */

struct graph {
    const struct graph_request *request;
    struct plan *plan;
    struct shell *shell;
    struct allocation allocation;
    struct device_watch *watch;
    struct dag *dag;
    struct graph_job *jobs;
    uint32_t n_jobs, jobs_cap; /* those of the plan, then those that orders added */
    struct process *processes;
    uint32_t n_processes;
    struct graph_device *devices; /* [allocation.n_chosen] */
    struct graph_fleet fleet;
    struct {
        struct dag_event *at;
        size_t len, cap;
        bool is_handled;
    } events;
    struct record *record;
    struct print *print; /* NULL: nothing was printed */
    struct {
        struct stage_past *stages; /* [plan->n_stages + 1] by stage; the last one: added jobs */
        uint32_t *next; /* [plan->n_jobs] the next job of the same stage; NULL: not needed yet */
    } learned;
    bool is_resumed, is_over, has_memory; /* has_memory: some device has memory of its own */
    uint32_t n_done_here, n_spoilt;       /* n_spoilt: jobs */
    char *cwd;
    struct plan added;   /* the memory of jobs that orders added */
    uint32_t n_added;    /* in all sessions; this one may have left out some */
    struct buf stale;    /* lines on why jobs run again */
    struct buf released; /* lines: names of jobs that --only excludes and muster release added */
    struct rate rate;    /* of jobs */
};

static inline struct graph_job *process_job(const struct process *process)
{
    return &process->graph->jobs[process->job];
}

static inline const char *process_name(const struct process *process)
{
    return process_job(process)->plan->name;
}

/* The path of an output, as marks have it: free() it. */
static inline char *job_out_path_new(const struct graph *graph, const struct plan_job *job,
                                     uint32_t out)
{
    return out_path_new(job->cwd ? job->cwd : graph->cwd, job->outs[out].path);
}

/* graph.c */
/* *earlier: the run to go on with, a new string; NULL: none. ERR_UNAVAILABLE: it is going on. */
MUST_CHECK int graph_earlier_find(const struct graph_request *request, char **earlier,
                                  struct err *err);
/* Notes in run.db how many jobs there are. */
MUST_CHECK int graph_facts_set(const struct graph *graph, struct err *err);
/* Releases all but the shell. */
void graph_release(struct graph *graph);

/* steps.c */
/* Gives the dag an event, and carries out its actions. */
void graph_tell(struct graph *graph, struct dag_event event);
/* The same for what an earlier session knew; it is not recorded as an event of this session. */
void graph_tell_again(struct graph *graph, struct dag_event event);
/* Memory that the job wants of each device; 0: not counted. */
uint64_t job_memory_wanted(const struct graph *graph, const struct graph_job *job);
/* Adds the job of graph->jobs[i] to the dag. ERR_STOPPED: out of memory. */
MUST_CHECK int graph_dag_add(struct graph *graph, uint32_t i, struct err *err);
/* Ends everything that runs. */
void graph_end_all(struct graph *graph, enum worker_end how);

/* seats.c */
MUST_CHECK int graph_dag_make(struct graph *graph, struct err *err);
/* Fills process->seat, and counts the process on its devices. */
void process_seat_take(struct process *process, const struct dag_placement *placement);
/* The process has ended, with all its descendants. */
void process_seat_ended(struct process *process);
/* May other jobs have its devices? The process must be gone for sure, and their memory must be back. */
bool process_may_settle(const struct process *process);
/* The numbers of its seats on its machine. Returns how many. */
uint32_t process_seats_list(const struct process *process, uint32_t out[SEAT_DEVICES_MAX]);
/* The most memory that a job can have of a device; 0: none has memory of its own. */
uint64_t graph_memory_max(const struct graph *graph);
/* Begins to keep a device that was added to the chosen ones. */
void graph_device_begin(struct graph *graph, uint32_t chosen);
void graph_devices_watch(struct graph *graph);
/* "gpu 0+1", "node1 gpu 0", of a job without devices "node1"; "": none, on this machine. */
void process_devices_add(const struct process *process, struct buf *out);

/* hosts.c */
MUST_CHECK int graph_hosts_begin(struct graph *graph, struct err *err);
void graph_hosts_release(struct graph *graph);
bool host_is_up(const struct graph *graph, uint32_t node);
/* The host's name in labels; "local" for this machine. */
const char *host_label(const struct graph *graph, uint32_t node);
/* Muster's own program there. */
const char *host_program(const struct graph *graph, uint32_t node);
/* The name of the machine itself. */
const char *host_machine_name(const struct graph *graph, uint32_t node);
uint32_t host_cpus(const struct graph *graph, uint32_t node);
/* The time at which the agent of a host that is lost now has ended its jobs for sure. */
uint64_t host_empty_ms(struct graph *graph);
/*
 * If the last session was killed, and may have had hosts: no job starts there before those of that session must have
 * ended.
 */
void graph_hosts_hold(struct graph *graph);
/* Does a ready job wait for hosts that may still come? */
bool graph_awaits_hosts(const struct graph *graph);
/* Leaves hosts that were given back once no job runs there. */
void graph_hosts_tick(struct graph *graph);
/* The handlers of the device watch (shell/device_watch.h). */
void graph_host_came(void *context, uint32_t part);
void graph_host_changed(void *context, uint32_t part, enum host_change change);
void graph_host_given_back(void *context, uint32_t part, bool now);
void graph_hosts_awaited(void *context, bool are_awaited);
/* For struct shell_verb. */
uint64_t graph_finish_ms(void *context, uint32_t part);

/* places.c */
/* ERR_USAGE: no device of the run has a name by which the job asks for one. */
MUST_CHECK int job_devices_check(const struct graph *graph, const struct plan_job *job,
                                 struct err *err);
/* The hosts and devices that a job may use, for the dag. ERR_USAGE: there are too many different ones. */
MUST_CHECK int job_place(struct graph *graph, const struct plan_job *job, uint32_t *out,
                         struct err *err);
/* The same hosts without one of them; false: no host remains, or there are too many different places. */
bool host_place_without(struct graph *graph, uint32_t place, uint32_t node, uint32_t *out);
bool place_has_host(const struct graph *graph, uint32_t place, uint32_t node);
bool place_has_device(const struct graph *graph, uint32_t place, uint32_t chosen);
/* Decides which jobs may use a host, or device, that was added to the dag. */
void places_take_host(struct graph *graph, uint32_t node);
void places_take_device(struct graph *graph, uint32_t chosen);

/* absent.c */
/* The command could not be executed on this host. Returns the end of the job, which may be tried on other hosts. */
enum dag_end absent_note(struct graph *graph, uint32_t job, uint32_t node, const char *why);
/* If the host is known to lack the command, ends the job, which was to start there, and returns true. */
bool absent_is_known(struct graph *graph, uint32_t job, uint32_t node);
/* Forgets which commands are absent. This job may use all its hosts again at once. */
void absent_forget(struct graph *graph, uint32_t number);

/* command.c: starts the job, as far as a command can fail before it runs. */
MUST_CHECK int process_command_start(struct process *process, struct err *err);

/*
 * prepare.c: looks at the files of the jobs that it needs, and at what it reads itself if it is a map, on a thread where that
 * may take long. Then process_launch(), or the process is judged: something was changed, or it was to end meanwhile.
 */
void process_prepare(struct process *process);
/* Of what it is, what it needs and what it reads. */
uint64_t preparation_work_digest(const struct preparation *preparation);
void preparation_free(struct preparation *preparation);

/* spoilt.c: files that jobs left, and that another job or somebody else changed since. Says so once. */
void spoilt_note(struct graph *graph, uint32_t job, const char *path);
/* They are as they were, also if they were not meanwhile. */
void spoilt_forget(struct graph *graph, uint32_t job);
/* At the end, of the jobs of this session. */
void spoilt_find(struct graph *graph);
/* Of all jobs, for who looks at the run; NULL: there are none. */
char *spoilt_message_new(const struct graph *graph);
/* What is the matter with a job that is done; nothing if all is well. */
void spoilt_explain(const struct graph *graph, uint32_t job, struct buf *out);

/* process.c */
extern const struct worker_handlers process_handlers;
void process_start(struct graph *graph, uint32_t number);
/* It is prepared. */
void process_launch(struct process *process);
/* It is to end; one that has not been started yet will not be. */
void process_end(struct process *process, enum worker_end how);
/* Claims what the job leaves. ERR_UNAVAILABLE if a job of another graph is at work on it. */
MUST_CHECK int job_outs_claim(const struct plan_job *plan, struct output_claim *claim,
                              struct err *err);
/* Looks for timeouts, and for processes whose devices are ready. */
void processes_tick(struct graph *graph);

/* process_end.c */
/* Takes the end of a process. `text`: why it failed; NULL: it ended well. */
void process_judge(struct process *process, enum dag_end end, const char *text);
/* Tells the dag that the process has ended: another job may have its devices. */
void process_settle(struct process *process);
/* For struct worker_handlers. */
void process_gone(void *context, const struct worker_exit *exit);
void process_free(struct process *process);

/* The beginning of the names of its logs: free() it. */
char *job_log_name_new(const char *job);

/* The file of its "stdout" or "stderr": free() it. */
char *job_log_path_new(const struct graph *graph, uint32_t job, const char *which);

/* print.c */
/* Prints it after all that was added before, as fast as the reader takes it. */
void print_add(struct graph *graph, struct printed printed);
/* Is output left to print, for which the run has to wait? */
bool print_is_due(const struct graph *graph);
void print_free(struct graph *graph);

/* placeholders.c */
struct fill {
    const char *name; /* "batch" */
    const char *value;
};
/* ERR_USAGE: a placeholder is not known, or a brace is alone. */
MUST_CHECK int placeholders_fill(const char *text, const struct fill *fills, size_t n_fills,
                                 struct buf *out, struct err *err);

/* past.c */
/*
 * Reads what earlier sessions did, and checks the files at the places of outs. ERR_USAGE: a file is there that no run
 * of this graph made, or a pattern of --only, --from or --redo means no job.
 */
MUST_CHECK int past_check(struct graph *graph, struct err *err);
/* past_check(), and then decides which jobs are done. */
MUST_CHECK int past_take(struct graph *graph, struct err *err);
/* A file where the job leaves one, before it has ever run; NULL: none, or request->overwrites. */
const char *existing_out_find(const struct graph *graph, const struct plan_job *job);
/* Notes in run.db which jobs were released from --only, for a resume. */
MUST_CHECK int released_note(const struct graph *graph, struct err *err);
/* Digests of the job's command, environment and lists of files; free() it. */
char *definition_new(const struct graph *graph, const struct plan_job *job);
/* A digest of the outs of the jobs that it needs. */
uint64_t needs_digest(const struct graph *graph, const struct graph_job *job);

/* learn.c */
void learned_open(struct graph *graph);
void learned_close(struct graph *graph);
/* Learns from a job that was done in an earlier session. */
void learned_add_past(struct graph *graph, const struct graph_job *job, uint64_t ran_ms);
/* Sets what is expected of jobs that never ran. Call it before jobs are added to the dag. */
void learned_spread(struct graph *graph);
/*
 * Learns from a job that has just ended well, and reports to the dag what is expected of the others
 * of its stage.
 */
void learned_add(const struct process *process);

/* record.c */
void record_open(struct graph *graph);
/* Commits that the job begins. ERR_STOPPED: that cannot be done, and the run ends. */
MUST_CHECK int record_begun(struct graph *graph, const struct process *process, struct err *err);
void record_attempt(struct graph *graph, const struct process *process);
void record_job(struct graph *graph, uint32_t number, enum job_state state,
                const struct process *process);
/* Changes the state of a row of an earlier session, and nothing else of it. */
void record_state(struct graph *graph, const char *name, enum job_state state);
/* Records an event of the job, device or host (`of`) that is called `name`; text NULL: no details. */
void record_event(struct graph *graph, const char *kind, const char *of, const char *name,
                  const char *text);
void record_device_event(struct graph *graph, const char *kind, uint32_t chosen);
/* Committed with other rows, or by record_flush(). */
void record_sample(struct graph *graph, const struct device_sample *sample);
/*
 * record_flush() commits what was noted; record_sync() makes durable what was committed. If that fails, the run is
 * given up.
 */
void record_flush(struct graph *graph);
/* Before the loop sleeps: commits what was noted, at once or in a moment. */
void record_rest(struct graph *graph);
void record_sync(struct graph *graph);
void record_close(struct graph *graph);

/* UINT32_MAX: there is none. */
uint32_t graph_find(const struct graph *graph, const char *name);

/* orders.c: "why JOB", "retry JOB", "hold JOB", "release JOB", "cancel JOB" with patterns, "add JSON". */
int graph_order(void *context, struct str line, struct buf *told, struct err *err);
/* Fails with "there is no job", and a job with a similar name. Returns ERR_USAGE. */
int job_unknown(const struct graph *graph, const char *name, struct err *err);

/*
 * added.c: adds the job of an order (JSON), and puts its name into `told`. ERR_USAGE, ERR_DATA: the job is wrong; or
 * ERR_STOPPED.
 */
MUST_CHECK int added_take(struct graph *graph, struct str text, struct buf *told, struct err *err);
/* Jobs that were added to the run in earlier sessions. */
MUST_CHECK int added_read(struct graph *graph, struct err *err);

/* explain.c: lines on what a job waits for, or how it ended. */
void job_explain(const struct graph *graph, uint32_t job, struct buf *out);

/* chain.c: "; first for train/r1 (it runs); begins in about 4m at the earliest", of a job that waits in a run that goes on. */
void chain_explain(const struct graph *graph, uint32_t job, struct buf *out);

/* Of a job that is held, or was cancelled; has_ended: the run. */
void held_explain(const char *job, bool has_ended, struct buf *out);
void cancelled_explain(const char *job, bool has_ended, struct buf *out);

/* why.c: a job that was not done when the run ended, for questions about the run. */
struct open_job {
    const char *name, *stage, *why;
};
void open_jobs_write(const struct graph *graph);
/* Removes the list of an earlier session. */
void open_jobs_drop(const struct graph *graph);
char *open_jobs_path_new(const char *dir);
/* Adds one line. */
void open_job_format(const struct open_job *job, struct buf *out);
/* open_job.stage is NULL if it is not known. False: the run left no such list. */
bool open_jobs_each(const char *dir, void (*take)(void *context, const struct open_job *job),
                    void *context);

/* report.c */
void report_progress(struct graph *graph, bool is_last);
/* state NULL: the run goes on. */
void report_status(struct graph *graph, const char *state);
void report_summary(struct graph *graph, int status);
/* Logs how much memory of each device is in use; `when`: "at the start". */
void report_memory(const struct graph *graph, const char *when);

/* find.c: the folder of the run to go on with, a new string; NULL: none. */
MUST_CHECK int graph_run_find(const struct graph_request *request, char **out, struct err *err);
/* All of our runs of this graph in the folder for runs, however they ended. */
void graph_runs_each(const struct graph_request *request,
                     void (*take)(void *context, const char *dir), void *context);
/*
 * A descriptor that locks the folder of runs while the run to go on with is looked for and taken, or made: if two
 * musters begin the same graph at the same moment, one finds the run of the other. -1: the file system has no such
 * locks.
 */
int graph_begin_lock(const struct graph_request *request);
