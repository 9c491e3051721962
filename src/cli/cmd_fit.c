/* SPDX-License-Identifier: Apache-2.0
 *
 * muster fit: the batch size that fills a device. The search is in src/fit; --estimate in fit_estimate.c.
 */
#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/fit_estimate.h"
#include "cli/verbs.h"
#include "fit/fit.h"
#include "fit/memo.h"
#include "node/allocation_arg.h"
#include "opt/say.h"

struct fit_options {
    struct fit_request search;
    struct estimate_request estimate;
    bool is_quiet, wants_list, forgets;
};

/* ---- values of options ---- */

/* "512MiB" or "5%" */
static int margin_store(struct str text, void *field, struct err *err)
{
    struct fit_margin *margin = field;
    uint64_t percent = 0;
    bool is_percent = text.len > 1 && text.at[text.len - 1] == '%';
    *margin = (struct fit_margin){.is_given = true};
    if (!is_percent)
        return size_parse(text, &margin->bytes, err);
    int rc = u64_parse((struct str){text.at, text.len - 1}, 0, 99, &percent, err);
    margin->percent = (uint32_t)percent;
    return rc;
}

static bool margin_text(const void *field, struct buf *out)
{
    const struct fit_margin *margin = field;
    if (margin->percent > 0)
        buf_addf(out, "%u%%", margin->percent);
    else
        buf_addf(out, "%lu", margin->bytes);
    return margin->is_given;
}

static const struct choice purposes[] = {{"inference", false}, {"training", true}, {0}};
static const struct choice optimizers[] = {{"adam", OPTIMIZER_ADAM},
                                           {"adam8bit", OPTIMIZER_ADAM8BIT},
                                           {"sgd", OPTIMIZER_SGD},
                                           {"none", OPTIMIZER_NONE},
                                           {0}};
static const struct choice recomputes[] = {
    {"none", RECOMPUTE_NONE}, {"selective", RECOMPUTE_SELECTIVE}, {"full", RECOMPUTE_FULL}, {0}};

/* ---- what it does ---- */

static void row_add(const struct fit_memo *memo, struct buf *out)
{
    char memory[16];
    cleanup_buf struct buf line = BUF_INIT;
    size_format(memory, memo->of.device_bytes);
    buf_addf(&line, "%8lu  %s  %s, %s  %s", memo->batch, memo->when, memo->of.device, memory,
             memo->of.command);
    console_visible_add(out, buf_str(&line));
    buf_add_char(out, '\n');
}

static int list_print(const struct fit_options *options, struct err *err)
{
    struct fit_memos memos;
    cleanup_buf struct buf out = BUF_INIT;
    fit_memos_read(&memos);
    for (size_t i = memos.len; i-- > 0;) {
        const struct fit_memo *memo = &memos.at[i];
        if (options->search.is_json)
            memo_report_add(memo, true, &out);
        else
            row_add(memo, &out);
    }
    fit_memos_release(&memos);
    return (options->search.is_json ? objects_put : stdout_put)(buf_str(&out), err);
}

static int forget(const struct app *app, const struct fit_options *options, struct err *err)
{
    const struct fit_request *search = &options->search;
    struct fit_signature signature = {0};
    size_t n = 0;
    bool has_command = search->command && search->command[0];
    if (has_command)
        fit_signature_make(&signature, search->command, &search->environment, "", 0);
    int rc = fit_forget(has_command ? &signature : NULL, &n, err);
    fit_signature_release(&signature);
    if (rc == 0 && !options->is_quiet)
        say(app, "forgot %zu result%s", n, plural(n));
    return rc;
}

static int search(struct app *app, struct fit_options *options, struct err *err)
{
    const struct fit_caller caller = {&app->log, app->self_path, options->is_quiet};
    cleanup_buf struct buf out = BUF_INIT;
    struct err not_printed = {0};
    app->log.console_quiet = app->log.console_quiet || options->is_quiet;
    int rc = fit_check(&options->search, err);
    if (rc)
        return rc;
    rc = fit_search(&caller, &options->search, &out, err);
    int put = out.len > 0 ? (options->search.is_json ? objects_put : stdout_put)(
                                buf_str(&out), rc < 0 ? &not_printed : err)
                          : 0;
    return put != 0 && rc >= 0 ? put : rc;
}

static int usage_check(const struct fit_options *options, int argc, char **argv, struct err *err)
{
    bool has_command = options->search.command && options->search.command[0];
    int n_others = (options->estimate.model != NULL) + options->wants_list + options->forgets;
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected '%s'; the command stands behind --", argv[0]);
    if (n_others > 1)
        return fail(err, ERR_USAGE, "give one of --estimate, --list and --forget");
    if (has_command && n_others > 0 && !options->forgets)
        return fail(err, ERR_USAGE, "%s runs no command; leave it out",
                    options->wants_list ? "--list" : "--estimate");
    return 0;
}

static int fit_run(struct app *app, void *request, int argc, char **argv, char **command,
                   struct err *err)
{
    struct fit_options *options = request;
    options->search.command = (const char *const *)command;
    options->estimate.is_json = options->search.is_json;
    options->estimate.gpus = options->search.allocation.gpus;
    options->estimate.margin = options->search.margin;
    int rc = usage_check(options, argc, argv, err);
    if (rc)
        return rc;
    if (options->estimate.model)
        return fit_estimate(app, &options->estimate, err);
    if (options->wants_list)
        return list_print(options, err);
    return options->forgets ? forget(app, options, err) : search(app, options, err);
}

#define FIELD(name)    offsetof(struct fit_options, search.name)
#define ESTIMATE(name) offsetof(struct fit_options, estimate.name)

/* clang-format off */
static const struct opt fit_opts[] = {
    {OPT_HEADING, .help = "The search"},
    {OPT_TEXT, 'g', "gpus", "SPEC", "the device: an id, a UUID, any:1, free:20GiB, cpu:N for a share of the machine; of several the first (default: a free one, or all of the machine's memory where there is no GPU)", FIELD(allocation.gpus), .check = spec_check},
    {OPT_DURATION, 0, "wait", "DURATION", "longest time to wait for the device to become free (default: no wait)", FIELD(allocation.wait_ms)},
    {OPT_U64, 0, "start", "N", "first batch size (default 1)", FIELD(start), 1, 0, .is_exact = true}, /* MUSTER_START is a shard's */
    {OPT_U64, 0, "max", "N", "largest batch size (default 65536)", FIELD(max), 1, 0},
    {OPT_U64, 0, "multiple-of", "N", "try multiples of N only, such as 8 (default 1)", FIELD(multiple), 1, 0},
    {OPT_PARSE, 0, "margin", "SIZE|P%", "memory of the device to leave free (default 5% or 512MiB, whichever is more)", FIELD(margin), .parse = margin_store, .format = margin_text},
    {OPT_U64, 0, "repeat", "N", "run a size N times if the noise of its rate could decide which size is best; the fastest run counts (default 2)", FIELD(n_repeats), 1, 100},
    {OPT_HEADING, .help = "What a run of the command does (give one, or the rate is not known and memory alone decides)"},
    {OPT_U64, 0, "items", "N", "each run works through N items, whatever the batch size", FIELD(n_items), 1, 0},
    {OPT_U64, 0, "steps", "N", "each run works through N batches", FIELD(n_steps), 1, 0},
    {OPT_TEXT, 0, "rate-pattern", "REGEX", "the command prints its items per second: an extended regular expression with the number in brackets, or one number, such as '([0-9.]+) samples/s'; the last match counts", FIELD(rate_pattern)},
    {OPT_HEADING, .help = "Runs of the command"},
    {OPT_PATH, 0, "stdin", "FILE", "standard input of each run, such as some records for a filter (default: none)", FIELD(stdin_path)},
    ENVIRONMENT_OPTS(FIELD(environment)),
    {OPT_DURATION, 0, "trial-limit", "DURATION", "end a run after this time; it counts as good if it has printed a rate by then (default 10m)", FIELD(trial_limit_ms)},
    {OPT_DURATION, 0, "time-limit", "DURATION", "end the whole search after this time, with exit status 124 (default: no limit)", FIELD(limit_ms)},
    {OPT_DURATION, 0, "grace", "DURATION", "time between SIGTERM and SIGKILL when a run is ended (default 10s)", FIELD(grace_ms)},
    {OPT_HEADING, .help = "Results"},
    {OPT_FLAG, 0, "fresh", NULL, "measure again what is remembered", FIELD(is_fresh)},
    {OPT_FLAG, 0, "list", NULL, "print what is remembered, the newest first", offsetof(struct fit_options, wants_list)},
    {OPT_FLAG, 0, "forget", NULL, "forget what is remembered of COMMAND, or everything", offsetof(struct fit_options, forgets)},
    {OPT_FLAG, 0, "json", NULL, "print one JSON object per line instead of a table", FIELD(is_json)},
    {OPT_FLAG, 0, "dry-run", NULL, "show the device and the first command, and run nothing", FIELD(is_plan)},
    {OPT_FLAG, 'q', "quiet", NULL, "nothing on stderr but errors", offsetof(struct fit_options, is_quiet)},
    {OPT_HEADING, .help = "Estimate from the headers of a model"},
    {OPT_PATH, 0, "estimate", "MODEL", "run nothing; compute the memory that a model needs from the headers of a .safetensors, .bin, .pt or .gguf file, or of a model's folder with config.json", ESTIMATE(model)},
    {OPT_EITHER, 0, "for", "inference|training", "inference: weights and KV cache; training: weights, gradients, optimizer and activations (default inference)", ESTIMATE(of.is_training), .choices = purposes, .needs = "estimate"},
    {OPT_U64, 0, "context", "N", "tokens of a sequence (default: those of config.json, at most 4096)", ESTIMATE(of.context), 1, 1000000000, .needs = "estimate"},
    {OPT_U64, 0, "batch", "N", "sequences at a time (default 1)", ESTIMATE(of.batch), 1, 1000000000, .needs = "estimate"},
    {OPT_CHOICE, 0, "optimizer", "NAME", "adam, adam8bit, sgd (with momentum) or none (default adam)", ESTIMATE(of.optimizer), .choices = optimizers, .needs = "estimate"},
    {OPT_CHOICE, 0, "recompute", "HOW", "activations that the backward pass computes again: none, selective (also for FlashAttention) or full (default selective)", ESTIMATE(of.recompute), .choices = recomputes, .needs = "estimate"},
    {OPT_SIZE, 0, "device-memory", "SIZE", "say whether the model fits on a device with this memory; -g says it for devices of this machine", ESTIMATE(device_bytes), .needs = "estimate"},
    {OPT_END},
};
/* clang-format on */

static void fit_defaults(void *request)
{
    struct fit_options *options = request;
    options->search.start = 1;
    options->search.multiple = 1;
    options->search.n_repeats = 2;
    options->search.trial_limit_ms = 600000;
    options->search.grace_ms = 10000;
    options->estimate.of.recompute = RECOMPUTE_SELECTIVE;
}

static const char *const fit_examples[] = {
    "muster fit --steps 20 -- python train.py --max-steps 20 --batch-size {batch}",
    "the fastest batch size that fits on a free GPU",
    "muster fit -g 0 --multiple-of 8 --rate-pattern '([0-9.]+) samples/s' -- python bench.py {batch}",
    "multiples of 8, with the rate that the program prints",
    "muster fit --estimate models/Llama-3.1-8B --context 8192 --batch 16 -g all",
    "do weights and KV cache fit on the GPUs of this machine?",
    NULL,
};

const struct cmd cmd_fit = {
    .name = "fit",
    .args = "[OPTION]... -- COMMAND [ARG]... | --estimate MODEL",
    .summary = "find the batch size that fills a device without overflowing it",
    .details =
        "COMMAND is run with growing batch sizes on one device, with {batch} in its words replaced and MUSTER_BATCH "
        "set. Running out of memory is an answer, not an error. The best size is the smallest one that is as fast as the "
        "fastest, and whose peak memory leaves a margin; it is remembered for the command and the kind of device.",
    .opts = fit_opts,
    .examples = fit_examples,
    .command = COMMAND_BEHIND,
    .request_size = sizeof(struct fit_options),
    .defaults = fit_defaults,
    .run = fit_run,
};
