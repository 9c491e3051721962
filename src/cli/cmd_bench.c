/* SPDX-License-Identifier: Apache-2.0
 *
 * muster bench: the same work on 1, 2, 4 … devices, at several batch sizes and by several methods. The measuring is
 * in src/bench.
 */
#include "base/cleanup.h"
#include "base/named_files.h"
#include "base/xalloc.h"
#include "bench/bench.h"
#include "cli/verbs.h"
#include "core/contest.h"
#include "node/allocation_arg.h"
#include "opt/say.h"

struct bench_options {
    struct bench_request request;
    bool is_quiet, is_json, is_markdown, overwrite;
};

static int counts_store(struct str text, void *field, struct err *err)
{
    return bench_counts_parse(text, field, err);
}

static bool counts_text(const void *field, struct buf *out)
{
    const struct bench_counts *counts = field;
    bench_counts_format(counts, out);
    return counts->len > 0;
}

static int plot_check(const struct bench_options *options, struct err *err)
{
    const struct bench_request *r = &options->request;
    size_t n = 0;
    cleanup_free struct named_file *files = xcalloc(r->inputs.len + 2, sizeof(*files));
    files[n++] = (struct named_file){r->plot_path, "--plot", true};
    files[n++] = (struct named_file){r->stdin_path, "--stdin", false};
    for (size_t i = 0; i < r->inputs.len; i++)
        files[n++] = (struct named_file){r->inputs.at[i], "--input", false};
    return named_files_free(files, n, options->overwrite, err);
}

static int cmd_bench_run(struct app *app, void *request, int argc, char **argv, char **command,
                         struct err *err)
{
    struct bench_options *options = request;
    struct bench_request *r = &options->request;
    const struct bench_caller caller = {&app->log, app->self_path, options->is_quiet};
    cleanup_buf struct buf out = BUF_INIT;
    struct err not_printed = {0};
    app->log.console_quiet = app->log.console_quiet || options->is_quiet;
    r->command = (const char *const *)command;
    r->format = options->is_json ? BENCH_JSON : options->is_markdown ? BENCH_MARKDOWN : BENCH_TABLE;
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected '%s'; the command stands behind --", argv[0]);
    if (options->is_json && options->is_markdown)
        return fail(err, ERR_USAGE, "give one of --json and --markdown");
    int rc = bench_check(r, err);
    rc = rc ? rc : plot_check(options, err);
    if (rc)
        return rc;
    rc = bench_run(&caller, r, &out, err);
    int put = out.len > 0 ? (options->is_json ? objects_put : stdout_put)(
                                buf_str(&out), rc < 0 ? &not_printed : err)
                          : 0;
    return put != 0 && rc >= 0 ? put : rc;
}

#define FIELD(name) offsetof(struct bench_options, request.name)

/* clang-format off */
static const struct opt bench_opts[] = {
    {OPT_HEADING, .help = "What is compared"},
    {OPT_TEXT, 'g', "gpus", "SPEC", "the devices: ids as 0,2,5-7; any:4; all; free:20GiB; a UUID; cpu:N (default: as many free ones as --devices needs, or CPU slots where there is no GPU)", FIELD(allocation.gpus), .check = spec_check},
    {OPT_PARSE, 0, "devices", "N,…", "numbers of devices to compare; a run on N devices has the first N of -g (default 1,2,4 … and all)", FIELD(devices), .parse = counts_store, .format = counts_text, .has_no_variable = true},
    {OPT_PARSE, 'b', "batch", "N,…", "batch sizes to compare; the command finds the size in {batch} and MUSTER_BATCH (default: none)", FIELD(batches), .parse = counts_store, .format = counts_text},
    {OPT_TEXTS, 0, "method", "NAME[@N,…]=COMMAND", "a method to compare: a name and a line for sh; @N,…: run it only on these numbers of devices (may be repeated)", FIELD(methods), .has_no_variable = true},
    {OPT_TEXTS, 'i', "input", "FILE", "the command after -- is a worker, to which muster map gives the records of FILE (may be repeated)", FIELD(inputs)},
    {OPT_U64, 'n', "limit", "N", "use only the first N records (default: all)", FIELD(limit), 1, 0},
    {OPT_HEADING, .help = "What a run does (where muster map does not tell)"},
    {OPT_U64, 0, "items", "N", "each run works through N items", FIELD(n_items), 1, 0},
    {OPT_TEXT, 0, "items-pattern", "REGEX", "the command prints how many items it did: an extended regular expression with the number in brackets, or one number; the last match counts", FIELD(items_pattern)},
    {OPT_TEXT, 0, "ready-pattern", "REGEX", "the command prints this when it is loaded; the last line that matches counts", FIELD(ready_pattern)},
    {OPT_TEXT, 0, "rate-pattern", "REGEX", "the command prints its items per second when it is loaded, such as '([0-9.]+) samples/s'; the last match counts", FIELD(rate_pattern)},
    {OPT_HEADING, .help = "Runs"},
    {OPT_U64, 0, "rounds", "N", "at most N rounds; each round runs every row once; the benchmark ends earlier when the differences are clear (default 10)", FIELD(n_rounds), 1, CONTEST_ROUNDS_MAX},
    {OPT_FLAG, 0, "full", NULL, "run all rounds, even if the differences are clear earlier", FIELD(runs_all)},
    {OPT_DURATION, 0, "max-time", "DURATION", "longest time for the whole benchmark: no run begins that would end later, and a run that is still going on then is ended (default: no limit)", FIELD(time_limit_ms)},
    {OPT_DURATION, 0, "trial-limit", "DURATION", "end a run after this time; it counts if it has printed a rate by then (default 1h)", FIELD(trial_limit_ms)},
    {OPT_DURATION, 0, "grace", "DURATION", "time between SIGTERM and SIGKILL when a run is ended (default 10s)", FIELD(grace_ms)},
    {OPT_DURATION, 0, "wait", "DURATION", "longest time to wait for devices to become free (default: no wait)", FIELD(allocation.wait_ms)},
    {OPT_PATH, 0, "stdin", "FILE", "standard input of each run (default: none)", FIELD(stdin_path)},
    ENVIRONMENT_OPTS(FIELD(environment)),
    {OPT_HEADING, .help = "Results"},
    {OPT_FLAG, 0, "markdown", NULL, "print the table in Markdown", offsetof(struct bench_options, is_markdown)},
    {OPT_FLAG, 0, "json", NULL, "print one JSON object per line instead of a table", offsetof(struct bench_options, is_json)},
    {OPT_PATH, 0, "plot", "FILE", "write a picture of the rates as SVG", FIELD(plot_path)},
    {OPT_FLAG, 'f', "force", NULL, "replace a picture that exists", offsetof(struct bench_options, overwrite)},
    {OPT_FLAG, 0, "dry-run", NULL, "show what would run, and run nothing", FIELD(is_plan)},
    {OPT_FLAG, 'q', "quiet", NULL, "nothing on stderr but errors", offsetof(struct bench_options, is_quiet)},
    {OPT_END},
};
/* clang-format on */

static void bench_defaults(void *request)
{
    struct bench_options *options = request;
    options->request.n_rounds = 10;
    options->request.trial_limit_ms = 3600000;
    options->request.grace_ms = 10000;
}

static const char *const bench_examples[] = {
    "muster bench -i val.jsonl -n 200 --devices 1,2,4 --batch 8,16 -- python worker.py",
    "a worker of muster map on 1, 2 and 4 devices, with two batch sizes",
    "muster bench --items 100 --devices 4 --method 'model parallel=python run.py --map balanced' --method 'data parallel=accelerate launch --num_processes {devices} run.py'",
    "two methods side by side",
    "muster bench --batch 1,4,16 --devices 1 --rate-pattern '([0-9.]+) samples/s' -- python eval.py {batch}",
    "batch sizes, by the rate that the program prints",
    NULL,
};

const struct cmd cmd_bench = {
    .name = "bench",
    .args = "[OPTION]... -- COMMAND [ARG]... | --method NAME=COMMAND...",
    .summary = "which is faster here: devices, batch sizes and methods, measured in turn",
    .details =
        "The same work is run with each number of devices, each batch size and each method, in turn, several times. The "
        "table has items per second and speed-ups, with and without loading, how well the devices are used, and peak "
        "memory. It ends when the differences are clear. Running out of memory is an answer, not an error.",
    .opts = bench_opts,
    .examples = bench_examples,
    .command = COMMAND_BEHIND,
    .request_size = sizeof(struct bench_options),
    .defaults = bench_defaults,
    .run = cmd_bench_run,
};
