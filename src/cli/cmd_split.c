/* SPDX-License-Identifier: Apache-2.0
 *
 * muster split: cuts one data set into parts.
 */
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/merge_tensors.h"
#include "cli/run_arg.h"
#include "cli/split_tensors.h"
#include "data/inputs.h"
#include "data/split/split.h"
#include "shell/claim.h"

enum {
    FILES_OF_OURS = 128
};

struct split_request {
    uint64_t n_parts, records_max, bytes_max, digits;
    const char *output;
    struct texts keys;
    enum record_format format;
    bool by_rows, pass_through, force, is_dry, json, quiet;
};

/* The state of a split, released together. */
struct split_job {
    struct app *app;
    struct inputs *inputs;        /* the files as they were before they were opened */
    struct split *split;          /* a split of records */
    struct tensor_parts *tensors; /* or a split of tensors */
    struct split_source source;   /* the source of the tensors */
    struct split_names names;
    char **paths; /* of the parts, followed by the files that go with them */
    size_t n_parts, n_paths;
    struct split_list stale,
        leftovers; /* existing files that are named like parts, or like unfinished parts */
    const struct split_part *parts;
    const char *kind; /* for messages */
};

static void job_release(struct split_job *job)
{
    for (size_t i = 0; job->paths && i < job->n_paths; i++)
        free(job->paths[i]);
    free(job->paths);
    split_list_release(&job->stale);
    split_list_release(&job->leftovers);
    split_names_release(&job->names);
    split_close(job->split);
    tensor_parts_close(job->tensors);
    inputs_free(job->inputs);
}

/* Refuses 0, because 0 in the request means that no size was given. */
static int part_size_store(struct str text, void *field, struct err *err)
{
    uint64_t *bytes = field;
    int rc = size_parse(text, bytes, err);
    return rc || *bytes > 0 ? rc
                            : fail(err, ERR_USAGE, "expected a byte or more, found '%.*s'",
                                   (int)text.len, text.at);
}

static int request_check(const struct split_request *ask, int n_inputs, struct err *err)
{
    int n_ways = (ask->n_parts > 0) + (ask->records_max > 0) + (ask->bytes_max > 0);
    if (n_inputs == 0)
        return fail(err, ERR_USAGE, "no input is named; '-' is stdin");
    if (n_ways == 0)
        return fail(err, ERR_USAGE,
                    "into how many parts? say -n PARTS, --records N or --size BYTES");
    if (n_ways > 1)
        return fail(err, ERR_USAGE, "-n, --records and --size exclude each other");
    return 0;
}

/*
 * The signals that end this process. Signals that are ignored, as under nohup or in the background
 * of a script, are not among them.
 */
static sigset_t ends_of(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < countof(ends); i++) {
        struct sigaction now;
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, ends[i]);
    }
    return set;
}

/*
 * While parts are written, signals are blocked: so no unfinished part is left, and the signal takes
 * effect right after. (An ignored signal would be pending too, and then have no effect.)
 */
static bool signal_waits(void *context)
{
    (void)context;
    sigset_t pending, ends = ends_of();
    sigpending(&pending);
    sigandset(&pending, &pending, &ends);
    return !sigisemptyset(&pending);
}

static int records_open(struct split_job *job, const struct split_request *ask, int argc,
                        char **argv, struct err *err)
{
    const struct split_opts opts = {.paths = (const char *const *)argv,
                                    .n_paths = (size_t)argc,
                                    .format = ask->format,
                                    .n_parts = ask->n_parts,
                                    .records_max = ask->records_max,
                                    .bytes_max = ask->bytes_max};
    int rc = split_names_init(&job->names, ask->output, &opts, ask->digits, err);
    if (rc == 0)
        rc = split_open(&job->split, &opts, err);
    if (rc == 0)
        rc = split_names_check(&job->names, ask->format, split_format(job->split), err);
    if (rc)
        return rc;
    job->kind = record_format_name(split_format(job->split));
    job->parts = split_parts(job->split, &job->n_parts);
    job->n_paths = job->n_parts;
    job->paths = xcalloc(job->n_parts, sizeof(*job->paths));
    for (size_t i = 0; i < job->n_parts; i++)
        job->paths[i] = split_name_new(&job->names, i, job->n_parts);
    return 0;
}

static void note_say(void *context, const char *text)
{
    const struct split_job *job = context;
    say(job->app, "%s", text);
}

static int inputs_placing(void *context, struct err *err)
{
    const struct split_job *job = context;
    return inputs_check(job->inputs, err);
}

static int tensors_open(struct split_job *job, const struct split_request *ask,
                        enum tensor_kind kind, const char *path, struct err *err)
{
    const struct tensor_parts_opts opts = {.kind = kind,
                                           .path = path,
                                           .keys = &ask->keys,
                                           .pass_through = ask->pass_through,
                                           .note = note_say,
                                           .context = job,
                                           .by_rows = ask->by_rows,
                                           .n_parts = ask->n_parts,
                                           .records_max = ask->records_max,
                                           .bytes_max = ask->bytes_max,
                                           .stop = {signal_waits, NULL}};
    int rc = tensor_parts_open(&job->tensors, &opts, err);
    if (rc)
        return rc;
    job->kind = tensor_kind_name(kind);
    job->parts = tensor_parts_list(job->tensors, &job->n_parts);
    rc = tensor_parts_names(job->tensors, ask->output, ask->digits, &job->names, &job->paths,
                            &job->n_paths, err);
    if (rc == 0)
        job->source = tensor_parts_source(job->tensors, job->paths, job->n_paths);
    return rc;
}

/* Opens the job by the kind of the first input. A file of tensors must be the only input. */
static int job_open(struct split_job *job, const struct split_request *ask, int argc, char **argv,
                    struct err *err)
{
    enum tensor_kind kind = TENSOR_NONE;
    int rc = 0;
    for (int i = 0; i < argc && rc == 0 && kind == TENSOR_NONE; i++)
        rc = strcmp(argv[i], "-") == 0 ? 0 : tensor_kind_of_input(argv[i], &kind, err);
    if (rc)
        return rc;
    if (ask->output && (rc = tensors_output_check(kind, ask->output, err)) != 0)
        return rc;
    if (kind == TENSOR_NONE && (ask->by_rows || ask->keys.len > 0 || ask->pass_through))
        return fail(err, ERR_USAGE,
                    "--rows, --key and --pass-through are about files of tensors, and %s is none",
                    argv[0]);
    if (kind == TENSOR_NONE)
        return records_open(job, ask, argc, argv, err);
    if (ask->format != FORMAT_AUTO)
        return fail(err, ERR_USAGE, "--format is about records, and these are tensors");
    return argc == 1 ? tensors_open(job, ask, kind, argv[0], err)
                     : fail(err, ERR_USAGE,
                            "one file of tensors is cut at a time; muster merge makes one of "
                            "several");
}

/*
 * Only one of several splits to the same names at the same time is made. Splits with the same names
 * begin with the same part, so its name is claimed, whatever the number of parts.
 */
static int parts_write(const struct split_job *job, const struct split_target *target,
                       struct err *err)
{
    struct output_claim claim = OUTPUT_CLAIM_INIT;
    sigset_t ends = ends_of(), before;
    int rc = output_claim_add(&claim, job->paths[0], err);
    if (rc)
        return rc;
    sigprocmask(SIG_BLOCK, &ends, &before);
    rc = job->split ? split_write(job->split, target, err) : split_put(&job->source, target, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    output_claim_release(&claim);
    return rc;
}

/* Adds one line for each part. */
static void table_add(struct buf *out, const struct split_job *job)
{
    size_t width = strlen("PART");
    for (size_t i = 0; i < job->n_parts; i++) {
        cleanup_buf struct buf name = BUF_INIT;
        console_text_add(&name, str_of(job->paths[i]), false);
        width = MAX(width, console_text_width(buf_str(&name)));
    }
    buf_addf(out, "%-*s  %12s  %12s  %14s\n", (int)width, "PART", "FIRST", "RECORDS", "BYTES");
    for (size_t i = 0; i < job->n_parts; i++) {
        cleanup_buf struct buf name = BUF_INIT;
        console_text_add(&name, str_of(job->paths[i]), false);
        console_padded_add(out, buf_str(&name), width);
        buf_addf(out, "  %12lu  %12lu  %14lu\n", job->parts[i].first, job->parts[i].n_records,
                 job->parts[i].n_bytes);
    }
}

static void objects_add(struct buf *out, const struct split_job *job)
{
    for (size_t i = 0; i < job->n_parts; i++) {
        cleanup_buf struct buf path = BUF_INIT;
        buf_add_json(&path, str_of(job->paths[i]));
        buf_addf(out, "{\"part\":%zu,\"path\":", i);
        console_visible_add(out, buf_str(&path));
        buf_addf(out, ",\"first\":%lu,\"records\":%lu,\"bytes\":%lu}\n", job->parts[i].first,
                 job->parts[i].n_records, job->parts[i].n_bytes);
    }
}

/* Tells the user which files to remove: muster does not know who has made these files. */
static void leftovers_say(const struct app *app, const struct split_list *leftovers)
{
    char more[48] = "";
    if (leftovers->n_paths == 0)
        return;
    if (leftovers->n_paths > 1)
        snprintf(more, sizeof(more), " and %zu like it", leftovers->n_paths - 1);
    say(app,
        "%s%s may be what a cut that was killed left behind; unless another one is at work here, "
        "remove %s",
        leftovers->paths[0], more, leftovers->n_paths > 1 ? "them" : "it");
}

static void summary_say(const struct app *app, const struct split_job *job,
                        const struct split_request *ask)
{
    const char *unit = job->split ? "record" : tensor_parts_unit(job->tensors);
    uint64_t n_records = 0, n_empty = 0;
    char records[32];
    for (size_t i = 0; i < job->n_parts; i++) {
        n_records += job->parts[i].n_records;
        n_empty += job->parts[i].n_records == 0;
    }
    count_format(records, n_records);
    say(app, "%s %s%s (%s) in %zu part%s%s", records, unit, plural(n_records), job->kind,
        job->n_parts, plural(job->n_parts), ask->is_dry ? "; nothing was written (--dry-run)" : "");
    if (n_empty > 0)
        say(app, "%lu of the parts %s no %s: there are fewer %ss than parts", n_empty,
            n_empty == 1 ? "has" : "have", unit, unit);
    if (job->split && split_n_terminated(job->split) > 0)
        say(app, "a last line had no end, and got one");
    leftovers_say(app, &job->leftovers);
}

static int parts_make(struct split_job *job, const struct split_request *ask, struct err *err)
{
    ASSERT(job->paths);
    cleanup_free char *folder = path_dirname(job->paths[0]);
    cleanup_free char *journal = split_journal_name_new(&job->names, job->n_parts);
    struct split_target target = {.names = (const char *const *)job->paths,
                                  .folder = folder,
                                  .journal = journal,
                                  .force = ask->force,
                                  .stop = {signal_waits, NULL},
                                  .note = note_say,
                                  .placing = inputs_placing,
                                  .context = job};
    int rc =
        split_stale_find(&job->names, &target, job->n_parts, &job->stale, &job->leftovers, err);
    if (rc)
        return rc;
    target.stale = job->stale;
    if (!ask->is_dry)
        return parts_write(job, &target, err);
    if (job->split) {
        rc = split_target_check(job->split, &target, err);
        return rc ? rc : split_check(job->split, err);
    }
    rc = split_put_check(&job->source, &target, err);
    for (size_t i = 0; i < job->n_paths && rc == 0; i++)
        rc = job->source.fill(job->source.context, i, NULL, err);
    return rc;
}

static int job_run(struct split_job *job, const struct split_request *ask, struct err *err)
{
    uint64_t sum = 0;
    int rc = parts_make(job, ask, err);
    for (size_t i = 0; i < job->n_parts; i++)
        sum += job->parts[i].n_records;
    ASSERT(!job->split || sum == split_n_records(job->split));
    return rc;
}

static int split_run(struct app *app, void *request, int argc, char **argv, char **command,
                     struct err *err)
{
    (void)command;
    const struct split_request *ask = request;
    struct split_job job = {.app = app};
    app->quiet = ask->quiet;
    int rc = request_check(ask, argc, err);
    (void)open_files_allow((uint64_t)argc +
                           FILES_OF_OURS); /* each compressed input has a temporary file */
    job.inputs = inputs_new((const char *const *)argv, (size_t)argc);
    if (rc == 0)
        rc = job_open(&job, ask, argc, argv, err);
    if (rc == 0)
        rc = job_run(&job, ask, err);
    if (rc == 0) {
        cleanup_buf struct buf out = BUF_INIT;
        (ask->json ? objects_add : table_add)(&out, &job);
        summary_say(app, &job, ask);
        rc = ask->is_dry ? stdout_put(buf_str(&out), err)
                         : stdout_put_after(buf_str(&out), "the parts are in place", err);
    }
    job_release(&job);
    return rc;
}

static void split_defaults(void *request)
{
    *(struct split_request *)request = (struct split_request){.digits = 2};
}

static const struct opt split_options[] = {
    {OPT_HEADING, .help = "How many"},
    {.kind = OPT_U64,
     .letter = 'n',
     .name = "parts",
     .arg = "PARTS",
     .help = "number of parts; sizes differ by at most one record, and the first parts are larger",
     .offset = offsetof(struct split_request, n_parts),
     .min = 1,
     .max = SPLIT_PARTS_MAX},
    {.kind = OPT_U64,
     .name = "records",
     .arg = "N",
     .help = "records per part; the last part has the rest",
     .offset = offsetof(struct split_request, records_max),
     .min = 1},
    {.kind = OPT_PARSE,
     .name = "size",
     .arg = "BYTES",
     .help = "largest size of a part (100MB, 1GiB), with the header; a larger record gets a part "
             "of its own",
     .offset = offsetof(struct split_request, bytes_max),
     .parse = part_size_store},
    {OPT_HEADING, .help = "Files of tensors"},
    {.kind = OPT_FLAG,
     .name = "rows",
     .help = "safetensors: cut every tensor along its first dimension, instead of giving each part "
             "whole tensors",
     .offset = offsetof(struct split_request, by_rows)},
    {.kind = OPT_TEXTS,
     .name = "key",
     .arg = "PATH",
     .help = ".pt: the list or tensor to cut, as a path of keys from the root, joined by dots "
             "(default: the root, or all lists and tensors in it; may be repeated)",
     .has_no_variable = true, /* MUSTER_KEY is a field of records */
     .offset = offsetof(struct split_request, keys)},
    {.kind = OPT_FLAG,
     .name = "pass-through",
     .help = ".pt: copy objects of unknown classes unchanged and unchecked",
     .offset = offsetof(struct split_request, pass_through)},
    {OPT_HEADING, .help = "Where to"},
    {.kind = OPT_TEXT,
     .letter = 'o',
     .name = "output",
     .arg = "FOLDER|PATTERN",
     .help = "a folder (made if the name ends with '/'), or a path with {n} for the number of the "
             "part and, if wanted, {parts} for the number of parts (default: beside the input, as "
             "in.part_00.jsonl)",
     .has_no_variable = true, /* MUSTER_OUTPUT is a file of records */
     .offset = offsetof(struct split_request, output)},
    {.kind = OPT_U64,
     .name = "digits",
     .arg = "N",
     .help = "smallest number of digits of {n} (default 2)",
     .offset = offsetof(struct split_request, digits),
     .min = 1,
     .max = 9},
    {.kind = OPT_FLAG,
     .name = "force",
     .help = "replace existing parts, and remove other files that are named like parts, such as "
             "those of an earlier cut into more parts",
     .offset = offsetof(struct split_request, force)},
    {OPT_HEADING, .help = "Other"},
    {.kind = OPT_CHOICE,
     .name = "format",
     .arg = "FORMAT",
     .help = "lines, jsonl, json, csv or tsv (default: by the inputs' extension)",
     .offset = offsetof(struct split_request, format),
     .choices = record_formats},
    {.kind = OPT_FLAG,
     .name = "dry-run",
     .help = "read and check everything, print the parts, write nothing",
     .offset = offsetof(struct split_request, is_dry)},
    {.kind = OPT_FLAG,
     .name = "json",
     .help = "print one JSON object per part instead of the table",
     .offset = offsetof(struct split_request, json)},
    {.kind = OPT_FLAG,
     .letter = 'q',
     .name = "quiet",
     .help = "nothing on stderr but errors",
     .offset = offsetof(struct split_request, quiet)},
    {.kind = OPT_END},
};

static const char *const split_examples[] = {
    "muster split -n 8 train.jsonl",
    "train.part_00.jsonl to train.part_07.jsonl",
    "muster split --records 10000 -o 'parts/{n}-of-{parts}.csv' 2024.csv.gz 2025.csv",
    "both as one sequence, the header in every part",
    NULL,
};

const struct cmd cmd_split = {
    .name = "split",
    .args = "-n PARTS | --records N | --size BYTES [OPTION]... INPUT...",
    .summary = "cut a data set into parts",
    .details =
        "Lines, JSONL, JSON arrays, CSV and TSV; also .gz, .zst and '-' for stdin. Every record is "
        "in exactly one part, in order and unchanged. Each CSV part has the header, each JSON part "
        "is an array. Files of torch.save are cut by their list of records, npy and npz by rows, safetensors "
        "by whole tensors with their index, or by rows. Nothing is left if anything is wrong.",
    .opts = split_options,
    .examples = split_examples,
    .request_size = sizeof(struct split_request),
    .defaults = split_defaults,
    .run = split_run,
};
