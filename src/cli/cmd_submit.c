/* SPDX-License-Identifier: Apache-2.0
 *
 * muster submit starts a verb as a Slurm job. It checks the words of the verb now, while the user
 * can see errors. The run gets its folder now. After that only the job's script continues the work.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "cli/external_verbs.h"
#include "cli/run_arg.h"
#include "cli/submit_follow.h"
#include "cli/submit_impl.h"
#include "cli/verbs.h"
#include "slurm/sbatch_help.h"
#include "slurm/sbatch_options.h"
#include "slurm/sbatch_request.h"
#include "store/runs.h"
#include "store/submission.h"
#include "submit/batch.h"
#include "submit/look.h"
#include "submit/preflight.h"
#include "submit/script.h"
#include "submit/stage.h"
#include "submit/tasks.h"

enum {
    AGAIN_DEFAULT = 100,
    AGAIN_MAX = 4096,
    DRAIN_MAX_S = 65535, /* sbatch keeps it in 16 bits */
    SCRIPT_MAX_BYTES = 4 << 20,
    OWN_MAX = 32
};

void submitted_release(struct submitted *s)
{
    if (s->cmd && s->request)
        cmd_release(s->cmd, s->request);
    free(s->request);
    free(s->check.run_dir);
    env_list_release(&s->check.words);
    free(s->run_dir);
    free(s->indexes);
    free(s->task_part);
    free(s->cwd);
    env_list_release(&s->words);
    env_list_release(&s->task_words);
}

/* ---- the verb ---- */

static const struct cmd *verb_find(const struct app *app, const char *name)
{
    for (const struct cmd *const *cmd = app->program->verbs; *cmd; cmd++)
        if (strcmp((*cmd)->name, name) == 0 && !(*cmd)->is_hidden)
            return *cmd;
    return NULL;
}

/* True if help is wanted. A program of a family ("muster kge") has verbs too. */
static bool wants_help(const struct app *app, int argc, char **argv)
{
    for (int i = verb_find(app, argv[0]) ? 1 : 2;
         i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int verb_help(const struct app *app, char **argv, struct err *err)
{
    cleanup_buf struct buf help = BUF_INIT;
    const struct cmd *cmd = verb_find(app, argv[0]);
    if (!cmd) {
        int rc = external_verb_run(app, argv, err);
        return rc ? rc : fail(err, ERR_USAGE, "unknown verb '%s'; see muster --help", argv[0]);
    }
    cmd_help(cmd, &help);
    return stdout_put(buf_str(&help), err);
}

/* Refuses options that make no sense in a job. */
static int words_fit(const struct submitted *s, struct err *err)
{
    if (s->cmd == &cmd_submit)
        return fail(err, ERR_USAGE, "submit is not submitted itself");
    if (cmd_flag(s->cmd, s->request, "detach"))
        return fail(err, ERR_USAGE, "--detach: a job is in the background already");
    if (cmd_flag(s->cmd, s->request, "dry-run"))
        return fail(err, ERR_USAGE, "--dry-run stands before the verb: muster submit --dry-run %s",
                    s->cmd->name);
    return 0;
}

/* Parses a copy of the words, because the verb's own parser moves them. */
static int verb_check(struct submitted *s, struct app *app, int argc, char **argv, struct err *err)
{
    int n_operands;
    char **operands, **command;
    s->request = xcalloc(1, s->cmd->request_size + 1);
    int rc = cmd_parse(s->cmd, argc, argv, s->request, &n_operands, &operands, &command, err);
    if (rc == 0)
        rc = words_fit(s, err);
    s->check.has_hosts = rc == 0 && s->asks.nodes_max > 1 && cmd_has(s->cmd, "hosts") &&
                         !cmd_text(s->cmd, s->request, "hosts");
    if (rc == 0 && !s->check.has_hosts)
        rc = cmd_needs_check(s->cmd, s->request, err);
    if (rc == 0 && s->stage && s->cmd == &cmd_resume)
        rc = fail(err, ERR_USAGE, "which run it means is not known when the stage begins");
    if (rc == 0 && s->cmd->check && !s->is_later)
        rc = s->cmd->check(app, s->request, n_operands, operands, command, &s->check, err);
    return rc ? wrap(err, rc, "%s", s->cmd->name) : 0;
}

/* Makes the words of a task. The options for its part and its folder are in its script. */
static void task_words_make(struct submitted *s, int argc, char **argv)
{
    env_list_release(&s->words);
    env_list_add(&s->words, xstrdup(argv[0]));
    env_list_add(&s->words, xasprintf("--shards=%lu", s->n_tasks));
    for (int i = 1; i < argc; i++)
        env_list_add(&s->words, xstrdup(argv[i]));
    env_end(&s->words);
}

/*
 * Refuses options that submit itself gives to each task and to the job behind the tasks: the user's
 * words come later, and would count instead.
 */
static int task_words_fit(const struct submitted *s, int argc, char **argv, struct err *err)
{
    static const char *const taken[] = {"run-dir", "part", "take"};
    cleanup_free void *request = xcalloc(1, s->cmd->request_size + 1);
    cleanup_free char **copy = cmd_words_copy(argc, argv);
    struct env_list words = {0};
    int n_operands;
    char **operands, **command;
    int rc = cmd_parse(s->cmd, argc, copy, request, &n_operands, &operands, &command, err);
    if (rc == 0)
        cmd_words(s->cmd, request, &words);
    for (size_t i = 0; rc == 0 && i < countof(taken); i++)
        if (sbatch_value(&words, taken[i]))
            rc = fail(err, ERR_USAGE,
                      "--array: --%s is given to each task by submit; leave it out (--runs-dir "
                      "says where the run's folder is made)",
                      taken[i]);
    env_list_release(&words);
    cmd_release(s->cmd, request);
    return rc;
}

static int task_check(struct submitted *s, struct app *app, int argc, char **argv, struct err *err)
{
    if (!cmd_has(s->cmd, "part"))
        return fail(err, ERR_USAGE, "--array shares the shards of a map among tasks; %s has none",
                    s->cmd->name);
    if (s->asks.nodes_max > 1)
        return fail(err, ERR_USAGE, "--array: a task runs on one node; leave --nodes out");
    int fits = task_words_fit(s, argc, argv, err);
    if (fits)
        return wrap(err, fits, "%s", s->cmd->name);
    task_words_make(s, argc, argv);
    s->task_part = xasprintf("--part=0/%lu", s->n_tasks);
    cleanup_free char **copy = xcalloc(s->words.len + 2, sizeof(*copy));
    copy[0] = s->words.at[0];
    copy[1] = s->task_part;
    memcpy(copy + 2, s->words.at + 1, (s->words.len - 1) * sizeof(*copy));
    int rc = verb_check(s, app, (int)s->words.len + 1, copy, err);
    s->task_words = s->words; /* the request borrows from them */
    s->words = (struct env_list){0};
    return rc;
}

/* Takes the command of a stage that is no verb of muster. */
static int program_take(struct submitted *s, const char *program, struct err *err)
{
    s->is_program = true;
    *err = (struct err){0};
    if (s->check.has_setup || program_check(program, err) == 0)
        return 0;
    return fail(err, ERR_UNAVAILABLE,
                "'%s' is neither a verb of muster nor a program that is found; if --setup makes it "
                "known, give that",
                program);
}

static int verb_take(struct submitted *s, struct app *app, int argc, char **argv, struct err *err)
{
    s->cmd = verb_find(app, argv[0]);
    if (!s->cmd) {
        int checked = external_verb_check(app, argv, err);
        return s->stage && checked == ERR_USAGE ? program_take(s, argv[0], err) : checked;
    }
    cleanup_free char **copy = cmd_words_copy(argc, argv);
    int rc =
        s->n_tasks > 0 ? task_check(s, app, argc, argv, err) : verb_check(s, app, argc, copy, err);
    if (rc == ERR_USAGE)
        cmd_variables_tell(s->cmd, argc, argv, err);
    s->has_ledger = s->check.run_dir || cmd_has(s->cmd, "run-dir");
    return rc;
}

/* ---- the run's folder ---- */

static void folder_choose(struct submitted *s, const char *verb, int64_t wall_ms)
{
    const char *given = s->cmd ? cmd_text(s->cmd, s->request, "run-dir") : NULL;
    char stamp[20];
    if (s->check.run_dir || given) {
        s->run_dir = path_absolute(s->check.run_dir ? s->check.run_dir : given);
        return;
    }
    cleanup_free char *root = runs_root(s->cmd ? cmd_text(s->cmd, s->request, "runs-dir") : NULL);
    clock_stamp(stamp, wall_ms);
    s->run_dir = xasprintf("%s/%s-%s", root, stamp, verb);
    s->is_new = true;
}

/* Anyone who can write to the folder could have any program run as the job's script. */
static int folder_make(struct submitted *s, const char *verb, int64_t wall_ms, struct err *err)
{
    if (!s->is_new) {
        int rc = mkdir_parents(s->run_dir, 0775, err);
        return rc ? rc : run_check_ours(s->run_dir, err);
    }
    cleanup_free char *root = path_dirname(s->run_dir);
    free(steal_ptr(&s->run_dir));
    return run_create(root, verb, wall_ms, &s->run_dir, err);
}

/* ---- the script ---- */

/*
 * Makes the words of the job. The options that submit adds stand right behind the verb, because
 * later words may belong to a program.
 */
static void words_make(struct submitted *s, int argc, char **argv)
{
    env_list_release(&s->words);
    env_list_add(&s->words, xstrdup(argv[0]));
    if (s->n_tasks > 0) {
        env_list_add(&s->words, xasprintf("--take=%s/tasks", s->run_dir));
        env_list_add(&s->words, xasprintf("--shards=%lu", s->n_tasks));
    }
    if (s->cmd && cmd_has(s->cmd, "run-dir"))
        env_list_add(&s->words, xasprintf("--run-dir=%s", s->run_dir));
    if (s->check.has_hosts)
        env_list_add(&s->words, xstrdup("--hosts=slurm"));
    for (size_t i = 0; i < s->check.words.len; i++)
        env_list_add(&s->words, xstrdup(s->check.words.at[i]));
    for (int i = 1; i < argc && s->check.words.len == 0; i++)
        env_list_add(&s->words, xstrdup(argv[i]));
    env_end(&s->words);
}

static int script_make(struct submitted *s, const struct app *app, bool is_task, int argc,
                       char **argv, struct buf *script, struct err *err)
{
    const struct submit_options *o = s->options;
    uint64_t drain_s = o->drain_ms > 0 ? o->drain_ms / 1000 : script_drain_s(s->asks.time_s);
    if (s->asks.time_s > 0 && drain_s >= s->asks.time_s)
        return fail(err, ERR_USAGE,
                    "--drain %lus is not less than the time of the job, %lus: it would be told at "
                    "once to leave off",
                    drain_s, s->asks.time_s);
    if (is_task)
        task_words_make(s, argc, argv);
    else
        words_make(s, argc, argv);
    const struct script_request request = {.program = app->self_path,
                                           .name = s->stage,
                                           .is_program = s->is_program,
                                           .n_tasks = s->n_tasks,
                                           .tasks = is_task ? s->indexes : NULL,
                                           .run_dir = s->script_dir ? s->script_dir : s->run_dir,
                                           .cwd = s->cwd,
                                           .options = s->sbatch,
                                           .setup = o->setup,
                                           .words = (const char *const *)s->words.at,
                                           .stage_dir = s->stage ? s->run_dir : NULL,
                                           .has_ledger = s->has_ledger,
                                           .gains_unseen =
                                               s->cmd == &cmd_graph && o->again != UINT64_MAX,
                                           .drain_s = drain_s,
                                           .again_max = o->again != UINT64_MAX ? o->again
                                                        : s->has_ledger        ? AGAIN_DEFAULT
                                                                               : 0};
    return script_format(&request, script, err);
}

/* ---- the jobs ---- */

void jobs_release(struct jobs *jobs)
{
    for (size_t i = 0; i < jobs->len; i++) {
        free(jobs->scripts[i].name);
        buf_release(&jobs->scripts[i].text);
    }
    jobs->len = 0;
}

int jobs_add(struct submitted *s, const struct app *app, bool is_task, int argc, char **argv,
             struct jobs *jobs, struct err *err)
{
    struct job_script *script = &jobs->scripts[jobs->len++];
    *script = (struct job_script){.role = is_task ? "tasks" : s->stage,
                                  .verb = s->stage ? "stages" : argv[0],
                                  .options = s->sbatch};
    script->name = is_task    ? xstrdup(TASKS_SCRIPT)
                   : s->stage ? xasprintf("%s.sh", s->stage)
                              : xstrdup("job.sh");
    return script_make(s, app, is_task, argc, argv, &script->text, err);
}

/* Makes the jobs of one verb: the tasks of its array, and the verb itself. */
static int jobs_make(struct submitted *s, const struct app *app, int argc, char **argv,
                     struct jobs *jobs, struct err *err)
{
    int rc = s->n_tasks > 0 ? jobs_add(s, app, true, argc, argv, jobs, err) : 0;
    return rc ? rc : jobs_add(s, app, false, argc, argv, jobs, err);
}

int jobs_print(const struct jobs *jobs, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < jobs->len; i++)
        rc = stdout_put(buf_str(&jobs->scripts[i].text), err);
    return rc;
}

/*
 * Writes the scripts, and makes the folder of the output files, because Slurm makes only the files.
 */
static int jobs_write(const char *dir, const struct jobs *jobs, struct err *err)
{
    cleanup_free char *logs = path_join(dir, "logs");
    int rc = mkdir_parents(logs, 0775, err);
    for (size_t i = 0; rc == 0 && i < jobs->len; i++) {
        cleanup_free char *path = batch_script_path(dir, jobs->scripts[i].name);
        rc = file_replace(path, buf_str(&jobs->scripts[i].text), err);
    }
    return rc;
}

/* Takes back a job because the next one cannot be submitted; `err` says why. */
static void job_take_back(const char *dir, const struct job_script *script, uint64_t number,
                          const struct err *err)
{
    struct err why = {0};
    const struct job_record alone = {.event = JOB_SUBMITTED,
                                     .job = number,
                                     .verb = script->verb,
                                     .role = script->role,
                                     .why = err->text};
    if (batch_cancel(dir, number, NULL, &why) == 0)
        return;
    cleanup_free char *root = runs_root(NULL), *typed = run_typed_new(dir, root);
    talk("job %lu may be left in the queue (%s); muster stop %s ends it", number, why.text, typed);
    if (submission_add(dir, &alone, &why) != 0)
        talk("%s", why.text);
}

/* Submits all jobs, or none. */
int jobs_submit(const char *dir, const struct jobs *jobs, uint64_t numbers[STAGES_MAX],
                struct err *err)
{
    int rc = jobs_write(dir, jobs, err);
    size_t n = 0;
    for (; rc == 0 && n < jobs->len; n++) {
        const struct job_script *script = &jobs->scripts[n];
        const struct batch_wish wish = {.script = script->name,
                                        .verb = script->verb,
                                        .options = script->options,
                                        .role = script->role,
                                        .after = n > 0 ? numbers[n - 1] : jobs->after,
                                        .needs_success =
                                            script->role && (n > 0 || jobs->after == 0)};
        numbers[n] = 0;
        rc = batch_submit(dir, &wish, &numbers[n], err); /* this job may be submitted without a
                                                          * note */
    }
    for (; rc != 0 && n > 0; n--)
        if (numbers[n - 1] > 0)
            job_take_back(dir, &jobs->scripts[n - 1], numbers[n - 1], err);
    return rc;
}

void jobs_numbers_say(const struct app *app, const char *dir, const struct jobs *jobs,
                      const uint64_t *numbers)
{
    cleanup_free char *root = runs_root(NULL), *typed = run_typed_new(dir, root);
    cleanup_buf struct buf list = BUF_INIT;
    for (size_t i = 0; i < jobs->len; i++) {
        buf_addf(&list, "%s%lu", i > 0 ? ", " : "", numbers[i]);
        if (jobs->scripts[i].role)
            buf_addf(&list, " (%s)", jobs->scripts[i].role);
    }
    say(app, "submitted as job%s %s; see: muster status %s", plural(jobs->len), buf_text(&list),
        typed);
}

void jobs_folder_drop(const struct app *app, const char *dir)
{
    struct submission submission;
    bool is_known = false;
    if (submission_read(dir, &submission, NULL) == 0)
        for (size_t i = 0; i < submission.n_jobs; i++)
            is_known |= submitted_job_is_open(&submission.jobs[i]);
    submission_release(&submission);
    if (!is_known && remove_tree(dir, NULL) != 0)
        say(app, "%s is left", dir);
}

/* True if the script of that run differs from this one only in the name of the run. */
static bool is_same_script(const char *dir, const char *run_dir, struct str script)
{
    cleanup_free char *path = batch_script_path(dir, NULL);
    cleanup_buf struct buf other = BUF_INIT, same = BUF_INIT;
    if (!path_exists(path) || plain_file_read(path, SCRIPT_MAX_BYTES, &other, NULL) != 0)
        return false;
    const char *at = buf_text(&other);
    for (const char *found; (found = strstr(at, dir)); at = found + strlen(dir)) {
        buf_add_str(&same, (struct str){at, (size_t)(found - at)});
        buf_add_text(&same, run_dir);
    }
    buf_add_text(&same, at);
    return str_equal(buf_str(&same), script);
}

/*
 * Refuses a second run of the same work while the job of the first one waits: the verb itself
 * cannot notice this, because the first run has no records yet.
 */
static int twin_check(const struct submitted *s, const struct jobs *jobs, struct err *err)
{
    cleanup_free char *root = path_dirname(s->run_dir);
    struct run_names names;
    struct str script = buf_str(&jobs->scripts[jobs->len - 1].text);
    int rc = 0;
    if (!s->has_ledger || !s->is_new || !path_exists(root))
        return 0;
    if ((rc = runs_list(root, &names, err)) != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < names.len; i++) {
        cleanup_free char *dir = path_join(root, names.at[i]);
        if (is_same_script(dir, s->run_dir, script) && submitted_goes_on(dir))
            rc = fail(err, ERR_UNAVAILABLE,
                      "the same is submitted already, as run %s: muster status %s shows it, muster "
                      "stop %s ends it",
                      names.at[i], names.at[i], names.at[i]);
    }
    run_names_release(&names);
    return rc;
}

/*
 * Returns the job of the run that waits or runs, or 0. A second job would keep its nodes idle while
 * the first one works.
 */
static uint64_t job_before(const struct submitted *s)
{
    struct run_summary run;
    struct submitted_look look;
    if (!s->has_ledger || s->is_new || sbatch_value(s->sbatch, "dependency") ||
        run_inspect(s->run_dir, &run, NULL) != 0)
        return 0;
    submitted_look(&run, &look);
    const uint64_t job = look.goes_on ? look.job : 0;
    if (job > 0)
        talk("job %llu of this run %s; the new one begins when it has ended",
             (unsigned long long)job, look.words);
    submitted_look_release(&look);
    run_summary_release(&run);
    return job;
}

static int verb_submit(struct submitted *s, const struct app *app, int argc, char **argv,
                       int64_t wall_ms, struct err *err)
{
    struct jobs jobs = {0};
    uint64_t numbers[STAGES_MAX];
    int rc = folder_make(s, argv[0], wall_ms, err);
    if (rc)
        return rc;
    jobs.after = job_before(s);
    rc = jobs_make(s, app, argc, argv, &jobs, err);
    if (rc == 0)
        rc = jobs_submit(s->run_dir, &jobs, numbers, err);
    if (rc == 0 && s->is_new && run_mark_latest(s->run_dir, NULL) != 0)
        say(app, "muster-runs/latest does not point at this run");
    if (rc == 0)
        jobs_numbers_say(app, s->run_dir, &jobs, numbers);
    else if (s->is_new)
        jobs_folder_drop(app, s->run_dir);
    jobs_release(&jobs);
    return rc == 0 && s->options->follow ? submit_follow(app, s->run_dir, err) : rc;
}

/* ---- options ---- */

static int own_parse(const struct env_list *own, struct submit_options *options, struct err *err)
{
    cleanup_free char **argv = xcalloc(own->len + 2, sizeof(*argv));
    for (size_t i = 0; i < own->len; i++)
        argv[i + 1] = own->at[i];
    int rc = cmd_overlay(&cmd_submit, (int)own->len + 1, argv, options, err);
    if (rc == 0 && options->drain_ms > 0 &&
        (options->drain_ms < 1000 || options->drain_ms / 1000 > DRAIN_MAX_S))
        rc = fail(err, ERR_USAGE, "--drain: expected 1s to %ds, which is what Slurm can tell",
                  DRAIN_MAX_S);
    return rc;
}

static size_t own_list(struct sbatch_own *out)
{
    size_t n = 0;
    for (const struct opt *opt = cmd_submit.opts; opt->kind != OPT_END; opt++)
        if (opt->name && n < OWN_MAX)
            out[n++] = (struct sbatch_own){opt->name, opt->letter, opt->arg != NULL};
    return n;
}

/*
 * Enters the folder in which the job will run, so that names of files mean the same now as in the
 * job.
 */
static int folder_enter(struct submitted *s, struct err *err)
{
    const char *there = sbatch_value(s->sbatch, "chdir");
    if (there && chdir(there) != 0)
        return fail_errno_as(err, ERR_USAGE, "--chdir %s", there);
    s->cwd = path_cwd();
    return s->cwd ? 0 : fail_errno(err, "the working folder");
}

int submitted_plan(struct submitted *s, struct app *app, struct env_list *sbatch, int argc,
                   char **argv, struct err *err)
{
    const struct submit_options *options = s->options;
    int rc = options->array ? tasks_parse(options->array, &s->n_tasks, &s->indexes, err) : 0;
    s->sbatch = sbatch;
    sbatch_request_read(sbatch, &s->asks);
    if (rc == 0)
        rc = folder_enter(s, err);
    if (rc == 0)
        rc = verb_take(s, app, argc, argv, err);
    if (rc == 0)
        rc = preflight(sbatch, s->indexes, err);
    sbatch_request_read(sbatch, &s->asks);
    return rc;
}

static int submit_words(struct app *app, struct submit_options *options, struct env_list *sbatch,
                        int argc, char **argv, struct err *err)
{
    struct submitted s = {.options = options, .check = {.has_setup = options->setup != NULL}};
    struct jobs jobs = {0};
    int64_t wall_ms = clock_wall_ms();
    if (argc == 0)
        return fail(err, ERR_USAGE, "no verb: say what is to be run, as muster submit map …");
    if (wants_help(app, argc, argv))
        return verb_help(app, argv, err);
    int rc = submitted_plan(&s, app, sbatch, argc, argv, err);
    if (rc == 0)
        folder_choose(&s, argv[0], wall_ms);
    if (rc == 0)
        rc = jobs_make(&s, app, argc, argv, &jobs, err);
    if (rc == 0 && !options->dry_run)
        rc = twin_check(&s, &jobs, err);
    if (rc == 0)
        rc = options->dry_run ? jobs_print(&jobs, err)
                              : verb_submit(&s, app, argc, argv, wall_ms, err);
    jobs_release(&jobs);
    submitted_release(&s);
    return rc;
}

static int submit_run(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    struct submit_options *options = request;
    struct sbatch_own own[OWN_MAX];
    struct sbatch_words words;
    (void)command;
    const struct sbatch_beside beside = {own, own_list(own), sbatch_help_ask};
    int rc = sbatch_words_read(&beside, argc, argv, &words, err);
    if (rc)
        return rc;
    rc = own_parse(&words.own, options, err);
    if (rc == 0 && options->stages.len > 0)
        rc = submit_stages(app, options, &words.options, argc - words.n_read, argv + words.n_read,
                           err);
    else if (rc == 0)
        rc = submit_words(app, options, &words.options, argc - words.n_read, argv + words.n_read,
                          err);
    sbatch_words_release(&words);
    return rc;
}

static void submit_defaults(void *request)
{
    ((struct submit_options *)request)->again = UINT64_MAX;
}

#define FIELD(name) offsetof(struct submit_options, name)

/* clang-format off */
static const struct opt submit_opts[] = {
    {OPT_FLAG, 0, "dry-run", NULL, "show the script that would be submitted, and submit nothing", FIELD(dry_run)},
    {OPT_FLAG, 0, "follow", NULL, "wait until the work is complete, and show what the job prints; Ctrl-C ends only the waiting, not the job", FIELD(follow)},
    {OPT_TEXT, 0, "setup", "LINE", "a line that the script runs before the verb, such as 'source env.sh'", FIELD(setup)},
    {OPT_DURATION, 0, "drain", "DURATION", "time before the time limit at which map and resume stop giving out items, graph stops starting jobs, and other verbs get SIGTERM (default 2m, or a quarter of --time if that is less)", FIELD(drain_ms), 1000, 0},
    {OPT_U64, 0, "again", "N", "submit the job again, up to N times, if its time limit came before the work was complete; with --stage N is for each stage (default 100 for map, resume and graph, which lose no result; 0, which is never, for other verbs)", FIELD(again), 0, AGAIN_MAX},
    {OPT_TEXTS, 0, "stage", "NAME: [OPTION of sbatch]... -- COMMAND", "instead of VERB: one job for each --stage, in order; a stage begins when the stage before it has ended with status 0; COMMAND is a verb of muster or any program (may be repeated)", FIELD(stages)},
    {OPT_TEXT, 0, "array", "N[%K]", "share the shards of a map among the N tasks of a job array, of which at most K run at once (default: no limit); when all tasks have ended, one more job takes their results, runs what is missing, and makes the output", FIELD(array)},
    {OPT_END},
};
/* clang-format on */

static const char *const submit_examples[] = {
    "muster submit --gpus-per-node=8 --time=8:00:00 map questions.jsonl -o answers.jsonl -- python3 worker.py",
    "as many jobs of eight hours as it takes, one after another",
    "muster submit -N4 --gpus-per-node=8 --setup 'source ~/venv/bin/activate' launch train.py",
    "ranks on four nodes, as by muster launch --hosts slurm there",
    "muster submit -N2 --gpus-per-node=8 --time=12:00:00 graph experiments.yaml",
    "the jobs of a file on all GPUs of two nodes",
    "muster submit --array 256%64 --gpus-per-node=8 map --items 100000 --shards 2048 -o all.jsonl -- python3 eval.py --from {start} --n {count} --to {output}",
    "a job array of 256 tasks, 64 at once, and a job that makes the output",
    "muster submit --stage 'dump: --gpus 4 -- launch dump.py' --stage 'train: --gpus 8 -- launch train.py'",
    "two jobs with different counts of GPUs, the second begins when the first has ended well",
    "muster submit --dry-run -p gpu -t 60 resume latest",
    "the script of a job that goes on with the latest run",
    NULL,
};

const struct cmd cmd_submit = {
    .name = "submit",
    .args = "[OPTION]... [OPTION of sbatch]... VERB [ARG]...",
    .summary = "run a verb of muster as a Slurm job",
    .details =
        "VERB and what follows it is what would be typed without Slurm: map, resume, graph, launch and others. Every option before it "
        "that is not listed here is sbatch's, and is handed on to it. On several nodes the verb runs with --hosts slurm. "
        "Before the time limit, map, resume and graph finish what they have in hand, and the job is submitted again until the "
        "work is complete; for other verbs that needs --again. muster status, logs and stop know the run at once.",
    .opts = submit_opts,
    .examples = submit_examples,
    .reads_words = true,
    .request_size = sizeof(struct submit_options),
    .defaults = submit_defaults,
    .run = submit_run,
};
