/* SPDX-License-Identifier: Apache-2.0
 *
 * muster graph runs jobs that need each other, from a file or from a command line.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/named_files.h"
#include "base/ours.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/graph_arg.h"
#include "cli/graph_hosts.h"
#include "cli/run_arg.h"
#include "cli/verbs.h"
#include "fit/fit.h"
#include "graph/file/file.h"
#include "graph/graph.h"
#include "graph/list/joblog.h"
#include "graph/list/list.h"
#include "node/allocation_arg.h"
#include "opt/say.h"
#include "store/runs.h"
#include "submit/look.h"

struct graph_options {
    struct graph_request request;
    struct job_options job; /* of each job of a command line */
    const char *plot, *joblog;
    const char *separator;
    bool dry_run, prints_plan, is_shell, has_header, is_quiet;
    int input_fd;    /* 0, or a copy of the standard input */
    bool is_for_job; /* the run begins later, in a Slurm job, which has no standard input */
};

/* ---- where the jobs come from ---- */

struct source {
    struct plan plan;
    struct graph_list list;
    bool has_list;
};

static void source_release(struct source *source)
{
    plan_release(&source->plan);
    if (source->has_list)
        graph_list_release(&source->list);
}

/*
 * Refuses options with which a job would end at once and leave its work undone. A job must do its work, and end when
 * the work has ended.
 */
static int work_check(const struct cmd *verb, const char *name, struct err *err)
{
    static const char *const refused[] = {"detach", "dry-run", "inspect"};
    for (size_t i = 0; i < countof(refused); i++)
        if (cmd_option_is(verb, name, refused[i]))
            return fail(err, ERR_USAGE,
                        "option '--%s' cannot be given to a job: its command would end without the "
                        "work being done; remove it",
                        refused[i]);
    return 0;
}

/* Checks an option in a file. Only some verbs may have options there. */
static int option_check(const char *verb, const char *name, struct err *err)
{
    static const struct cmd *const verbs[] = {&cmd_map, &cmd_launch, &cmd_merge};
    for (size_t i = 0; i < countof(verbs); i++)
        if (strcmp(verbs[i]->name, verb) == 0) {
            int rc = cmd_option_check(verbs[i], name, err);
            return rc ? rc : work_check(verbs[i], name, err);
        }
    return 0;
}

static int file_read_plan(struct graph_options *options, int argc, char **argv,
                          struct source *source, struct err *err)
{
    const struct graph_file_opts opts = {(const char *const *)argv + 1, (size_t)argc - 1,
                                         option_check};
    for (int i = 1; i < argc; i++)
        if (!strchr(argv[i], '='))
            return fail(err, ERR_USAGE,
                        "unexpected '%s': expected one file, and changes to it such as "
                        "vars.round=1..3",
                        argv[i]);
    return graph_file_read(options->request.file, &opts, &source->plan, err);
}

static int list_read_plan(const struct graph_options *options, char **command,
                          struct source *source, struct err *err)
{
    size_t n_words = 0;
    while (command && command[n_words])
        n_words++;
    struct graph_list_wish wish = {.words = (const char *const *)command,
                                   .n_words = n_words,
                                   .input_fd = options->input_fd,
                                   .takes_input = true,
                                   .is_shell = options->is_shell,
                                   .has_header = options->has_header,
                                   .separator = options->separator,
                                   .n_cpus = (uint32_t)options->job.n_cpus,
                                   .priority = options->job.priority,
                                   .n_retries = (uint32_t)options->job.n_retries,
                                   .timeout_ms = options->job.timeout_ms};
    if (options->is_for_job && graph_list_reads_input(&wish))
        return fail(err, ERR_USAGE,
                    "a job has no standard input: name the file of the arguments, as in -- COMMAND "
                    ":::: FILE; of whole commands, as in -- :::: FILE");
    int rc = job_devices_make(&options->job, &wish.devices, err);
    rc = rc ? rc : graph_list_open(&source->list, &wish, err);
    source->has_list = rc == 0;
    rc = rc ? rc : graph_list_plan(&source->list, &wish, &source->plan, err);
    rc = rc ? rc : plan_index(&source->plan, err);
    if (rc == 0 && options->request.results)
        rc = results_check(&source->list, err);
    return rc;
}

/* Two command lines are the same work if they have the same jobs: a text made from all jobs. */
static char *identity_new(const struct plan *plan)
{
    struct buf text = BUF_INIT;
    buf_addf(&text, "{\"jobs\":%u,\"commands\":\"%016lx\"}", plan->n_jobs, plan_digest(plan));
    return buf_steal(&text);
}

/* ---- --print ---- */

static void job_print(const struct plan *plan, const struct plan_job *job, struct buf *out)
{
    buf_add_text(out, "{\"job\":");
    buf_add_json(out, str_of(job->name));
    buf_add_text(out, ",\"argv\":[");
    for (size_t i = 0; job->argv[i]; i++) {
        buf_add_text(out, i > 0 ? "," : "");
        buf_add_json(out, str_of(job->argv[i]));
    }
    buf_add_text(out, "],\"needs\":[");
    for (uint32_t i = 0; i < job->n_needs; i++) {
        buf_add_text(out, i > 0 ? "," : "");
        buf_add_json(out, str_of(plan->jobs[job->needs[i]].name));
    }
    buf_add_text(out, "],\"out\":[");
    for (uint32_t i = 0; i < job->n_outs; i++) {
        buf_add_text(out, i > 0 ? "," : "");
        buf_add_json(out, str_of(job->outs[i].path));
    }
    buf_addf(out, "],\"gpus\":[%u,%u],\"priority\":%d,\"retries\":%u}\n", job->devices.n_min,
             job->devices.n_max, job->priority, job->n_retries);
}

static int plan_print(const struct graph_options *options, const struct plan *plan, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    for (uint32_t i = 0; i < plan->n_jobs; i++)
        if (options->request.only.len == 0 ||
            graph_selected(&options->request.only, plan, &plan->jobs[i]))
            job_print(plan, &plan->jobs[i], &out);
    return objects_put(buf_str(&out), err);
}

/* ---- the verb ---- */

/* struct graph_request.batch_of */
static int batch_recall(const char *const *command, const struct environment_wish *environment,
                        const struct device *device, size_t n_devices, uint64_t *out,
                        struct err *err)
{
    return fit_batch_on(device, n_devices, command, environment, out, err);
}

static int run_plan(struct app *app, struct graph_options *options, struct source *source,
                    struct err *err)
{
    struct graph_request *request = &options->request;
    struct joblog joblog = JOBLOG_INIT;
    int rc = 0;
    if (options->joblog) {
        rc = joblog_open(&joblog, options->joblog, !request->fresh, err);
        request->joblog = &joblog;
    }
    request->list = source->has_list ? &source->list : NULL;
    request->batch_of = batch_recall;
    request->is_quiet = options->is_quiet || app->quiet;
    request->has_color = app->color;
    if (rc == 0)
        rc = graph_run(&app->log, app->self_path, request, &source->plan, err);
    joblog_close(&joblog);
    request->joblog = NULL;
    request->list = NULL;
    return rc;
}

/* No output may replace the graph's file. The picture replaces an existing file only with --overwrite. */
static int outputs_check(const struct graph_options *options, const char *file, struct err *err)
{
    const struct named_file files[] = {{options->plot, "--plot", true},
                                       {options->joblog, "--joblog", true},
                                       {file, "the graph", false}};
    if (options->plot && !options->dry_run)
        return fail(err, ERR_USAGE, "--plot draws the schedule of --dry-run; a run draws nothing");
    int rc = named_files_check(files, countof(files), err);
    if (rc == 0 && options->plot)
        rc = output_check_free(options->plot, true, err);
    bool is_there = options->plot && !output_is_direct(options->plot) && path_exists(options->plot);
    return rc == 0 && is_there && !options->request.overwrites
               ? fail(err, ERR_USAGE, "%s exists; --overwrite replaces it", options->plot)
               : rc;
}

/* Options for the jobs of a command line, and the keys that a file has for the same; NULL: a file has no such key. */
static const struct list_option {
    const char *name, *instead;
} list_options[] = {{"gpus-per-job", "defaults.gpus=N"},
                    {"memory", "defaults.gpus='{memory: SIZE}'"},
                    {"share", "defaults.gpus='{share: 0.5}'"},
                    {"cpus", "defaults.cpus=N"},
                    {"retries", "defaults.retries=N"},
                    {"timeout", "defaults.timeout=DURATION"},
                    {"priority", "defaults.priority=N"},
                    {"shell", "defaults.shell=true"},
                    {"header", NULL},
                    {"colsep", NULL},
                    {"results", NULL}};

static const struct opt *option_named(const char *name)
{
    const struct opt *opt = cmd_graph.opts;
    while (opt->kind == OPT_HEADING || !opt->name || strcmp(opt->name, name) != 0) {
        ASSERT(opt->kind != OPT_END); /* list_options misspells it */
        opt++;
    }
    return opt;
}

/* Was the option typed? A default from a variable is meant for all graphs, so it is no mistake here. */
static bool is_typed(const struct env_list *words, const char *name)
{
    char variable[OPT_VARIABLE_MAX];
    size_t len = strlen(name);
    opt_variable(&cmd_graph, option_named(name), variable);
    for (size_t i = 0; i < words->len; i++) {
        const char *word = words->at[i];
        if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, len) == 0 &&
            (word[2 + len] == '=' || word[2 + len] == '\0'))
            return !getenv(variable);
    }
    return false;
}

static int list_options_check(const struct graph_options *options, struct err *err)
{
    struct env_list words = {0};
    int rc = 0;
    cmd_words(&cmd_graph, options, &words);
    for (size_t i = 0; i < countof(list_options) && rc == 0; i++) {
        const struct list_option *of = &list_options[i];
        if (is_typed(&words, of->name))
            rc = fail(err, ERR_USAGE, "--%s is for jobs of a command line%s%s", of->name,
                      of->instead ? "; for those of a file: " : ", and a file has none",
                      of->instead ? of->instead : "");
    }
    env_list_release(&words);
    return rc;
}

static int source_read(struct graph_options *options, int argc, char **argv, char **command,
                       struct source *source, struct err *err)
{
    if (argc > 0 && command)
        return fail(
            err, ERR_USAGE,
            "'%s' is taken for a file of jobs, and a command stands behind --: leave one out",
            argv[0]);
    if (argc == 0 && options->request.file)
        return fail(err, ERR_USAGE, "no file");
    if (outputs_check(options, argc > 0 ? argv[0] : NULL, err) != 0)
        return ERR_USAGE;
    options->request.prints = argc == 0;
    if (argc > 0 && !options->request.resume.dir && list_options_check(options, err) != 0)
        return ERR_USAGE;
    if (argc > 0)
        options->request.results = NULL; /* it came from a variable */
    return argc > 0 ? file_read_plan(options, argc, argv, source, err)
                    : list_read_plan(options, command, source, err);
}

/* --dry-run */
static int plan_play(struct app *app, const struct graph_options *options, struct plan *plan,
                     struct err *err)
{
    struct allocation_wish wish = options->request.allocation;
    struct planned_hosts hosts = {0};
    wish.without_devices = wish.gpus && strcmp(wish.gpus, WISH_NO_DEVICES) == 0;
    int rc = wish.hosts ? graph_hosts_ask(app, &wish, &hosts, err) : 0;
    rc = rc ? rc
            : graph_dry_run(&app->log, app->self_path, &options->request, plan,
                            wish.hosts ? &hosts : NULL, options->plot, err);
    graph_hosts_forget(&hosts);
    return rc;
}

static int graph_verb(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    struct graph_options *options = request;
    struct source source = {0};
    struct env_list words = {0};
    cleanup_free char *file = argc > 0 ? path_absolute(argv[0]) : NULL;
    options->request.file = file;
    cmd_line(&cmd_graph, app, options, argc, argv, command, &words);
    options->request.words = (const char *const *)words.at;
    if (options->request.since_wall_ms > 0)
        options->request.fresh = false;
    int rc = source_read(options, argc, argv, command, &source, err);
    cleanup_free char *identity = rc == 0 && !file ? identity_new(&source.plan) : NULL;
    options->request.identity = identity;
    if (rc == 0 && options->prints_plan)
        rc = plan_print(options, &source.plan, err);
    else if (rc == 0 && options->dry_run)
        rc = plan_play(app, options, &source.plan, err);
    else if (rc == 0)
        rc = run_plan(app, options, &source, err);
    source_release(&source);
    env_list_release(&words);
    return rc;
}

/* ---- muster resume ---- */

/*
 * Opens the run's copy of the standard input, never the standard input of this process, because users do not expect
 * that to be read.
 */
static int input_open(const char *dir, int *fd, struct err *err)
{
    cleanup_free char *path = path_join(dir, GRAPH_INPUT);
    if (path_exists(path))
        return plain_file_open(path, fd, err);
    *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *fd < 0 ? fail_errno(err, "open /dev/null") : 0;
}

int graph_resume(struct app *app, const char *dir, const struct manifest *manifest, struct err *err)
{
    struct graph_options options = {0};
    struct replay replay = {0};
    cleanup_fd int input_fd = -1;
    cleanup_free char *root = runs_root(NULL); /* before the working folder becomes the run's */
    int rc = input_open(dir, &input_fd, err);
    rc = rc ? rc : replay_parse(&replay, &cmd_graph, manifest, &options, err);
    options.request.detach = false; /* it was meant for another terminal */
    rc = rc ? rc : replay_overlay(&replay, &cmd_graph, app, &options, err);
    if (rc == 0 && chdir(manifest->cwd) != 0)
        rc = fail_errno_as(err, ERR_USAGE, "the run's folder of work, %s", manifest->cwd);
    options.input_fd = input_fd;
    options.request.resume.dir = dir;
    options.request.resume.root = root;
    options.request.fresh = false;
    options.request.from.len = options.request.redo.len = 0; /* run.db has what is to run again */
    if (rc == 0)
        rc = graph_verb(app, &options, replay.n_operands, replay.operands, replay.command, err);
    cmd_release(&cmd_graph, &options);
    replay_release(&replay);
    return rc;
}

static int idle_check(const char *dir, struct err *err)
{
    cleanup_free char *root = runs_root(NULL), *typed = run_typed_new(dir, root);
    if (!submitted_goes_on(dir))
        return 0;
    return fail(err, ERR_UNAVAILABLE,
                "this graph goes on, or waits for Slurm, as run %s: muster status %s shows it, "
                "muster stop %s ends it",
                path_basename(dir), typed, typed);
}

static int graph_verb_check(struct app *app, void *request, int argc, char **argv, char **command,
                            struct cmd_check *check, struct err *err)
{
    struct graph_options *options = request;
    struct source source = {0};
    cleanup_free char *file = argc > 0 ? path_absolute(argv[0]) : NULL;
    cleanup_free char *identity = NULL;
    (void)app;
    if (options->prints_plan)
        return fail(err, ERR_USAGE, "--print shows the jobs here: muster graph --print");
    options->request.file = file;
    options->is_for_job = true;
    int rc = source_read(options, argc, argv, command, &source, err);
    if (rc == 0 && !file)
        identity = identity_new(&source.plan);
    options->request.identity = identity;
    rc = rc ? rc : graph_check(&options->request, &source.plan, &check->run_dir, err);
    rc = rc || !check->run_dir ? rc : idle_check(check->run_dir, err);
    source_release(&source);
    return rc;
}

#define REQUEST(name) offsetof(struct graph_options, request.name)
#define OPTION(name)  offsetof(struct graph_options, name)

/* clang-format off */
static const struct opt graph_opts[] = {
    {OPT_HEADING, .help = "Devices"},
    {OPT_TEXT, 'g', "gpus", "SPEC", "devices for all jobs together: ids as 0,2,5-7; any:4; all; free; free:20GiB; a UUID; cpu:N (default: free, or CPU slots where there is no GPU)", REQUEST(allocation.gpus), .check = spec_check},
    HOST_LIST_OPTS(REQUEST(allocation)),
    {OPT_U64, 0, "hosts-min", "N", "begin when at least N hosts can be reached (default 1)", REQUEST(allocation.hosts_min), 1, 4096},
    {OPT_U64, 'j', "jobs", "N", "run N jobs at a time at most (default: as many as the devices can take)", REQUEST(n_running_max), 1, UINT32_MAX},
    ENVIRONMENT_OPTS(REQUEST(environment)),
    {OPT_HEADING, .help = "Which jobs"},
    {OPT_TEXTS, 0, "only", "PATTERN", "run only these stages or jobs, and the jobs that they need; * stands for any characters, ? for one (may be repeated)", REQUEST(only)},
    {OPT_TEXTS, 0, "from", "PATTERN", "run these stages or jobs again even if they are done, and all jobs that need them (may be repeated)", REQUEST(from)},
    {OPT_TEXTS, 0, "redo", "PATTERN", "the same as --from", REQUEST(redo)},
    {OPT_FLAG, 0, "fresh", NULL, "begin a new run, even if there is an earlier run of this graph", REQUEST(fresh)},
    {OPT_FLAG, 0, "adopt", NULL, "count a job as done if its outputs exist already, although no run of this graph has made them", REQUEST(adopts)},
    {OPT_FLAG, 0, "overwrite", NULL, "let jobs write over outputs that no run of this graph has made, and --plot over its FILE", REQUEST(overwrites)},
    {OPT_FLAG, 0, "halt", NULL, "start no more jobs after a job has failed for good (default: the jobs that do not need it go on)", REQUEST(halts)},
    {OPT_HEADING, .help = "Jobs of a command line"},
    JOB_OPTS(OPTION(job)),
    {OPT_FLAG, 0, "shell", NULL, "run the command by sh, even if it has several words", OPTION(is_shell)},
    {OPT_FLAG, 0, "header", NULL, "the first argument of each source is the name of the source, for {name} in the command", OPTION(has_header)},
    {OPT_TEXT, 0, "colsep", "TEXT", "split each argument at TEXT into columns, which are {1}, {2} ... in the command", OPTION(separator)},
    {OPT_PATH, 0, "joblog", "FILE", "append a line for each start of a job, in the columns of GNU parallel", OPTION(joblog)},
    {OPT_PATH, 0, "results", "DIR", "keep the output of each job in folders named by its arguments, as GNU parallel does", REQUEST(results)},
    {OPT_HEADING, .help = "The run"},
    {OPT_FLAG, 0, "print", NULL, "print the jobs as JSON, one a line, and run none", OPTION(prints_plan)},
    {OPT_FLAG, 0, "dry-run", NULL, "run nothing; print the schedule by the times of earlier runs, the jobs that would lack a file that they read, and the jobs that cannot run", OPTION(dry_run)},
    {OPT_PATH, 0, "plot", "FILE", "with --dry-run, draw the schedule: as SVG if FILE ends with .svg, else as an HTML page", OPTION(plot)},
    {OPT_FLAG, 0, "explain", NULL, "print the reason for every job that runs again (default: for the first ones)", REQUEST(explain)},
    {OPT_FLAG, 0, "detach", NULL, "return when the run has begun", REQUEST(detach)},
    {OPT_PATH, 0, "run-dir", "DIR", "the run's folder (default: a new one in --runs-dir)", REQUEST(run_dir)},
    {OPT_PATH, 0, "runs-dir", "DIR", "where the runs are (default muster-runs)", REQUEST(runs_dir)},
    {OPT_DURATION, 0, "grace", "DURATION", "time between SIGTERM and SIGKILL when a job is ended (default 10s)", REQUEST(grace_ms)},
    {OPT_DURATION, 0, "time-limit", "DURATION", "stop the run after this time, with exit status 124; it can be resumed (default: no limit)", REQUEST(limit_ms)},
    {OPT_SIZE, 0, "log-cap", "SIZE", "size at which the log of a job is rotated; jobs of a command line have no such limit (default 64MiB)", REQUEST(log_cap_bytes)},
    {OPT_TEXT, 0, "on-finish", "COMMAND", "run COMMAND by sh at the end, with the summary as JSON on its stdin", REQUEST(on_finish)},
    {OPT_FLAG, 'q', "quiet", NULL, "nothing from muster itself on stderr but errors", OPTION(is_quiet)},
    {OPT_U64, 0, "since", "MS", .offset = REQUEST(since_wall_ms), .is_exact = true}, /* by muster job */
    {OPT_END},
};
/* clang-format on */

static void graph_defaults(void *request)
{
    struct graph_options *options = request;
    options->request.grace_ms = 10000;
    job_options_default(&options->job);
}

static const char *const graph_examples[] = {
    "muster graph experiments.yaml",
    "the jobs of a file (muster-graph(5)), each when what it needs is done; the same command goes on after any accident",
    "muster graph experiments.yaml --only 'train/*' vars.round=1..3",
    "some jobs and what they need, with another value of a variable",
    "muster graph -g 0-3 -- python train.py --lr {1} --seed {2} ::: 0.1 0.01 ::: 1 2 3",
    "six trainings on four GPUs, one a GPU",
    "muster graph < commands.txt",
    "one command a line, one a device",
    NULL,
};

const struct cmd cmd_graph = {
    .name = "graph",
    .args = "[OPTION]... FILE [NAME=VALUE]... | [OPTION]... [-- COMMAND [ARG]... [::: ARG...]...]",
    .summary = "jobs that depend on each other, packed onto the devices",
    .details =
        "Each job starts when the jobs that it needs are done and devices are free for it; it is done when its command has "
        "ended with status 0 and has left what the file says. A job that fails holds up only those that need it. Typed again, the same command runs the jobs that are not done and the jobs that have changed, and says why.",
    .opts = graph_opts,
    .examples = graph_examples,
    .needs_elsewhere = true, /* muster hosts --add */
    .command = COMMAND_BEHIND,
    .request_size = sizeof(struct graph_options),
    .defaults = graph_defaults,
    .run = graph_verb,
    .check = graph_verb_check,
};
