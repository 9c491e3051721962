/* SPDX-License-Identifier: Apache-2.0
 *
 * muster job: the job's side of muster submit, started by its batch script alone.
 */
#include "cli/verbs.h"
#include "submit/job.h"

struct job_options {
    const char *stage, *ledger_dir;
    bool has_ledger, gains_unseen, is_program;
    uint64_t again, n_tasks;
};

static int job_verb(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    const struct job_options *options = request;
    (void)argc, (void)argv;
    if (!command || !command[0] || !command[1])
        return fail(err, ERR_USAGE,
                    "expected the run's folder and a verb; muster submit makes the "
                    "script that has them");
    const struct job_request job = {.self_path = app->self_path,
                                    .run_dir = command[0],
                                    .ledger_dir =
                                        options->has_ledger ? command[0] : options->ledger_dir,
                                    .stage = options->stage,
                                    .gains_unseen = options->gains_unseen,
                                    .is_program = options->is_program,
                                    .n_tasks = options->n_tasks,
                                    .again_max = options->again,
                                    .words = command + 1};
    return job_run(&job, err);
}

static const struct opt job_opts[] = {
    {.kind = OPT_U64,
     .name = "again",
     .arg = "N",
     .help = "how often the script is submitted again",
     .offset = offsetof(struct job_options, again)},
    {.kind = OPT_FLAG,
     .name = "ledger",
     .help = "the verb's run is in the folder",
     .offset = offsetof(struct job_options, has_ledger)},
    {.kind = OPT_PATH,
     .name = "ledger-in",
     .arg = "DIR",
     .help = "the verb's run is there",
     .offset = offsetof(struct job_options, ledger_dir)},
    {.kind = OPT_TEXT,
     .name = "stage",
     .has_no_variable = true,
     .arg = "NAME",
     .help = "the folder is that of several stages, of which this is one",
     .offset = offsetof(struct job_options, stage)},
    {.kind = OPT_FLAG,
     .name = "gains-unseen",
     .help = "what it runs may gain what is in no ledger",
     .offset = offsetof(struct job_options, gains_unseen)},
    {.kind = OPT_FLAG,
     .name = "program",
     .help = "the words are those of another program",
     .offset = offsetof(struct job_options, is_program)},
    {.kind = OPT_U64,
     .name = "tasks",
     .arg = "N",
     .help = "the tasks of the array before this job",
     .offset = offsetof(struct job_options, n_tasks)},
    {.kind = OPT_END},
};

const struct cmd cmd_job = {
    .name = "job",
    .args = "[OPTION]... FOLDER VERB [ARG]...",
    .summary = "the script of muster submit, in its job",
    .opts = job_opts,
    .is_hidden = true,
    .is_like_argparse = true,
    .request_size = sizeof(struct job_options),
    .run = job_verb,
};
