/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster launch`: the ranks of one program, started and ended together, with the environment that torchrun gives them
 * (https://docs.pytorch.org/docs/stable/elastic/run.html). core/gang.h decides, this room does.
 *
 *   launch.c   from the request to the status      rank.c    a rank: its command, environment, process
 *   machine.c  the ranks of one machine            output.c  where its output goes
 *   lead.c     the gang's events and actions       report.c  what failed first
 *   follow.c   the orders of a leader elsewhere    meeting.c who leads, and who is called when
 *   takeover.c what another launcher tells         master_port.c  the port at which ranks meet
 *   fleet.c    the hosts of --hosts                meet.c    where the ranks of several hosts meet
 *   reach.c    the same, on each of them           meeting_point.c   what they tell, and the choice
 *   cpus.c     the CPUs of ranks, their share of threads  dry_run.c  what would be started
 *   line_copies.c  lines with certain texts        fold.c    lines that several ranks print
 *   watch.c    ranks that stand still              rank_devices.c  devices that are lost meanwhile
 */
#pragma once

#include <signal.h>

#include "base/log.h"
#include "device/cpu_share.h"
#include "node/allocation.h"
#include "node/environment.h"

enum {
    STD_OUT = 1, /* bits of what is redirected or copied */
    STD_ERR = 2,
    STD_CHOICES_MAX = 1024,
    STATUSES_MAX = 256
};

/* What is done with the output of each rank: bits for all, and for local ranks that were named. */
struct std_choice {
    uint8_t all;
    uint16_t n_named;
    struct {
        uint16_t local_rank;
        uint8_t bits;
    } named[STD_CHOICES_MAX];
};

/* As `--redirects` and `--tee` have it: "3", or "0:3,1:2". ERR_USAGE. */
MUST_CHECK int std_choice_parse(struct str text, struct std_choice *out, struct err *err);
uint8_t std_choice_of(const struct std_choice *choice, uint32_t local_rank);

enum launch_role {
    LAUNCH_BY_ENDPOINT, /* the one leads that has its address */
    LAUNCH_LEADS,
    LAUNCH_FOLLOWS
};

enum launch_fold {
    FOLD_ON_TERMINAL,
    FOLD_ALWAYS,
    FOLD_NEVER
};

/* The machines that take part, each with a muster of its own (rendezvous/rendezvous.h). */
struct launch_meeting {
    uint32_t n_nodes_min, n_nodes_max; /* 1, 1: this machine alone, and nothing else is looked at */
    uint32_t n_nodes_awaited;          /* struct gang_config */
    enum launch_role role;
    /* The number of this machine; 0 leads. RENDEZVOUS_ANY_NODE: the leader gives it one. */
    uint32_t node;
    bool is_typed; /* the number, by the user or as a default; else by another launcher, or none */
    const char *host; /* of the endpoint */
    uint16_t port;
    const char *local_addr;    /* NULL: any */
    struct str token;          /* "": none */
    uint64_t join_ms, more_ms; /* struct gang_config */
    uint64_t silence_ms;       /* after which a machine is lost; 0: 30 s */
};

/* The place of the one rank that a muster starts which is a task of a launcher, such as srun. */
struct launch_task {
    uint32_t local_rank, n_local;  /* n_local 0: this muster is no task */
    uint32_t group_rank, n_groups; /* n_groups 0: not known */
};

struct launch_restarts {
    uint64_t n, pause_ms, healthy_ms;
    uint64_t gpus_min;           /* devices of this machine that are enough; 0: all */
    bool is_final[STATUSES_MAX]; /* no restart after such a status of the first rank that fails */
};

/* As --no-restart-after has it: "2,65". ERR_USAGE. */
MUST_CHECK int final_statuses_parse(struct str text, struct launch_restarts *out, struct err *err);

struct rank_cpus {
    enum numa_binding binding;
    /* OMP_NUM_THREADS of each rank; n 0: as torchrun has it, 1 for each of several ranks, unless it is set; is_share: of the
     * cores that ranks may use */
    struct rank_threads {
        uint64_t n;
        bool is_share;
    } threads;
};

struct launch_request {
    struct launch_meeting meeting;
    struct launch_task task;
    struct environment_wish environment;
    /* Without hosts, gpus NULL: no devices are taken, and ranks see what muster sees. hosts_min 0: all. */
    struct allocation_wish allocation;
    const char *nproc; /* as it was typed */
    struct rank_cpus cpus;
    struct launch_restarts restarts;
    const char *run_id; /* NULL: one that no other run has */
    const char *role;
    struct {
        const char *names; /* for the environment of the ranks: "SIGTERM,SIGINT" */
        /* End the run, and are handed on to the ranks. INT, TERM and HUP that are not among them end it
         * too, and the ranks get TERM. */
        sigset_t handled;
    } signals;
    /* For the environment of the ranks; NULL, with hosts: one that all hosts reach. */
    const char *master_addr;
    uint64_t master_port;                    /* 0: a free one */
    bool is_module, is_program, is_run_path; /* -m, --no-python, --run-path */
    bool is_virtual;                         /* each rank sees one device, and has LOCAL_RANK 0 */
    bool passes_local_rank;                  /* --local-rank=N is the script's first argument */
    const char *log_dir;
    struct std_choice redirects, tee;
    const char *line_prefix; /* before lines of --tee, with macros; NULL: as torchrun's */
    struct {
        const char *out, *errors;
    } copied; /* lines with these texts (line_copies.h); NULL: none */
    struct {
        const char *ranks;     /* local ranks whose output is shown: "0,2"; NULL or "": all */
        enum launch_fold fold; /* lines of stderr that several ranks print */
    } shown;
    uint64_t grace_ms, linger_ms, limit_ms;
    struct {
        uint64_t
            after_ms; /* the silence after which ranks that stand still are looked for; 0: never */
        bool ends;    /* a rank that stands still has failed */
    } hang;
    bool is_plan;        /* what would be started is printed, and nothing is */
    bool fails_with_one; /* the status of any failure is 1, as torchrun's is */
};

/* Is the file there that Python is to run here? Modules, programs and what a named interpreter (PYTHON_EXEC) may see elsewhere
 * are not looked for. ERR_USAGE. */
MUST_CHECK int launch_script_check(const struct launch_request *request, const char *script,
                                   struct err *err);

/*
 * Starts the command's ranks, and waits for their end. A program AGENT_PROGRAM (node/wire_body.h) is muster itself, on
 * every machine. Returns an exit status: 0; that of the rank that ended first without
 * success, 128 + n for a signal, on whichever machine; or an error: ERR_USAGE, ERR_TIMEOUT, ERR_UNAVAILABLE (a port, a
 * device, a program, another machine).
 */
MUST_CHECK int launch_run(struct log *log, const char *self_path,
                          const struct launch_request *request, const char *const *command,
                          struct err *err);
