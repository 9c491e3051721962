/* SPDX-License-Identifier: Apache-2.0
 *
 * muster add, why, retry, hold, release and cancel: orders to a graph that runs. All but add also work on a graph
 * that has ended.
 */
#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "cli/graph_arg.h"
#include "cli/run_arg.h"
#include "cli/verbs.h"
#include "graph/graph.h"
#include "store/lock.h"
#include "store/runs.h"

/* ---- about jobs that there are ---- */

struct order_request {
    const char *runs_dir, *run;
};

static int run_of(const char *runs_dir, const char *run, char **dir, struct err *err)
{
    char *operands[] = {(char *)(uintptr_t)run};
    return run_arg_find(runs_dir, run != NULL, operands, dir, err);
}

static int answer_print(const char *told, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    if (!told)
        return 0;
    console_lines_add(&out, str_of(told));
    buf_add_char(&out, '\n');
    return stdout_put(buf_str(&out), err);
}

/*
 * Gives an order to a run. If the run has ended, its records are changed instead. While a run is ending, it may
 * refuse the order or not answer.
 */
static int order_tell(const char *dir, const char *verb, struct str text, const struct texts *jobs,
                      char **told, struct err *err)
{
    cleanup_buf struct buf done = BUF_INIT;
    int rc = ERR_UNAVAILABLE;
    if (run_is_locked(dir, NULL))
        rc = run_order(dir, text, told, err);
    if (rc != ERR_UNAVAILABLE || strcmp(verb, "why") == 0 || run_is_locked(dir, NULL))
        return rc;
    *err = (struct err){0};
    rc = graph_order_ended(dir, verb, jobs, &done, err);
    if (rc == 0)
        *told = buf_steal(&done);
    return rc;
}

/* Checks names of jobs: in an order, a name must be one word of a line. */
static int jobs_check(int argc, char **argv, struct err *err)
{
    if (argc == 0)
        return fail(err, ERR_USAGE, "no job; muster status shows the stages");
    for (int i = 0; i < argc; i++)
        if (!argv[i][0] || strchr(argv[i], '\n'))
            return fail(err, ERR_USAGE, "'%s' names no job", argv[i]);
    return 0;
}

static int order_give(const char *verb, const struct order_request *ask, int argc, char **argv,
                      struct err *err)
{
    cleanup_free char *dir = NULL, *told = NULL;
    cleanup_buf struct buf text = BUF_INIT;
    int rc = jobs_check(argc, argv, err);
    rc = rc ? rc : run_of(ask->runs_dir, ask->run, &dir, err);
    for (int i = 0; rc == 0 && i < argc; i++)
        buf_addf(&text, "%s %s\n", verb, argv[i]);
    const struct texts jobs = {(const char **)(uintptr_t)argv, (size_t)argc};
    rc = rc ? rc : order_tell(dir, verb, buf_str(&text), &jobs, &told, err);
    return rc ? rc : answer_print(told, err);
}

static int retry_run(struct app *app, void *request, int argc, char **argv, char **command,
                     struct err *err)
{
    (void)app, (void)command;
    return order_give("retry", request, argc, argv, err);
}

static int hold_run(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    (void)app, (void)command;
    return order_give("hold", request, argc, argv, err);
}

static int release_run(struct app *app, void *request, int argc, char **argv, char **command,
                       struct err *err)
{
    (void)app, (void)command;
    return order_give("release", request, argc, argv, err);
}

static int cancel_run(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    (void)app, (void)command;
    return order_give("cancel", request, argc, argv, err);
}

/* A run that has ended has left a text about each job in its folder. */
static int why_run(struct app *app, void *request, int argc, char **argv, char **command,
                   struct err *err)
{
    const struct order_request *ask = request;
    cleanup_free char *dir = NULL;
    cleanup_buf struct buf out = BUF_INIT;
    (void)app, (void)command;
    int rc = run_of(ask->runs_dir, ask->run, &dir, err);
    if (rc)
        return rc;
    if (run_is_locked(dir, NULL))
        return order_give("why", ask, argc, argv, err);
    rc = jobs_check(argc, argv, err);
    const struct texts jobs = {(const char **)(uintptr_t)argv, (size_t)argc};
    rc = rc ? rc : graph_why(dir, &jobs, &out, err);
    return rc ? rc : answer_print(buf_text(&out), err);
}

static const struct opt order_opts[] = {
    {.kind = OPT_TEXT,
     .name = "run",
     .arg = "RUN",
     .help = "the run: its name, the beginning of one, or its folder (default: the latest)",
     .offset = offsetof(struct order_request, run)},
    RUNS_DIR_OPT(struct order_request),
    {.kind = OPT_END},
};

#define ORDER_CMD(verb, text, example, what)                                                    \
    static const char *const verb##_examples[] = {example, what, NULL};                         \
    const struct cmd cmd_graph_##verb = {                                                       \
        .name = #verb,                                                                          \
        .args = "[OPTION]... JOB...",                                                           \
        .summary = (text),                                                                      \
        .details = "JOB is the name of a job or of a stage; * and ? stand for any characters.", \
        .opts = order_opts,                                                                     \
        .examples = verb##_examples,                                                            \
        .request_size = sizeof(struct order_request),                                           \
        .run = verb##_run,                                                                      \
    }

ORDER_CMD(why, "what a job of a graph waits for, or how it ended",
          "muster why evaluate/phi,MATH,PITA,r1",
          "which job it waits for, and what became of that");
ORDER_CMD(retry, "try failed or cancelled jobs of a graph again", "muster retry 'train/*'",
          "all trainings that failed; what needs them waits again");
ORDER_CMD(hold, "keep jobs of a graph from starting", "muster hold evaluate",
          "no evaluation starts until muster release evaluate");
ORDER_CMD(release, "let jobs of a graph start that were held", "muster release evaluate",
          "evaluations start again");
ORDER_CMD(cancel, "give up jobs of a graph", "muster cancel 'train/phi,*'",
          "those that run are ended, and what needs them does not run");

/* ---- a further job ---- */

struct add_request {
    struct order_request order;
    struct job_options job;
    struct texts needs, outs, env;
    const char *name;
};

static void texts_add(struct buf *out, const char *key, const char *const *texts, size_t n)
{
    buf_addf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        buf_add_text(out, i > 0 ? "," : "");
        buf_add_json(out, str_of(texts[i]));
    }
    buf_add_char(out, ']');
}

/* Escapes braces, because words of an added job are templates. */
static char *escaped_new(const char *word)
{
    struct buf out = BUF_INIT;
    for (const char *at = word; *at; at++) {
        buf_add_char(&out, *at);
        if (*at == '{' || *at == '}')
            buf_add_char(&out, *at);
    }
    char *text = xstrdup(buf_text(&out));
    buf_release(&out);
    return text;
}

static int job_format(const struct add_request *ask, char **command, struct buf *out,
                      struct err *err)
{
    struct plan_devices devices;
    struct env_list words = {0}, entries = {0};
    cleanup_free char *cwd = path_cwd();
    int rc = job_devices_make(&ask->job, &devices, err);
    if (rc)
        return rc;
    for (size_t i = 0; command[i]; i++)
        env_list_add(&words, escaped_new(command[i]));
    buf_addf(out,
             "{\"gpus\":%u,\"share\":%u,\"mem_bytes\":%lu,\"cpus\":%lu,\"retries\":%lu,"
             "\"timeout_ms\":%lu,\"priority\":%d",
             devices.n_max, devices.share, devices.mem_bytes, ask->job.n_cpus, ask->job.n_retries,
             ask->job.timeout_ms, ask->job.priority);
    if (ask->name) {
        buf_add_text(out, ",\"name\":");
        buf_add_json(out, str_of(ask->name));
    }
    if (cwd) {
        buf_add_text(out, ",\"cwd\":");
        buf_add_json(out, str_of(cwd));
    }
    texts_add(out, "argv", (const char *const *)words.at, words.len);
    texts_add(out, "needs", ask->needs.at, ask->needs.len);
    texts_add(out, "outs", ask->outs.at, ask->outs.len);
    for (size_t i = 0; i < ask->env.len; i++)
        env_list_add(&entries, escaped_new(ask->env.at[i]));
    texts_add(out, "env", (const char *const *)entries.at, entries.len);
    buf_add_char(out, '}');
    env_list_release(&words);
    env_list_release(&entries);
    return 0;
}

static int add_run(struct app *app, void *request, int argc, char **argv, char **command,
                   struct err *err)
{
    const struct add_request *ask = request;
    cleanup_free char *dir = NULL, *told = NULL;
    cleanup_buf struct buf job = BUF_INIT, text = BUF_INIT;
    (void)app, (void)argc, (void)argv;
    int rc = run_of(ask->order.runs_dir, ask->order.run, &dir, err);
    rc = rc ? rc : job_format(ask, command, &job, err);
    if (rc)
        return rc;
    buf_addf(&text, "add %s\n", buf_text(&job));
    rc = run_order(dir, buf_str(&text), &told, err);
    return rc ? rc : answer_print(told, err);
}

static void add_defaults(void *request)
{
    job_options_default(&((struct add_request *)request)->job);
}

/* clang-format off */
static const struct opt add_opts[] = {
    {OPT_TEXT, 0, "name", "NAME", "name of the job (default added/N, where N counts the added jobs)", offsetof(struct add_request, name)},
    {OPT_TEXTS, 0, "needs", "JOB", "start the job only when JOB is done (may be repeated)", offsetof(struct add_request, needs)},
    {OPT_TEXTS, 0, "out", "PATH", "the job must leave this file, or this folder if PATH ends with / (may be repeated)", offsetof(struct add_request, outs)},
    {OPT_TEXTS, 0, "env", "NAME=VALUE", "set an environment variable of the job (may be repeated)", offsetof(struct add_request, env), .has_no_variable = true},
    JOB_OPTS(offsetof(struct add_request, job)),
    {OPT_TEXT, 0, "run", "RUN", "the run: its name, the beginning of one, or its folder (default: the latest)", offsetof(struct add_request, order.run)},
    {OPT_PATH, 0, "runs-dir", "DIR", "where the runs are (default muster-runs)", offsetof(struct add_request, order.runs_dir)},
    {OPT_END},
};
/* clang-format on */

static const char *const add_examples[] = {
    "muster add -- python plot.py",
    "one more job for the graph that runs",
    "muster add --needs train/phi,r1 --gpus-per-job 0 -- python report.py",
    "on a CPU, when a training is done",
    NULL,
};

const struct cmd cmd_graph_add = {
    .name = "add",
    .args = "[OPTION]... -- COMMAND [ARG]...",
    .summary = "one more job for a running graph",
    .details =
        "The job starts in the folder in which muster add was typed. It stays part of the run, also after a stop.",
    .opts = add_opts,
    .examples = add_examples,
    .command = COMMAND_ALONE,
    .request_size = sizeof(struct add_request),
    .defaults = add_defaults,
    .run = add_run,
};
