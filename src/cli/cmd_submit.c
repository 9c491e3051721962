/* SPDX-License-Identifier: Apache-2.0
 *
 * muster submit: a verb as a Slurm job. The verb's words are read and judged here, where somebody sees what is wrong with
 * them; its run has a folder from now on; and the job's script is all that goes on.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/external_verbs.h"
#include "cli/run_arg.h"
#include "cli/submit_follow.h"
#include "cli/verbs.h"
#include "slurm/sbatch_options.h"
#include "slurm/sbatch_request.h"
#include "store/runs.h"
#include "submit/batch.h"
#include "submit/script.h"

enum {
    AGAIN_DEFAULT = 100,
    OWN_MAX = 32
};

struct submit_options {
    bool dry_run, follow;
    const char *setup;
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
    bool has_ledger;
    bool is_new;         /* its folder is made for it */
    char *run_dir, *cwd; /* absolute */
    struct env_list words;
};

static void submitted_release(struct submitted *s)
{
    if (s->cmd && s->request)
        cmd_release(s->cmd, s->request);
    free(s->request);
    free(s->check.run_dir);
    env_list_release(&s->check.words);
    free(s->run_dir);
    free(s->cwd);
    env_list_release(&s->words);
}

/* ---- the verb ---- */

static const struct cmd *verb_find(const struct app *app, const char *name)
{
    for (const struct cmd *const *cmd = app->program->verbs; *cmd; cmd++)
        if (strcmp((*cmd)->name, name) == 0 && !(*cmd)->is_hidden)
            return *cmd;
    return NULL;
}

/* A program of its own has verbs, too. */
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

/* What makes no sense in a job. */
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

/* The verb's own parser moves words: it gets a copy. */
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
    if (rc == 0 && s->cmd->check)
        rc = s->cmd->check(app, s->request, n_operands, operands, command, &s->check, err);
    return rc ? wrap(err, rc, "%s", s->cmd->name) : 0;
}

static int verb_take(struct submitted *s, struct app *app, int argc, char **argv, struct err *err)
{
    s->cmd = verb_find(app, argv[0]);
    if (!s->cmd)
        return external_verb_check(app, argv, err);
    cleanup_free char **copy = xcalloc((size_t)argc + 1, sizeof(*copy));
    for (int i = 0; i < argc; i++)
        copy[i] = argv[i];
    int rc = verb_check(s, app, argc, copy, err);
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

static int folder_make(struct submitted *s, const char *verb, int64_t wall_ms, struct err *err)
{
    if (!s->is_new)
        return mkdir_parents(s->run_dir, 0775, err);
    cleanup_free char *root = path_dirname(s->run_dir);
    free(steal_ptr(&s->run_dir));
    return run_create(root, verb, wall_ms, &s->run_dir, err);
}

/* ---- the script ---- */

/* What submit adds stands right behind the verb: behind it may be words of a program. */
static void words_make(struct submitted *s, int argc, char **argv)
{
    env_list_release(&s->words);
    env_list_add(&s->words, xstrdup(argv[0]));
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

static int script_make(struct submitted *s, const struct app *app, int argc, char **argv,
                       struct buf *script, struct err *err)
{
    const struct submit_options *o = s->options;
    words_make(s, argc, argv);
    const struct script_request request = {
        .program = app->self_path,
        .run_dir = s->run_dir,
        .cwd = s->cwd,
        .options = s->sbatch,
        .setup = o->setup,
        .words = (const char *const *)s->words.at,
        .has_ledger = s->has_ledger,
        .drain_s = o->drain_ms > 0 ? o->drain_ms / 1000 : script_drain_s(s->asks.time_s),
        .again_max = o->again != UINT64_MAX ? o->again
                     : s->has_ledger        ? AGAIN_DEFAULT
                                            : 0};
    return script_format(&request, script, err);
}

/* Slurm makes the files of output, but no folder for them. */
static int script_write(const char *run_dir, const struct buf *script, struct err *err)
{
    cleanup_free char *path = batch_script_path(run_dir), *logs = path_join(run_dir, "logs");
    int rc = mkdir_parents(logs, 0775, err);
    return rc ? rc : file_replace(path, buf_str(script), err);
}

static int verb_submit(struct submitted *s, const struct app *app, int argc, char **argv,
                       int64_t wall_ms, struct err *err)
{
    cleanup_buf struct buf script = BUF_INIT;
    uint64_t job = 0;
    int rc = folder_make(s, argv[0], wall_ms, err);
    if (rc)
        return rc;
    rc = script_make(s, app, argc, argv, &script, err);
    if (rc == 0)
        rc = script_write(s->run_dir, &script, err);
    if (rc == 0)
        rc = batch_submit(s->run_dir, argv[0], 0, &job, err);
    if (rc && s->is_new && remove_tree(s->run_dir, NULL) != 0)
        return rc;
    if (rc)
        return rc;
    if (s->is_new && run_mark_latest(s->run_dir, NULL) != 0)
        say(app, "muster-runs/latest does not point at this run");
    cleanup_free char *root = runs_root(NULL), *typed = run_typed_new(s->run_dir, root);
    say(app, "submitted as job %llu; see: muster status %s", (unsigned long long)job, typed);
    return s->options->follow ? submit_follow(app, s->run_dir, err) : 0;
}

/* ---- options ---- */

static int own_parse(const struct env_list *own, struct submit_options *options, struct err *err)
{
    cleanup_free char **argv = xcalloc(own->len + 2, sizeof(*argv));
    for (size_t i = 0; i < own->len; i++)
        argv[i + 1] = own->at[i];
    return cmd_overlay(&cmd_submit, (int)own->len + 1, argv, options, err);
}

static size_t own_list(struct sbatch_own *out)
{
    size_t n = 0;
    for (const struct opt *opt = cmd_submit.opts; opt->kind != OPT_END; opt++)
        if (opt->name && n < OWN_MAX)
            out[n++] = (struct sbatch_own){opt->name, opt->letter, opt->arg != NULL};
    return n;
}

/* Where the job will be, so that names of files mean now what they mean then. */
static int folder_enter(struct submitted *s, struct err *err)
{
    const char *there = sbatch_value(s->sbatch, "chdir");
    if (there && chdir(there) != 0)
        return fail_errno_as(err, ERR_USAGE, "--chdir %s", there);
    s->cwd = path_cwd();
    return s->cwd ? 0 : fail_errno(err, "the working folder");
}

static int submit_words(struct app *app, struct submit_options *options,
                        const struct sbatch_words *words, int argc, char **argv, struct err *err)
{
    struct submitted s = {.options = options,
                          .sbatch = &words->options,
                          .check = {.has_setup = options->setup != NULL}};
    int64_t wall_ms = clock_wall_ms();
    cleanup_buf struct buf script = BUF_INIT;
    if (argc == 0)
        return fail(err, ERR_USAGE, "no verb: say what is to be run, as muster submit map …");
    if (wants_help(app, argc, argv))
        return verb_help(app, argv, err);
    sbatch_request_read(&words->options, &s.asks);
    int rc = folder_enter(&s, err);
    if (rc == 0)
        rc = verb_take(&s, app, argc, argv, err);
    if (rc == 0)
        folder_choose(&s, argv[0], wall_ms);
    if (rc == 0)
        rc = script_make(&s, app, argc, argv, &script, err);
    if (rc == 0)
        rc = options->dry_run ? stdout_put(buf_str(&script), err)
                              : verb_submit(&s, app, argc, argv, wall_ms, err);
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
    int rc = sbatch_words_read(own, own_list(own), argc, argv, &words, err);
    if (rc)
        return rc;
    rc = own_parse(&words.own, options, err);
    if (rc == 0)
        rc = submit_words(app, options, &words, argc - words.n_read, argv + words.n_read, err);
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
    {OPT_FLAG, 0, "follow", NULL, "wait until the work is complete, and show what the job shows; ctrl-c leaves the job alone", FIELD(follow)},
    {OPT_TEXT, 0, "setup", "LINE", "a line of the script before the verb, such as 'source env.sh'", FIELD(setup)},
    {OPT_DURATION, 0, "drain", "DURATION", "begin nothing new for so long before the time limit, so that what is in hand is finished (default 2m, or a quarter of --time if that is less)", FIELD(drain_ms), 1000, 0},
    {OPT_U64, 0, "again", "N", "if the time was over before the work was complete, submit the job again, N times at most; 0: never (default 100 for map and resume, which lose nothing; 0 for other verbs)", FIELD(again), 0, 100000},
    {OPT_END},
};
/* clang-format on */

static const char *const submit_examples[] = {
    "muster submit --gpus-per-node=8 --time=8:00:00 map questions.jsonl -o answers.jsonl -- python3 worker.py",
    "as many jobs of eight hours as it takes, one after another",
    "muster submit -N4 --gpus-per-node=8 --setup 'source ~/venv/bin/activate' launch train.py",
    "ranks on four nodes, as by muster launch --hosts slurm there",
    "muster submit --dry-run -p gpu -t 60 resume latest",
    "the script of a job that goes on with the latest run",
    NULL,
};

const struct cmd cmd_submit = {
    .name = "submit",
    .args = "[OPTION]... [OPTION of sbatch]... VERB [ARG]...",
    .summary = "run a verb of muster as a Slurm job",
    .details =
        "VERB and what follows it is what would be typed without Slurm: map, resume, launch and others. Every option before it "
        "that is not listed here is sbatch's, and is handed on to it. On several nodes the verb runs with --hosts slurm. "
        "Before the time limit the work is drained, and the job is submitted again until it is complete. "
        "muster status, logs and stop know the run from now on.",
    .opts = submit_opts,
    .examples = submit_examples,
    .reads_words = true,
    .request_size = sizeof(struct submit_options),
    .defaults = submit_defaults,
    .run = submit_run,
};
