/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of muster submit: what is submitted, and its jobs.
 *
 *   cmd_submit.c  a verb, and the jobs of it        submit_stages.c  --stage
 */
#pragma once

#include "base/texts.h"
#include "opt/program.h"
#include "slurm/sbatch_request.h"

enum {
    STAGES_MAX = 64
};

struct submit_options {
    bool dry_run, follow;
    const char *setup, *array;
    struct texts stages;
    uint64_t drain_ms, again;
};

/* A verb that is to be submitted. */
struct submitted {
    const struct submit_options *options;
    const struct env_list *sbatch; /* options */
    struct sbatch_request asks;
    const struct cmd *cmd; /* NULL: a program of its own */
    void *request;
    struct cmd_check check;
    bool has_ledger, is_program;
    bool is_new;         /* its folder is made for it */
    char *run_dir, *cwd; /* absolute */
    struct env_list words;
    struct env_list task_words; /* those of a task, which were checked */
    char *task_part;
    uint64_t n_tasks;       /* of --array; 0: none */
    char *indexes;          /* of its tasks */
    const char *stage;      /* NULL: none */
    bool is_later;          /* what it reads may be made by the stages before it */
    const char *script_dir; /* the folder of all stages; NULL: run_dir */
};

/* Scripts that are submitted together, each behind the one before it. */
struct jobs {
    struct job_script {
        char *name;       /* of the file */
        const char *role; /* NULL: the only one, or the last behind an array */
        const char *verb;
        const struct env_list *options; /* sbatch's */
        struct buf text;
    } scripts[STAGES_MAX];
    size_t len;
    uint64_t after; /* the first begins when that job has ended; 0: at once */
};

/* Reads and judges the verb, and the cluster's limits. `sbatch` is completed, and stays borrowed. */
MUST_CHECK int submitted_plan(struct submitted *s, struct app *app, struct env_list *sbatch,
                              int argc, char **argv, struct err *err);
void submitted_release(struct submitted *s);

/* Adds its script; is_task: that of the array. */
MUST_CHECK int jobs_add(struct submitted *s, const struct app *app, bool is_task, int argc,
                        char **argv, struct jobs *jobs, struct err *err);
MUST_CHECK int jobs_print(const struct jobs *jobs, struct err *err);
/* Submits all of them, or none. */
MUST_CHECK int jobs_submit(const char *dir, const struct jobs *jobs, uint64_t numbers[STAGES_MAX],
                           struct err *err);
void jobs_numbers_say(const struct app *app, const char *dir, const struct jobs *jobs,
                      const uint64_t *numbers);
/* The folder of a run that could not be submitted: removed, unless a job of it is left, by which it is known. */
void jobs_folder_drop(const struct app *app, const char *dir);
void jobs_release(struct jobs *jobs);

/* --stage. `common`: sbatch's options for all stages; argv: words behind them, which are too much. */
int submit_stages(struct app *app, const struct submit_options *options,
                  const struct env_list *common, int argc, char **argv, struct err *err);
