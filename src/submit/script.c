/* SPDX-License-Identifier: Apache-2.0 */
#include "submit/script.h"

#include <strings.h>

#include "base/cleanup.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "slurm/sbatch_options.h"

enum {
    DRAIN_S = 120,
    DRAIN_SHARE = 4
};

uint64_t script_drain_s(uint64_t time_s)
{
    return time_s > 0 ? MIN((uint64_t)DRAIN_S, time_s / DRAIN_SHARE) : DRAIN_S;
}

/* ---- #SBATCH lines ---- */

static const char *const not_in_a_script[][2] = {
    {"wrap", "the verb is what the job runs"},
    {"wait", "--follow waits for the job, and shows what it does"},
    {"help", "muster submit --help tells about these options, man sbatch about Slurm's"},
    {"usage", "muster submit --help tells about these options, man sbatch about Slurm's"},
    {"version", "sbatch --version tells it"},
    {"test-only", "--dry-run shows what would be submitted"},
};

/* Options that concern only what sbatch prints. */
static const char *const without_effect[] = {"parsable", "quiet", "verbose"};

/* Options for the job that the user submits, but not for jobs that are submitted again. */
static const char *const of_the_first[] = {"hold", "begin"};

static bool has(const struct env_list *options, const char *name)
{
    return sbatch_value(options, name) != NULL;
}

static bool is_option(const char *word, const char *name)
{
    size_t len = strlen(name);
    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, len) == 0 &&
           (word[2 + len] == '=' || word[2 + len] == '\0');
}

/*
 * Adds an #SBATCH line. sbatch has rules of its own for these: a backslash keeps the next character as it is, also in
 * quotes.
 */
static void line_add(struct buf *out, const char *word)
{
    bool is_plain = word[strcspn(word, " \t\"'\\#")] == '\0';
    buf_add_text(out, "#SBATCH ");
    buf_add_text(out, is_plain ? "" : "\"");
    for (const char *c = word; *c; c++) {
        if (*c == '"' || *c == '\\')
            buf_add_char(out, '\\');
        buf_add_char(out, *c);
    }
    buf_add_text(out, is_plain ? "\n" : "\"\n");
}

static void default_add(const struct script_request *request, const char *name, char *taken,
                        struct buf *out)
{
    if (!has(request->options, name))
        line_add(out, taken);
    free(taken);
}

/* The option for a log where muster logs finds it. A "%" in the path is doubled, since it begins a placeholder. */
static char *log_option_new(const char *option, const char *run_dir, bool is_array)
{
    struct buf path = BUF_INIT;
    buf_addf(&path, "--%s=", option);
    for (const char *c = run_dir; *c; c++)
        buf_add_text(&path, *c == '%' ? "%%" : (char[]){*c, '\0'});
    buf_addf(&path, "/logs/job_%s_%s.log", is_array ? "%A.%a" : "%j",
             strcmp(option, "error") == 0 ? "stderr" : "stdout");
    return buf_steal(&path);
}

static void defaults_add(const struct script_request *r, struct buf *out)
{
    default_add(r, "job-name", xasprintf("--job-name=muster-%s", r->name ? r->name : r->words[0]),
                out);
    if (r->tasks)
        default_add(r, "array", xasprintf("--array=%s", r->tasks), out);
    default_add(r, "chdir", xasprintf("--chdir=%s", r->cwd), out);
    if (!has(r->options, "output")) /* errors go to the user's --output as well */
        default_add(r, "error", log_option_new("error", r->run_dir, r->tasks), out);
    default_add(r, "output", log_option_new("output", r->run_dir, r->tasks), out);
    default_add(r, "open-mode", xstrdup("--open-mode=append"), out);
    default_add(
        r, "signal",
        xasprintf("--signal=B:%s@%llu", r->tasks ? "TERM" : "USR1", (unsigned long long)r->drain_s),
        out);
    if (!has(r->options, "no-requeue"))
        default_add(r, "requeue", xstrdup("--requeue"), out);
}

static bool is_of_the_first(const char *word)
{
    for (size_t i = 0; i < countof(of_the_first); i++)
        if (is_option(word, of_the_first[i]))
            return true;
    return false;
}

void script_first_add(const struct env_list *options, struct env_list *out)
{
    for (size_t i = 0; i < options->len; i++)
        if (is_of_the_first(options->at[i]))
            env_list_add(out, xstrdup(options->at[i]));
}

/* The signal's name in "B:USR1@60", "RB:10"; empty if only the steps of the job get the signal. */
static struct str signal_of_script(const char *value)
{
    size_t before = strcspn(value, ":"), len;
    if (value[before] == '\0' || !memchr(value, 'B', before))
        return (struct str){0};
    len = strcspn(value + before + 1, "@");
    return (struct str){value + before + 1, len};
}

static bool is_warning(struct str name)
{
    static const char *const known[] = {"USR1", "SIGUSR1", "10", "USR2", "SIGUSR2", "12"};
    cleanup_free char *text = xstrndup(name.at, name.len);
    for (size_t i = 0; i < countof(known); i++)
        if (strcasecmp(text, known[i]) == 0)
            return true;
    return false;
}

static int signal_refuse(const char *value, const char *why, struct err *err)
{
    return fail(err, ERR_USAGE, "--signal=%s: %s; say B:USR1 (or --drain, and leave it out)", value,
                why);
}

/*
 * The user's --signal may only be one that muster takes for a warning: any other one means that the job is ended, and
 * it would not be submitted again. A task of an array is the verb itself, which finishes its work at SIGTERM.
 */
static int signal_add(const struct script_request *r, const char *word, struct buf *out,
                      struct err *err)
{
    const char *value = word + strlen("--signal=");
    const struct str name = signal_of_script(value);
    if (name.len == 0)
        return signal_refuse(value, "without B: the script does not get the signal", err);
    if (!r->tasks && !is_warning(name))
        return signal_refuse(
            value, "the job would take that signal for its end, and not for a warning", err);
    if (!r->tasks) {
        line_add(out, word);
        return 0;
    }
    cleanup_free char *told =
        xasprintf("--signal=%.*s%s%s", (int)(name.at - value), value, "TERM", name.at + name.len);
    line_add(out, told);
    return 0;
}

static int option_add(const struct script_request *r, const char *word, struct buf *out,
                      struct err *err)
{
    for (size_t i = 0; i < countof(not_in_a_script); i++)
        if (is_option(word, not_in_a_script[i][0]))
            return fail(err, ERR_USAGE, "--%s has no place here: %s", not_in_a_script[i][0],
                        not_in_a_script[i][1]);
    for (size_t i = 0; i < countof(without_effect); i++)
        if (is_option(word, without_effect[i]))
            return 0;
    if (is_of_the_first(word))
        return 0;
    if (strchr(word, '\n'))
        return fail(err, ERR_USAGE, "an option of sbatch cannot have two lines: %s", word);
    if (is_option(word, "signal") && strchr(word, '='))
        return signal_add(r, word, out, err);
    line_add(out, word);
    return 0;
}

/* ---- commands ---- */

static void word_add(struct buf *out, const char *word)
{
    buf_add_char(out, ' ');
    buf_add_shell_word(out, word);
}

/* Braces separate "|| exit" from the user's words, which may end with a comment, a separator or a newline. */
static void setup_add(struct buf *out, const char *setup)
{
    if (!setup || !setup[strspn(setup, " \t\n")])
        return;
    if (setup[strcspn(setup, "#;&|\n")])
        buf_addf(out, "{ %s\n} || exit\n", setup);
    else
        buf_addf(out, "%s || exit\n", setup);
}

/*
 * A task of an array is a run of its own. Its script becomes the verb, which at SIGTERM finishes the items that it
 * has begun.
 */
static void task_command_add(const struct script_request *r, struct buf *out)
{
    buf_add_text(out, "exec");
    word_add(out, r->program);
    word_add(out, r->words[0]);
    buf_add_text(out, " --run-dir=");
    buf_add_shell_word(out, r->run_dir);
    buf_addf(out, "/tasks/$SLURM_ARRAY_TASK_ID --part=$SLURM_ARRAY_TASK_ID/%llu",
             (unsigned long long)r->n_tasks);
    for (const char *const *word = r->words + 1; *word; word++)
        word_add(out, *word);
    buf_add_char(out, '\n');
}

static void command_add(const struct script_request *r, struct buf *out)
{
    if (r->tasks) {
        task_command_add(r, out);
        return;
    }
    buf_add_text(out, "exec");
    word_add(out, r->program);
    buf_addf(out, " job --again=%llu", (unsigned long long)r->again_max);
    buf_add_text(out, r->has_ledger && !r->stage_dir ? " --ledger" : "");
    if (r->stage_dir)
        buf_addf(out, " --stage=%s", r->name);
    if (r->has_ledger && r->stage_dir) {
        buf_add_text(out, " --ledger-in=");
        buf_add_shell_word(out, r->stage_dir);
    }
    buf_add_text(out, r->gains_unseen ? " --gains-unseen" : "");
    buf_add_text(out, r->is_program ? " --program" : "");
    if (r->n_tasks > 0)
        buf_addf(out, " --tasks=%llu", (unsigned long long)r->n_tasks);
    word_add(out, r->run_dir);
    for (const char *const *word = r->words; *word; word++)
        word_add(out, *word);
    buf_add_char(out, '\n');
}

int script_format(const struct script_request *request, struct buf *out, struct err *err)
{
    int rc = 0;
    if (strchr(request->run_dir, '\n') || strchr(request->cwd, '\n'))
        return fail(err, ERR_USAGE, "the name of a folder cannot have two lines: %s, %s",
                    request->run_dir, request->cwd);
    buf_add_text(out, "#!/bin/bash\n");
    defaults_add(request, out);
    for (size_t i = 0; i < request->options->len && rc == 0; i++)
        rc = option_add(request, request->options->at[i], out, err);
    setup_add(out, request->setup);
    command_add(request, out);
    return rc;
}
