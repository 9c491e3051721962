/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of muster submit: what is submitted, and its jobs.
 *
 *   cmd_submit.c  a verb and its jobs               submit_stages.c  --stage
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
    const struct env_list *sbatch; /* options for sbatch */
    struct sbatch_request asks;
    const struct cmd *cmd; /* NULL: a program that is not muster's */
    void *request;
    struct cmd_check check;
    bool has_ledger, is_program;
    bool is_new;         /* the run's folder is made for it */
    char *run_dir, *cwd; /* absolute */
    struct env_list words;
    struct env_list task_words; /* the words of a task, which were checked */
    char *task_part;
    uint64_t n_tasks;       /* of --array; 0: no array */
    char *indexes;          /* the indexes of its tasks */
    const char *stage;      /* NULL: none */
    bool is_later;          /* the stages before it may make the files that it reads */
    const char *script_dir; /* the folder of all stages; NULL: run_dir */
};

/* Scripts that are submitted together. Each job begins after the one before it. */
struct jobs {
    struct job_script {
        char *name;       /* of the script's file */
        const char *role; /* NULL: the only job, or the last one after an array */
        const char *verb;
        const struct env_list *options; /* options for sbatch */
        struct buf text;
    } scripts[STAGES_MAX];
    size_t len;
    uint64_t after; /* the first job begins when this job has ended; 0: at once */
};

/*
 * Reads and checks the verb, and the limits of the cluster. `sbatch` is completed, and stays
 * borrowed.
 */
MUST_CHECK int submitted_plan(struct submitted *s, struct app *app, struct env_list *sbatch,
                              int argc, char **argv, struct err *err);
void submitted_release(struct submitted *s);

/* Adds the script of a verb; is_task: that of its array. */
MUST_CHECK int jobs_add(struct submitted *s, const struct app *app, bool is_task, int argc,
                        char **argv, struct jobs *jobs, struct err *err);
MUST_CHECK int jobs_print(const struct jobs *jobs, struct err *err);
/* Submits all jobs, or none. */
MUST_CHECK int jobs_submit(const char *dir, const struct jobs *jobs, uint64_t numbers[STAGES_MAX],
                           struct err *err);
void jobs_numbers_say(const struct app *app, const char *dir, const struct jobs *jobs,
                      const uint64_t *numbers);
/*
 * Removes the folder of a run that could not be submitted. It stays if a job of the run is left,
 * because the job is known by it.
 */
void jobs_folder_drop(const struct app *app, const char *dir);
void jobs_release(struct jobs *jobs);

/*
 * Submits the jobs of --stage. `common`: sbatch's options for all stages; argv: words after them,
 * which are refused.
 */
int submit_stages(struct app *app, const struct submit_options *options,
                  const struct env_list *common, int argc, char **argv, struct err *err);
