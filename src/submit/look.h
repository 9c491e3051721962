/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a submitted run, for the verbs that look at runs: from its jobs, its ledger, and Slurm's answer.
 */
#pragma once

#include "slurm/queue.h"
#include "store/runs.h"
#include "store/submission.h"

struct submitted_look {
    uint64_t job;     /* the last one; 0: the run was not submitted */
    char *role;       /* of that job; NULL: none */
    bool goes_on;     /* the last job waits or runs */
    uint64_t at_work; /* the job that works on the run, while a later one may wait; 0: none */
    int status;       /* the exit status of a job that has ended */
    uint64_t n_again; /* how often the run was submitted again */
    char *words;      /* the state of that job in words; NULL without a job */
    char *times;      /* how long that job may wait or run; NULL: unknown */
    char *parts;      /* all jobs, if the run has several; NULL: it has one */
};

/* Completes what run_inspect() has found. Asks Slurm if necessary, but not too often. */
void submitted_look(struct run_summary *run, struct submitted_look *out);
/* The same, but asks Slurm now, so that a job that was just submitted is known. */
void submitted_look_now(struct run_summary *run, struct submitted_look *out);
/* Does a muster work on the run, or does a job of it wait or run? */
bool submitted_goes_on(const char *run_dir);
void submitted_look_release(struct submitted_look *look);

/* What is known of the last job, besides the lines in the run's folder. */
struct look_facts {
    bool is_asked;                   /* Slurm has answered, later than the last of those lines */
    const struct queue_entry *entry; /* Slurm's entry of the job; NULL: it knows no such job */
    int64_t now_ms;                  /* wall clock */
    const char *no_answer;           /* why Slurm could not be asked; NULL: it could */
};
/* Pure. `has_ledger`: run->state is what the run itself wrote. */
void look_judge(const struct submission *submission, const struct look_facts *facts,
                bool has_ledger, struct run_summary *run, struct submitted_look *out);
