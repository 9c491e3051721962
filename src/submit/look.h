/* SPDX-License-Identifier: Apache-2.0
 *
 * How a submitted run is, for the verbs that look at runs: by its jobs, its ledger, and what Slurm says.
 */
#pragma once

#include "slurm/queue.h"
#include "store/runs.h"
#include "store/submission.h"

struct submitted_look {
    uint64_t job;     /* the last one; 0: the run was not submitted */
    char *role;       /* its; NULL: none */
    bool goes_on;     /* that job waits or runs */
    uint64_t at_work; /* the job that works on the run, while a later one may wait; 0: none */
    int status;       /* of one that does not: an exit status */
    uint64_t n_again; /* how often it was submitted again */
    char *words;      /* how that job is; NULL without a job */
    char *times;      /* how long it may wait or run; NULL: unknown */
    char *parts;      /* of a run of several jobs, all of them; NULL: it is one */
};

/* Completes what run_inspect() has found. Asks Slurm, if it must, and not more often than it may be asked. */
void submitted_look(struct run_summary *run, struct submitted_look *out);
/* The same, but Slurm is asked now: what the user has just submitted is known. */
void submitted_look_now(struct run_summary *run, struct submitted_look *out);
/* Does a muster work on the run, or does a job of it wait or run? */
bool submitted_goes_on(const char *run_dir);
void submitted_look_release(struct submitted_look *look);

/* What is known of the last job besides the lines in the run's folder. */
struct look_facts {
    bool is_asked; /* Slurm has answered, and not before the last of those lines */
    const struct queue_entry
        *entry;            /* what it said of the job; NULL: it knows none of this number */
    int64_t now_ms;        /* wall clock */
    const char *no_answer; /* why it could not be asked; NULL: it could */
};
/* Without a system call. `has_ledger`: run->state is what the run itself wrote. */
void look_judge(const struct submission *submission, const struct look_facts *facts,
                bool has_ledger, struct run_summary *run, struct submitted_look *out);
