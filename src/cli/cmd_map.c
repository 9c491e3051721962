/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster map` and `muster resume`: their options. Both end in map_run().
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/named_files.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/run_arg.h"
#include "cli/score_arg.h"
#include "cli/verbs.h"
#include "fit/fit.h"
#include "map/output_identity.h"
#include "map/run_opts.h"
#include "shard/shard.h"
#include "store/manifest.h"
#include "store/runs.h"
#include "submit/look.h"

#include <unistd.h>

struct map_options {
    struct map_request request;
    bool quiet;
    uint64_t since_wall_ms; /* when --fresh began the run; 0: the run begins now */
};

#define FIELD(name) offsetof(struct map_options, request.name)

static const struct choice orders[] = {{"input", false}, {"any", true}, {0}};

enum {
    BATCH_MAX = 100000
};
/* --batch auto, until the devices are known. */
#define BATCH_AUTO UINT64_MAX

static int batch_store(struct str text, void *field, struct err *err)
{
    uint64_t *batch = field;
    *batch = BATCH_AUTO;
    return str_equal(text, STR("auto")) ? 0 : u64_parse(text, 1, BATCH_MAX, batch, err);
}

static bool batch_text(const void *field, struct buf *out)
{
    uint64_t batch = *(const uint64_t *)field;
    if (batch == BATCH_AUTO)
        buf_add_text(out, "auto");
    else
        buf_addf(out, "%lu", batch);
    return batch > 0;
}

/* "3/16" */
static int part_store(struct str text, void *field, struct err *err)
{
    struct shard_request *shards = field;
    struct str part;
    if (!str_next(&text, '/', &part) || u64_parse(text, 1, 1000000, &shards->n_parts, NULL) != 0 ||
        u64_parse(part, 0, shards->n_parts - 1, &shards->part, NULL) != 0)
        return fail(err, ERR_USAGE,
                    "expected K/N with K from 0 to N - 1, such as 0/16 for the first of 16 "
                    "parts and 15/16 for the last");
    return 0;
}

static bool part_text(const void *field, struct buf *out)
{
    const struct shard_request *shards = field;
    if (shards->n_parts > 0)
        buf_addf(out, "%lu/%lu", shards->part, shards->n_parts);
    return shards->n_parts > 0;
}

/* One option in each line, however long. */
/* clang-format off */

/* Options that `resume` accepts too. */
#define COMMON_OPTS                                                                                                    \
    MAP_RUN_OPTS(offsetof(struct map_options, request)),                                                               \
    {OPT_U64, 0, "since", "MS", .offset = offsetof(struct map_options, since_wall_ms), .is_exact = true}, /* by muster job */ \
    {OPT_FLAG, 'q', "quiet", NULL, "nothing on stderr but errors", offsetof(struct map_options, quiet)}

/* How the shards' files are joined. If they could not be joined, a resume may change these. */
#define JOIN_OPTS                                                                                                      \
    {OPT_TEXT, 0, "id", "FIELD", "check that every record of the shards' files has this field, and that no two have the same value in it; for .pt files give a path, such as questions.*.question_id", FIELD(merge.id_field)}, \
    {OPT_FLAG, 0, "union", NULL, "accept files with different columns; a column that a shard's file lacks is empty in its rows", FIELD(merge.is_union)}, \
    {OPT_FLAG, 0, "any-count", NULL, "do not compare the number of records in a shard's main file (for -o) with the number of its items", FIELD(shards.any_count)}, \
    {OPT_TEXTS, 0, "rule", "PATH=VERB", "how to merge the values at this path in files of tensors, or of one JSON object each, as for muster merge; each rule must match something in an output (may be repeated)", FIELD(merge.rules)}, \
    {OPT_TEXT, 0, "rules", "FILE", "read rules from a file, one per line", FIELD(merge.rules_path)},                                \
    {OPT_FLAG, 0, "renumber", NULL, "if ids of --id are not unique in .pt files, renumber all of them in the order of the output", FIELD(merge.is_renumbered)}, \
    {OPT_TEXTS, 0, "renumber-path", "PATH=REF,...", "if files share ids at PATH, give all of these ids new numbers, and change the references at each REF to match (.pt files; may be repeated)", FIELD(merge.referred)}, \
    {OPT_FLAG, 0, "plain", NULL, "turn NumPy's scalars and arrays in .pt files into plain numbers, texts and tensors, so that torch.load loads the output by default", FIELD(merge.is_plain)}, \
    {OPT_FLAG, 0, "compact", NULL, "leave out bytes of storages in .pt files that no tensor uses", FIELD(merge.is_compact)},    \
    {OPT_FLAG, 0, "pass-through", NULL, "copy objects of unknown classes from .pt files unchanged and unchecked", FIELD(merge.pass_through)}

/* Which files the shards leave. With other names, a resume takes the files that exist. */
#define COLLECT_OPTS                                                                                                   \
    {OPT_TEXT, 0, "collect", "GLOB", "the file that each shard leaves, as a glob pattern with placeholders", FIELD(shards.collect)}, \
    {OPT_TEXTS, 0, "also", "GLOB=FILE", "another file that each shard leaves, with any number of records; the files are merged into FILE, or put unchanged into FOLDER/ (may be repeated)", FIELD(shards.also)}, \
    {OPT_TEXTS, 0, "also-counted", "GLOB=FILE", "as --also, but each file must hold one record for each item of its shard (may be repeated)", FIELD(shards.also_counted)}

static const struct opt map_opts[] = {
    {OPT_HEADING, .help = "Input and output"},
    {OPT_TEXT, 'o', "output", "FILE", "where the merged results go; - is standard output", FIELD(out_path)},
    {OPT_FLAG, 'f', "force", NULL, "replace an output that exists", FIELD(overwrite)},
    {OPT_CHOICE, 0, "format", "FORMAT", "format of the input: lines, jsonl, json, csv, tsv (default: by extension)", FIELD(format), .choices = record_formats},
    {OPT_CHOICE, 0, "format-out", "FORMAT", "format of the output: lines, jsonl, json, csv, tsv (default: by extension)", FIELD(format_out), .choices = out_formats},
    {OPT_FLAG, 0, "raw", NULL, "hand records to a filter as they stand, without conversion or checks", FIELD(is_raw)},
    {OPT_U64, 'n', "limit", "N", "process only the first N items (default: all)", FIELD(limit), 1, 0},
    {OPT_FLAG, 'j', "join", NULL, "add the fields of the input's record to each result", FIELD(join)},
    {OPT_TEXT, 'k', "key", "FIELD", "match results to items by this field, which each result must hold; results may then come in any order", FIELD(key_field)},
    {OPT_EITHER, 0, "order", "input|any", "order of the output: that of the input, or as results arrive (default input)", FIELD(any_order), .choices = orders},
    {OPT_HEADING, .help = "Shard commands"},
    {OPT_U64, 0, "items", "N", "number of items, if the program opens its own data and takes a range by {start} and {count}", FIELD(shards.n_items), 1, 0},
    {OPT_U64, 0, "shards", "N", "cut the items into N shards (default: as many as workers)", FIELD(shards.n_shards), 1, 1000000},
    {OPT_PARSE, 0, "part", "K/N", "run only part K (from 0) of N equal parts of the shards, and make no output; another run takes the results by --take", FIELD(shards), .parse = part_store, .format = part_text},
    {OPT_PATH, 0, "take", "DIR", "begin with the results of the runs in the folders of DIR that did parts of this work (--part); what they lack is run here", FIELD(shards.take)},
    COLLECT_OPTS,
    JOIN_OPTS,
    {OPT_HEADING, .help = "Batches and order of work"},
    {OPT_PARSE, 'b', "batch", "N|auto", "send filters whole batches of N items; other workers find N in MUSTER_BATCH; auto: the size that muster fit has found for the same command (default: no batches, MUSTER_BATCH is 0)", FIELD(schedule.batch), .parse = batch_store, .format = batch_text},
    {OPT_FLAG, 0, "fixed-batches", NULL, "make batch k of items kN to kN+N-1 in every run, whatever the devices", FIELD(schedule.fixed_batches)},
    {OPT_FLAG, 0, "longest-first", NULL, "start the largest records first", FIELD(schedule.longest_first)},
    {OPT_TEXT, 0, "weight", "FIELD", "start the records with the largest number in FIELD first", FIELD(schedule.weight_field)},
    {OPT_U64, 's', "seed", "N", "base seed; an item's seed depends only on it and on the item (default 42)", FIELD(schedule.seed)},
    SCORE_OPTS(0, 0, 0, FIELD(score)),
    COMMON_OPTS,
    {OPT_PATH, 0, "run-dir", "DIR", "the run's folder (default muster-runs/<time>-map)", FIELD(run.run_dir)},
    {OPT_PATH, 0, "runs-dir", "DIR", "where run folders are made (default muster-runs)", FIELD(run.runs_dir)},
    {OPT_FLAG, 0, "fresh", NULL, "start over, even if there is an unfinished run of the same command", FIELD(run.fresh)},
    {OPT_FLAG, 0, "dry-run", NULL, "show which worker would run on which device, and run nothing", FIELD(run.dry_run)},
    {OPT_FLAG, 0, "go-on-failed", NULL, NULL, FIELD(goes_on_failed)}, /* muster graph sets MUSTER_GO_ON_FAILED */
    {OPT_END},
};

static const struct opt resume_opts[] = {
    COMMON_OPTS,
    {OPT_HEADING, .help = "Shard commands"},
    COLLECT_OPTS,
    JOIN_OPTS,
    SCORE_OPTS(0, 0, 0, FIELD(score)),
    {OPT_HEADING, .help = "What is resumed"},
    {OPT_FLAG, 0, "retry-failed", NULL, "try the items that were set aside again", FIELD(retry_failed)},
    {OPT_FLAG, 'f', "force", NULL, "replace an output that exists", FIELD(overwrite)},
    {OPT_FLAG, 0, "dry-run", NULL, "show what is left and which worker would run where, and run nothing", FIELD(run.dry_run)},
    {OPT_PATH, 0, "runs-dir", "DIR", "where run folders are (default muster-runs)", FIELD(run.runs_dir)},
    {OPT_END},
};
/* clang-format on */

static void map_defaults(void *request)
{
    map_request_defaults(&((struct map_options *)request)->request);
}

static int request_run(struct app *app, struct map_options *options, struct err *err)
{
    const char *go_on = getenv("MUSTER_GO_ON");
    int rc = work_choose(&options->request, err);
    options->request.allocation.is_plan = options->request.run.dry_run;
    options->request.run.go_on = go_on && *go_on ? go_on : NULL;
    const struct map_caller caller = {.log = &app->log,
                                      .self_path = app->self_path,
                                      .is_quiet = options->quiet,
                                      .has_color = app->color,
                                      .front_fd = -1};
    return rc ? rc : map_run(&caller, &options->request, err);
}

/* Puts the number in the place of --batch auto, so that it is in the manifest as well. */
static int batch_settle(const struct app *app, struct map_request *r, struct err *err)
{
    const struct fit_wanted wanted = {.self_path = app->self_path,
                                      .gpus = r->allocation.gpus,
                                      .command = r->command,
                                      .environment = &r->environment};
    uint64_t batch = 0;
    if (r->schedule.batch != BATCH_AUTO)
        return 0;
    if (r->allocation.hosts || r->allocation.workers_per_gpu > 1 ||
        r->allocation.gpus_per_worker > 1 || !r->command || !r->command[0])
        return fail(err, ERR_USAGE,
                    "--batch auto is known for a command on one device of this machine; with "
                    "--hosts, --workers-per-gpu and --gpus-per-worker, give a number");
    int rc = fit_batch_recall(&wanted, &batch, err);
    r->schedule.batch = MIN(batch, (uint64_t)BATCH_MAX);
    return rc ? wrap(err, rc, "--batch auto") : 0;
}

static int map_verb(struct app *app, void *request, int argc, char **argv, char **command,
                    struct err *err)
{
    struct map_options *options = request;
    struct env_list words = {0};
    options->request.inputs = (const char *const *)argv;
    options->request.n_inputs = (size_t)argc;
    options->request.command = (const char *const *)command;
    if (options->since_wall_ms > 0)
        options->request.run.fresh = false;
    options->since_wall_ms = 0;
    int rc = batch_settle(app, &options->request, err);
    if (rc)
        return rc;
    cmd_line(&cmd_map, app, options, argc, argv, command, &words);
    options->request.run.words = (const char *const *)words.at;
    rc = request_run(app, options, err);
    env_list_release(&words);
    return rc;
}

static int map_verb_check(struct app *app, void *request, int argc, char **argv, char **command,
                          struct cmd_check *check, struct err *err)
{
    struct map_options *options = request;
    (void)app;
    options->request.inputs = (const char *const *)argv;
    options->request.n_inputs = (size_t)argc;
    options->request.command = (const char *const *)command;
    if (options->request.schedule.batch == BATCH_AUTO)
        options->request.schedule.batch = 1; /* the number is found when the run begins */
    if (check->has_setup && !options->request.environment.setup)
        options->request.environment.setup = ":"; /* --setup decides where the program is found */
    int rc = work_choose(&options->request, err);
    return rc ? rc : map_check(&options->request, options->quiet, &check->run_dir, err);
}

static const char *const map_examples[] = {
    "muster map prompts.jsonl -o answers.jsonl -- python worker.py",
    "one worker on every free GPU",
    "muster map -g cpu:4 words.txt -o out.txt -- ./filter",
    "four CPU slots",
    "muster map --items 400 -o all.jsonl -- python eval.py --from {start} --n {count} --to {output}",
    "a program that takes a range and writes a file",
    NULL,
};

const struct cmd cmd_map = {
    .name = "map",
    .args = "[OPTION]... -o OUT INPUT... -- COMMAND [ARG]...",
    .summary = "run workers on every device over a data set, and merge their results",
    .details =
        "COMMAND is started once on each device and keeps its model loaded. It reads items as lines on stdin and answers one line "
        "each (a filter), or speaks the channel protocol (muster-worker(7)). If it holds {start}, {count}, {input} or "
        "{output}, it is started once for each range of the items (a shard). Every item's result appears exactly "
        "once, in input order; an interrupted run is resumed by typing the same command again.",
    .opts = map_opts,
    .examples = map_examples,
    .needs_elsewhere = true, /* muster hosts --add */
    .command = COMMAND_BEHIND,
    .request_size = sizeof(struct map_options),
    .defaults = map_defaults,
    .run = map_verb,
    .check = map_verb_check,
};

/* ---- resume ---- */

static int resume_run(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err);
static int resume_check(struct app *app, void *request, int argc, char **argv, char **command,
                        struct cmd_check *check, struct err *err);

static const char *const resume_examples[] = {
    "muster resume latest",
    "go on with the newest run",
    "muster resume latest -g cpu:2 --retry-failed",
    "on other devices, failed items again",
    NULL,
};

const struct cmd cmd_resume = {
    .name = "resume",
    .args = "[RUN] [OPTION]... [-- COMMAND [ARG]...]",
    .summary = "go on with a run that was interrupted, with whatever devices there are",
    .details =
        "RUN is a path, a name, the beginning of a name, or latest (the default). Options given here replace those of the run; the rest stays as it was. A graph accepts only options that muster graph has too.",
    .opts = resume_opts,
    .examples = resume_examples,
    .needs_elsewhere = true,
    .command = COMMAND_BEHIND,
    .request_size = sizeof(struct map_options),
    .defaults = map_defaults,
    .run = resume_run,
    .check = resume_check,
};

/* Options of the latest resume that changed the names of the shards' files: see shard_words_read. */
struct words {
    char **at;
    int len;
    bool are_taken;
};

static struct words words_read(const char *run_dir)
{
    struct words words = {0};
    words.at = shard_words_read(run_dir, &words.are_taken);
    while (words.at && words.at[words.len])
        words.len++;
    return words;
}

static void words_free(struct words *words)
{
    for (int i = 0; i < words->len; i++)
        free(words->at[i]);
    free(words->at);
}

/*
 * The run's own words are parsed first, then the options of `muster resume`: its argv is parsed into the same
 * request, where options that it does not name keep their values.
 */
static int options_replay(struct map_options *options, struct replay *replay,
                          const struct manifest *manifest, const struct words *since,
                          const struct app *app, struct err *err)
{
    int rc = replay_parse(replay, &cmd_map, manifest, options, err);
    if (rc)
        return rc;
    options->request.inputs = (const char *const *)replay->operands;
    options->request.n_inputs = (size_t)replay->n_operands;
    options->request.command = (const char *const *)replay->command;
    options->request.run.detach = false; /* it was meant for another terminal */
    if (since->len > 0)
        rc = cmd_overlay(&cmd_resume, since->len, since->at, options, err);
    return rc ? rc : replay_overlay(replay, &cmd_resume, app, options, err);
}

static bool keeps_parts(const struct manifest *manifest)
{
    for (const char *const *arg = manifest->argv; arg && *arg && strcmp(*arg, "--") != 0; arg++)
        if (strcmp(*arg, "--keep-parts") == 0)
            return true;
    return false;
}

static bool is_graph(const struct manifest *manifest)
{
    return strcmp(manifest->verb, "graph") == 0;
}

/* Removes files that a muster left because it was killed just before the end of a map. */
static int leftovers_drop(const char *dir, const struct manifest *manifest)
{
    static const char *const names[] = {"parts", "parts.gone", "shard-input", "shard-output"};
    int rc = 0;
    bool stays = is_graph(manifest) || !path_exists(manifest->output) || keeps_parts(manifest);
    for (size_t i = 0; i < countof(names) && rc == 0 && !stays; i++) {
        cleanup_free char *path = path_join(dir, names[i]);
        rc = remove_tree(path, NULL);
    }
    return rc;
}

/* True if nothing is left to do and nothing to merge again. */
static bool is_complete(const char *dir, const struct manifest *manifest)
{
    struct run_summary summary = {0};
    bool is_finished = run_inspect(dir, &summary, NULL) == 0 && summary.state == RUN_FINISHED;
    run_summary_release(&summary);
    /* An output that is printed keeps its parts, and is printed once more. */
    return is_finished && (is_graph(manifest) || strcmp(manifest->output, "-") != 0);
}

static int complete_say(const struct app *app, const char *dir, const struct manifest *manifest,
                        struct err *err)
{
    if (is_graph(manifest))
        say(app, "run %s is complete", path_basename(dir));
    else if (!path_exists(manifest->output))
        return fail(
            err, ERR_USAGE,
            "run %s was complete, but its output %s is no longer there; run it again by muster map",
            path_basename(dir), manifest->output);
    else
        say(app, "run %s is complete: its results are in %s%s", path_basename(dir),
            manifest->output,
            output_identity_differs(dir, 0, manifest->output)
                ? ", which was changed, replaced or copied since"
                : "");
    return 0;
}

static bool names_files(const struct map_options *typed)
{
    const struct map_request *r = &typed->request;
    return r->shards.collect || r->shards.also.len > 0 || r->shards.also_counted.len > 0;
}

static int resume_found(struct app *app, struct map_options *typed, char *dir,
                        const struct manifest *manifest, char **command, struct err *err)
{
    struct map_options options = {0};
    struct replay replay = {0};
    cleanup_free char *usual_root =
        runs_root(NULL); /* before the working folder becomes the run's */
    struct words since = words_read(dir);
    int rc = options_replay(&options, &replay, manifest, &since, app, err);
    if (rc == 0 && chdir(manifest->cwd) != 0)
        rc = fail_errno_as(err, ERR_USAGE, "the run's folder of work, %s", manifest->cwd);
    options.request.resume_dir = dir;
    options.request.usual_root = usual_root;
    options.request.retry_failed = typed->request.retry_failed;
    options.request.retakes = names_files(typed) || (since.len > 0 && !since.are_taken);
    if (command && command[0])
        options.request.command = (const char *const *)command;
    options.request.has_new_command = command && command[0];
    if (typed->request.retry_failed)
        options.request.overwrite = true; /* the output without the failed items is the run's own */
    options.request.run.dry_run = typed->request.run.dry_run;
    if (rc == 0)
        rc = request_run(app, &options, err);
    cmd_release(&cmd_map, &options);
    words_free(&since);
    replay_release(&replay);
    return rc;
}

/* Refuses a run of muster submit that has not begun, or that belongs to another verb. */
static int begun_check(const char *dir, struct err *err)
{
    struct run_summary run = {0};
    struct submitted_look look = {0};
    int rc = run_inspect(dir, &run, err);
    if (rc)
        return rc;
    bool has_begun = run.verb != NULL;
    submitted_look(&run, &look);
    if (look.job > 0 && !has_begun)
        rc = fail(err, ERR_USAGE, "run %s of %s has nothing to go on with: job %llu %s%s%s",
                  path_basename(dir), run.verb ? run.verb : "?", (unsigned long long)look.job,
                  look.words,
                  look.goes_on ? "" : "; again: ", look.goes_on || !run.go_on ? "" : run.go_on);
    submitted_look_release(&look);
    run_summary_release(&run);
    return rc;
}

/*
 * Refuses a copied run folder, as part of a copied project: the run would read and write the files of the original,
 * which may still be there. In the folder where the original was begun, a copy may go on.
 */
static int copy_check(const char *dir, const struct manifest *copy, struct err *err)
{
    const char *original = copy->folder;
    struct manifest manifest;
    if (!original || path_is_same(original, dir) || path_is_same(".", copy->cwd) ||
        manifest_read(original, &manifest, NULL) != 0)
        return 0;
    bool is_copied = manifest.started_wall_ms == copy->started_wall_ms;
    manifest_release(&manifest);
    return is_copied
               ? fail(err, ERR_USAGE,
                      "%s is a copy of %s: it would read and write in %s; resume that one, or "
                      "begin a new run here",
                      dir, original, copy->cwd)
               : 0;
}

/* *dir, a new string, and the manifest are set together. */
static int resumed_find(const struct map_options *typed, int argc, char **argv, char **dir_out,
                        struct manifest *manifest, struct err *err)
{
    cleanup_free char *dir = NULL;
    cleanup_free char *root = runs_root(typed->request.run.runs_dir);
    int rc = argc > 1
                 ? fail(err, ERR_USAGE, "expected one run, found '%s' and '%s'", argv[0], argv[1])
                 : run_find(root, argc == 1 ? argv[0] : NULL, &dir, err);
    if (rc == 0)
        rc = run_check_ours(dir, err);
    if (rc == 0)
        rc = begun_check(dir, err);
    if (rc == 0)
        rc = manifest_read(dir, manifest, err);
    if (rc)
        return rc;
    if (!is_graph(manifest) && (!manifest->output || !manifest->command))
        rc = fail(err, ERR_DATA, "%s/manifest.json names no output or no command", dir);
    rc = rc ? rc : copy_check(dir, manifest, err);
    if (rc) {
        manifest_release(manifest);
        return rc;
    }
    *dir_out = steal_ptr(&dir);
    return 0;
}

/* Checks a resume that begins later. When the job runs, "latest" may be another run, so the run is named now. */
static int resume_check(struct app *app, void *request, int argc, char **argv, char **command,
                        struct cmd_check *check, struct err *err)
{
    struct map_options *typed = request;
    struct manifest manifest;
    (void)app;
    int rc = resumed_find(typed, argc, argv, &check->run_dir, &manifest, err);
    if (rc)
        return rc;
    if (is_complete(check->run_dir, &manifest))
        rc = fail(err, ERR_USAGE, "run %s is complete", path_basename(check->run_dir));
    manifest_release(&manifest);
    cmd_words(&cmd_resume, typed, &check->words);
    env_list_add(&check->words, xstrdup(check->run_dir));
    if (command)
        env_list_add(&check->words, xstrdup("--"));
    if (command)
        env_list_add_words(&check->words, (const char *const *)command);
    return rc;
}

static int resume_run(struct app *app, void *request, int argc, char **argv, char **command,
                      struct err *err)
{
    struct map_options *typed = request;
    struct manifest manifest;
    cleanup_free char *dir = NULL;
    int rc = resumed_find(typed, argc, argv, &dir, &manifest, err);
    if (rc)
        return rc;
    bool is_over = is_complete(dir, &manifest);
    if (is_over && !typed->request.run.dry_run)
        is_over = leftovers_drop(dir, &manifest) == 0;
    if (is_over && names_files(typed))
        rc = fail(err, ERR_USAGE,
                  "run %s is complete, so --collect, --also and --also-counted cannot be used; "
                  "muster merge joins any files",
                  path_basename(dir));
    else if (is_over)
        rc = complete_say(app, dir, &manifest, err);
    else if (!is_graph(&manifest))
        rc = resume_found(app, typed, dir, &manifest, command, err);
    else if (command)
        rc = fail(err, ERR_USAGE, "run %s is a graph, whose commands are those of its jobs",
                  path_basename(dir));
    else
        rc = graph_resume(app, dir, &manifest, err);
    manifest_release(&manifest);
    return rc;
}
