/* SPDX-License-Identifier: Apache-2.0
 *
 * muster logs shows what the workers of a run, and muster itself, have written.
 */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/run_arg.h"
#include "cli/tail.h"
#include "store/runs.h"
#include "store/submission.h"
#include "submit/look.h"

enum {
    LOOK_EVERY_MS = 200
};

struct logs_request {
    const char *runs_dir;
    bool follow, only_stdout, only_stderr, orchestrator;
};

struct tails {
    struct tail *at;
    size_t len;
};

static const struct str stdout_end = {"_stdout.log", sizeof("_stdout.log") - 1};
static const struct str stderr_end = {"_stderr.log", sizeof("_stderr.log") - 1};

/*
 * Finds the worker of a log file: "gpu_0_w1" for "gpu_0_w1_stderr.log". Returns false if that stream was not asked
 * for.
 */
static bool worker_of(const struct logs_request *ask, struct str name, struct str *worker)
{
    bool is_stdout = str_ends_with(name, stdout_end), is_stderr = str_ends_with(name, stderr_end);
    bool are_both = ask->only_stdout == ask->only_stderr;
    if (!(is_stdout && (are_both || ask->only_stdout)) &&
        !(is_stderr && (are_both || ask->only_stderr)))
        return false;
    *worker = (struct str){name.at, name.len - stdout_end.len};
    return true;
}

/*
 * Does the name of a file begin with this text? "gpu 0" is the beginning of gpu_0, and "make/n=1" of make+n=1,
 * because names of files have other characters there.
 */
static bool begins_as(struct str name, const char *text)
{
    size_t i = 0;
    for (; i < name.len && text[i]; i++)
        if (name.at[i] != (text[i] == ' ' ? '_' : text[i] == '/' ? '+' : text[i]))
            return false;
    return !text[i];
}

/* "gpu_0", "gpu 0" and "0" all mean gpu_0; the name of a stage of a graph, all its jobs. */
static bool is_meant(struct str worker, const char *text)
{
    size_t len = strlen(text);
    if (begins_as(worker, text) && (worker.len == len || worker.at[len] == '+'))
        return true;
    const char *low = memchr(worker.at, '_', worker.len);
    struct str number = low ? (struct str){low + 1, (size_t)(worker.at + worker.len - low) - 1}
                            : (struct str){worker.at, 0};
    return low && number.len == len && begins_as(number, text);
}

static bool is_wanted(struct str worker, int n_wanted, char *const *wanted)
{
    for (int i = 0; i < n_wanted; i++)
        if (is_meant(worker, wanted[i]))
            return true;
    return n_wanted == 0;
}

static bool is_followed(const struct tails *tails, const char *path)
{
    for (size_t i = 0; i < tails->len; i++)
        if (strcmp(tails->at[i].path, path) == 0)
            return true;
    return false;
}

static struct tail *tails_add(struct tails *tails, const char *path, const char *prefix)
{
    tails->at = xrealloc(tails->at, (tails->len + 1) * sizeof(*tails->at));
    struct tail *tail = &tails->at[tails->len++];
    bool is_shown = isatty(STDOUT_FILENO);
    tail_init(tail, path, prefix || !is_shown ? prefix : "");
    tail->is_shown = is_shown;
    return tail;
}

static void tails_release(struct tails *tails)
{
    for (size_t i = 0; i < tails->len; i++)
        tail_release(&tails->at[i]);
    free(tails->at);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_log(const struct dirent *entry)
{
    struct str name = str_of(entry->d_name);
    return str_ends_with(name, stdout_end) || str_ends_with(name, stderr_end);
}

/* The names of the log files, sorted; the caller frees *entries and each of them. Returns how many. */
static int logs_in(const char *dir, struct dirent ***entries)
{
    cleanup_free char *logs = path_join(dir, "logs");
    int n_entries = scandir(logs, entries, is_log, by_name);
    return MAX(n_entries, 0);
}

static void entries_release(struct dirent **entries, int n_entries)
{
    for (int i = 0; i < n_entries; i++)
        free(entries[i]);
    if (n_entries)
        free(entries);
}

/* Do the words in the brackets of a line name this worker, alone or with others? "cpu 0", "cpu 0,1", "3 workers" */
static bool is_named(struct str label, struct str worker)
{
    static const struct str many = {" workers", sizeof(" workers") - 1};
    const char *comma = memchr(label.at, ',', label.len);
    if (comma)
        label.len = (size_t)(comma - label.at);
    bool is_same = label.len == worker.len;
    for (size_t i = 0; is_same && i < label.len; i++)
        is_same = label.at[i] == worker.at[i] || (label.at[i] == '_' && worker.at[i] == ' ');
    return is_same || (label.at[0] >= '1' && label.at[0] <= '9' && str_ends_with(label, many));
}

/* True for a line of a worker that is followed here: muster has printed this line in its own log as well. */
static bool is_of_another(const void *context, struct str line)
{
    const struct tails *tails = context;
    const char *end = line.len > 1 && *line.at == '[' ? memchr(line.at, ']', line.len) : NULL;
    bool is_it = false;
    for (size_t i = 0; end && !is_it && i < tails->len; i++) {
        const char *prefix = tails->at[i].prefix; /* "[cpu 0] " */
        is_it = prefix && !tails->at[i].is_hidden &&
                is_named((struct str){line.at + 1, (size_t)(end - line.at) - 1},
                         (struct str){prefix + 1, strlen(prefix) - strlen("[] ")});
    }
    return is_it;
}

/*
 * "job_12_stderr.log", "job_12.0_stdout.log": True for the log of a Slurm job of muster submit, to which the run's
 * folder belongs. A job of a graph may have such a name too.
 */
static bool is_of_a_slurm_job(const char *dir, const char *name)
{
    static const char begin[] = "job_";
    struct submission submission = {0};
    uint64_t job = 0;
    bool is_it = false;
    if (strncmp(name, begin, strlen(begin)) != 0)
        return false;
    struct str number = {name + strlen(begin), strspn(name + strlen(begin), "0123456789")};
    if (u64_parse(number, 0, UINT64_MAX, &job, NULL) != 0 ||
        submission_read(dir, &submission, NULL) != 0)
        return false;
    for (size_t i = 0; i < submission.n_jobs; i++)
        is_it = is_it || submission.jobs[i].id == job;
    submission_release(&submission);
    return is_it;
}

static void log_add_tail(struct tails *tails, const char *dir, const char *name, struct str worker,
                         struct buf *out)
{
    cleanup_free char *path = xasprintf("%s/logs/%s", dir, name);
    if (is_followed(tails, path))
        return;
    cleanup_free char *typed = xstrndup(worker.at, worker.len);
    cleanup_free char *shown = console_visible_new(typed);
    cleanup_free char *prefix = xasprintf("[%s] ", shown);
    for (char *at = prefix; (at = strchr(at, '_'));)
        *at = ' ';
    struct tail *tail = tails_add(tails, path, prefix);
    if (is_of_a_slurm_job(dir, name)) {
        tail->is_hidden = is_of_another;
        tail->context = tails;
    }
    tail_add_rotated(tail, out);
}

/* Adds the wanted logs that are not followed yet: workers may start later. */
static void tails_find(const struct logs_request *ask, const char *dir, int n_wanted,
                       char *const *wanted, struct tails *tails, struct buf *out)
{
    struct dirent **entries = NULL;
    int n_entries = logs_in(dir, &entries);
    for (int i = 0; i < n_entries; i++) {
        struct str worker;
        if (worker_of(ask, str_of(entries[i]->d_name), &worker) &&
            is_wanted(worker, n_wanted, wanted))
            log_add_tail(tails, dir, entries[i]->d_name, worker, out);
    }
    entries_release(entries, n_entries);
}

static bool worker_exists(const char *dir, const char *wanted)
{
    const struct logs_request any = {0};
    struct dirent **entries = NULL;
    int n_entries = logs_in(dir, &entries);
    bool exists = false;
    for (int i = 0; i < n_entries && !exists; i++) {
        struct str worker;
        exists = worker_of(&any, str_of(entries[i]->d_name), &worker) && is_meant(worker, wanted);
    }
    entries_release(entries, n_entries);
    return exists;
}

/* Adds "; there are gpu_0, gpu_1". Each worker is named once, although it has two files. */
static void known_add(const char *dir, struct buf *out)
{
    const struct logs_request any = {0};
    struct dirent **entries = NULL;
    struct str before = {0}, worker;
    int n_entries = logs_in(dir, &entries);
    for (int i = 0; i < n_entries; i++) {
        if (!worker_of(&any, str_of(entries[i]->d_name), &worker) || str_equal(worker, before))
            continue;
        buf_addf(out, "%s%.*s", before.at ? ", " : "; there are ", (int)worker.len, worker.at);
        before = worker;
    }
    entries_release(entries, n_entries);
}

static int refuse_unknown(const char *dir, int n_wanted, char *const *wanted, struct err *err)
{
    for (int i = 0; i < n_wanted; i++) {
        if (worker_exists(dir, wanted[i]))
            continue;
        cleanup_buf struct buf known = BUF_INIT;
        known_add(dir, &known);
        return fail(err, ERR_USAGE, "run %s has no logs of a worker '%s'%s", path_basename(dir),
                    wanted[i], buf_text(&known));
    }
    return 0;
}

static int print_all(struct tail *tail, struct buf *out, struct err *err)
{
    bool has_more = true;
    int rc = 0;
    while (rc == 0 && has_more) {
        has_more = tail_read(tail, out);
        rc = stdout_put(buf_str(out), err);
        buf_reset(out);
    }
    return rc;
}

/* Prints each file to its present end; with --follow, repeatedly until the run has ended. */
static int print(const struct logs_request *ask, const char *dir, int n_wanted, char *const *wanted,
                 struct err *err)
{
    struct tails tails = {0};
    cleanup_buf struct buf out = BUF_INIT;
    cleanup_free char *own = path_join(dir, "orchestrator.log");
    if (ask->orchestrator)
        tails_add(&tails, own, NULL);
    int rc = 0;
    for (bool goes_on = true; rc == 0 && goes_on;) {
        /* This is checked before reading, so that all text up to the end of the run is read. */
        goes_on = ask->follow && submitted_goes_on(dir);
        if (!ask->orchestrator)
            tails_find(ask, dir, n_wanted, wanted, &tails, &out);
        for (size_t i = 0; rc == 0 && i < tails.len; i++) {
            rc = print_all(&tails.at[i], &out, err);
            if (rc == 0 && !goes_on)
                tail_finish(&tails.at[i], &out);
        }
        if (rc == 0)
            rc = stdout_put(buf_str(&out), err);
        buf_reset(&out);
        goes_on = goes_on && (rc != 0 || reader_pause_ms(LOOK_EVERY_MS));
    }
    tails_release(&tails);
    return rc;
}

/* The first operand is a run, unless there is no such run and the latest run has a worker of that name. */
static int operands_split(const struct logs_request *ask, int *argc, char ***argv, char **dir,
                          struct err *err)
{
    int rc = run_arg_find(ask->runs_dir, MIN(*argc, 1), *argv, dir, err);
    if (rc && *argc && run_arg_find(ask->runs_dir, 0, NULL, dir, NULL) == 0) {
        if (worker_exists(*dir, (*argv)[0]))
            return 0;
        free(steal_ptr(dir));
    }
    if (rc == 0 && *argc) {
        (*argc)--;
        (*argv)++;
    }
    return rc;
}

static int logs_run(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    (void)app, (void)command;
    const struct logs_request *ask = request;
    cleanup_free char *dir = NULL;
    int rc = operands_split(ask, &argc, &argv, &dir, err);
    if (rc == 0 && ask->orchestrator && argc)
        rc = fail(err, ERR_USAGE, "--orchestrator shows muster's own log: leave out '%s'", argv[0]);
    if (rc == 0 && !ask->follow)
        rc = refuse_unknown(dir, argc, argv, err);
    return rc ? rc : print(ask, dir, argc, argv, err);
}

static const struct opt logs_opts[] = {
    {.kind = OPT_FLAG,
     .letter = 'f',
     .name = "follow",
     .help = "keep printing new lines until the run ends",
     .offset = offsetof(struct logs_request, follow)},
    {.kind = OPT_FLAG,
     .name = "stdout",
     .help = "print only the workers' standard output",
     .offset = offsetof(struct logs_request, only_stdout)},
    {.kind = OPT_FLAG,
     .name = "stderr",
     .help = "print only the workers' standard error",
     .offset = offsetof(struct logs_request, only_stderr)},
    {.kind = OPT_FLAG,
     .name = "orchestrator",
     .help = "print muster's own log instead of the workers'",
     .offset = offsetof(struct logs_request, orchestrator)},
    RUNS_DIR_OPT(struct logs_request),
    {.kind = OPT_END},
};

static const char *const logs_examples[] = {
    "muster logs -f",
    "everything that the workers of the latest run write",
    "muster logs --stderr latest gpu_3",
    "what the worker on GPU 3 complained of",
    NULL,
};

const struct cmd cmd_logs = {
    .name = "logs",
    .args = "[OPTION]... [RUN] [WORKER]...",
    .summary = "print or follow the logs of a run",
    .details =
        "WORKER is the name of a worker as in its log files (gpu_0, cpu_3_w1), or the part of that name after gpu_ or cpu_; in a graph it is a job or a stage. job_12, or 12, is what job 12 of muster submit printed, without "
        "the lines of workers that are shown as well. Each line carries the name of its worker; of a progress bar only the last state is printed.",
    .opts = logs_opts,
    .examples = logs_examples,
    .request_size = sizeof(struct logs_request),
    .run = logs_run,
};
