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
    STD_OUT = 1, /* bits: what is redirected or copied */
    STD_ERR = 2,
    STD_CHOICES_MAX = 1024,
    STATUSES_MAX = 256
};

/* What happens to the output of ranks: bits for all ranks, and bits for the local ranks that were named. */
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
    LAUNCH_BY_ENDPOINT, /* the machine that has the endpoint's address leads */
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
    uint32_t n_nodes_min, n_nodes_max; /* 1, 1: this machine alone; no other member is used */
    uint32_t n_nodes_awaited;          /* struct gang_config */
    enum launch_role role;
    /* The number of this machine; 0 leads. RENDEZVOUS_ANY_NODE: the leader assigns one. */
    uint32_t node;
    bool is_typed;    /* by the user or by default; not by another launcher */
    const char *host; /* of the endpoint */
    uint16_t port;
    const char *local_addr;    /* NULL: any */
    struct str token;          /* "": none */
    uint64_t join_ms, more_ms; /* struct gang_config */
    uint64_t silence_ms;       /* after which a machine is lost; 0: 30 s */
};

/* The place of this muster's one rank, if the muster is a task of another launcher, such as srun. */
struct launch_task {
    uint32_t local_rank, n_local;  /* n_local 0: this muster is no task */
    uint32_t group_rank, n_groups; /* n_groups 0: not known */
};

struct launch_restarts {
    uint64_t n, pause_ms, healthy_ms;
    uint64_t gpus_min;           /* devices that suffice on this machine; 0: all are needed */
    bool is_final[STATUSES_MAX]; /* [status]: no restart if the first rank to fail has it */
};

/* As --no-restart-after has it: "2,65". ERR_USAGE. */
MUST_CHECK int final_statuses_parse(struct str text, struct launch_restarts *out, struct err *err);

struct rank_cpus {
    enum numa_binding binding;
    /*
     * OMP_NUM_THREADS of each rank. n 0: as torchrun does, 1 if there are several ranks and the variable is not set.
     * is_share: the rank's share of the cores that ranks may use.
     */
    struct rank_threads {
        uint64_t n;
        bool is_share;
    } threads;
};

struct launch_request {
    struct launch_meeting meeting;
    struct launch_task task;
    struct environment_wish environment;
    /*
     * gpus NULL without hosts: no devices are taken, and ranks see the devices that muster sees. hosts_min 0: all
     * hosts.
     */
    struct allocation_wish allocation;
    const char *nproc; /* as it was typed */
    struct rank_cpus cpus;
    struct launch_restarts restarts;
    const char *run_id; /* NULL: a unique one is made */
    const char *role;
    struct {
        const char *names; /* for the environment of the ranks: "SIGTERM,SIGINT" */
        /*
         * These end the run, and are handed on to the ranks. INT, TERM and HUP end the run even if they are not among
         * these; the ranks get TERM then.
         */
        sigset_t handled;
    } signals;
    /* MASTER_ADDR of the ranks. NULL, with hosts: an address that all hosts reach is found. */
    const char *master_addr;
    uint64_t master_port;                    /* 0: a free one */
    bool is_module, is_program, is_run_path; /* -m, --no-python, --run-path */
    bool is_virtual;                         /* each rank sees one device, with LOCAL_RANK 0 */
    bool passes_local_rank;                  /* --local-rank=N is the script's first argument */
    const char *log_dir;
    struct std_choice redirects, tee;
    const char *line_prefix; /* before lines of --tee, with macros; NULL: torchrun's */
    struct {
        const char *out, *errors;
    } copied; /* lines with these texts (line_copies.h); NULL: none */
    struct {
        const char *ranks;     /* local ranks whose output is shown: "0,2"; NULL or "": all */
        enum launch_fold fold; /* of equal lines of stderr */
    } shown;
    uint64_t grace_ms, linger_ms, limit_ms;
    struct {
        uint64_t
            after_ms; /* the silence after which ranks that stand still are looked for; 0: never */
        bool ends;    /* a rank that stands still has failed */
    } hang;
    bool is_plan;        /* --dry-run: nothing is started */
    bool fails_with_one; /* the status of any failure is 1, as of torchrun */
};

/*
 * ERR_USAGE if the script that Python is to run is missing here. Not checked: modules, programs, and scripts of an
 * interpreter that PYTHON_EXEC names, which may see other files.
 */
MUST_CHECK int launch_script_check(const struct launch_request *request, const char *script,
                                   struct err *err);

/*
 * Starts the command's ranks, and waits for their end. The program AGENT_PROGRAM (node/wire_body.h) stands for muster
 * itself, on every machine. Returns an exit status: 0, or the status of the first rank on any machine that ended
 * without success, which is 128 + n for a signal; or an error: ERR_USAGE, ERR_TIMEOUT, ERR_UNAVAILABLE (a port, a
 * device, a program, another machine).
 */
MUST_CHECK int launch_run(struct log *log, const char *self_path,
                          const struct launch_request *request, const char *const *command,
                          struct err *err);
