/* SPDX-License-Identifier: Apache-2.0
 *
 * muster results: prints the results that are committed so far, from the run's parts. Works during the run,
 * and after its muster died.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/named_files.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "cli/run_arg.h"
#include "data/file_merge/file_merge.h"
#include "data/format.h"
#include "data/result_merge.h"
#include "map/output_identity.h"
#include "map/rows.h"
#include "shard/shard.h"
#include "shell/claim.h"
#include "store/manifest.h"
#include "store/own_files.h"
#include "store/runs.h"
#include "store/store.h"

struct results_request {
    const char *runs_dir;
    const char *out_path;
    enum out_format format;
    bool any_order, force;
};

/* Reads facts of the run: "items", their number once known, and "results_json", 1 if results are JSON. */
static int facts_read(struct store *store, struct result_merge_opts *opts, struct err *err)
{
    cleanup_free char *items = NULL, *is_json = NULL;
    int rc = store_get(store, "items", &items, err);
    if (rc == 0)
        rc = store_get(store, "results_json", &is_json, err);
    if (!items || u64_parse(str_of(items), 0, UINT64_MAX, &opts->n_items, NULL) != 0)
        opts->n_items = 0;
    opts->results_are_json = is_json && strcmp(is_json, "1") == 0;
    return rc;
}

static int stream(const struct results_request *ask, struct store *store,
                  struct result_merge_stats *stats, struct err *err)
{
    struct merge_rows rows;
    struct result_merge_opts opts = {
        .out_path = ask->out_path,
        .format = ask->format,
        .in_order = !ask->any_order,
        .overwrite = ask->force,
        .partial_ok = true,
        .next_range = merge_rows_range,
        .next_failed_item = merge_rows_failed_item,
        .context = &rows,
    };
    int rc = facts_read(store, &opts, err);
    if (rc)
        return rc;
    rc = merge_rows_open(&rows, store, !ask->any_order, err);
    if (rc == 0)
        rc = result_merge_write(&opts, stats, err);
    merge_rows_close(&rows);
    return rc;
}

/* A run of shards has files: joins those that are committed. Prints its own messages. */
static int shards_stream(struct app *app, const struct results_request *ask, struct store *store,
                         bool *are_there, struct err *err)
{
    struct map_request request = {
        .out_path = ask->out_path, .format_out = ask->format, .overwrite = ask->force};
    struct result_merge_stats stats = {0};
    int rc = shards_so_far(store, &request, are_there, &stats, err);
    if (rc || !*are_there)
        return rc;
    char records[32];
    count_format(records, stats.n_results);
    say(app, "%s record%s so far; %llu shard%s missing", records, plural(stats.n_results),
        (unsigned long long)stats.n_failed_items, stats.n_failed_items == 1 ? " is" : "s are");
    return 0;
}

static int output_print(const char *output, int fd, struct err *err)
{
    for (;;) {
        char block[65536];
        ssize_t got = read(fd, block, sizeof(block));
        if (got < 0)
            return fail_errno(err, "read %s", output);
        if (got == 0)
            return 0;
        int rc = write_all(STDOUT_FILENO, block, (size_t)got, err);
        if (rc)
            return rc;
    }
}

/* Writes the records of the output in another format, or to another file. */
static int output_convert(const char *dir, const char *output, const struct results_request *ask,
                          struct err *err)
{
    struct result_merge_opts facts = {0};
    struct file_merge_stats stats = {0};
    struct store *store;
    int rc = store_open(&store, dir, STORE_READ, err);
    if (rc)
        return rc;
    rc = facts_read(store, &facts, err);
    store_close(store);
    struct file_merge_opts opts = {.format = record_format_of_path(output),
                                   .out_format = ask->format,
                                   .expect = UINT64_MAX,
                                   .force = ask->force};
    if (opts.format == FORMAT_LINES && facts.results_are_json)
        opts.format = FORMAT_AUTO; /* the run may have had a --format-out */
    if (opts.format == FORMAT_JSONL && opts.out_format == OUT_LINES)
        opts.out_format = OUT_JSONL;
    return rc ? rc : file_merge_write(&opts, &output, 1, ask->out_path, &stats, err);
}

/* After a complete merge the parts are removed: copies the output. */
static int merged_copy(const char *dir, const struct results_request *ask, struct err *err)
{
    struct manifest manifest;
    bool is_print = strcmp(ask->out_path, "-") == 0 && ask->format == OUT_AUTO;
    int rc = manifest_read(dir, &manifest, err);
    if (rc)
        return rc;
    const char *output = manifest.output ? manifest.output : "";
    cleanup_fd int fd = open(output, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        rc = fail_errno_as(err, ERR_USAGE, "the results were merged into %s, which cannot be read",
                           output);
    else if (folder_exists(output))
        rc = fail(err, ERR_USAGE, "the shards' files are in %s", output);
    else
        rc = run_check_named(dir, output, err);
    if (rc == 0 && output_identity_differs(dir, 0, output))
        talk("%s is not as the run left it: it was changed, replaced or copied since", output);
    if (rc == 0)
        rc = is_print ? output_print(output, fd, err) : output_convert(dir, output, ask, err);
    manifest_release(&manifest);
    return rc;
}

static bool is_in_state(const char *dir, enum run_state state)
{
    struct run_summary summary = {0};
    bool is = run_inspect(dir, &summary, NULL) == 0 && summary.state == state;
    run_summary_release(&summary);
    return is;
}

static bool is_merged(const char *dir)
{
    cleanup_free char *parts = path_join(dir, "parts");
    return is_in_state(dir, RUN_FINISHED) && !path_exists(parts);
}

/* The jobs of a graph leave files of their own. */
static int verb_check(const char *dir, struct err *err)
{
    struct run_summary run = {0};
    bool is_graph = run_inspect(dir, &run, NULL) == 0 && run_is_graph(&run);
    run_summary_release(&run);
    return is_graph ? fail(err, ERR_USAGE,
                           "run %s is a graph, whose jobs leave files of their own; muster logs "
                           "shows what they printed",
                           path_basename(dir))
                    : 0;
}

static int output_check(const char *path, struct err *err)
{
    int rc = out_packing_refuse(path, err);
    if (rc)
        return rc;
    if (!str_ends_with(str_of(path), STR("/")) && !folder_exists(path))
        return 0;
    return fail(err, ERR_USAGE, "-o %s names a folder; the results go into one file", path);
}

/*
 * Claims the output. It must not replace a file that the run reads or keeps, or a file that another command writes at
 * this time.
 */
static int place_claim(const char *dir, const char *path, struct output_claim *claim,
                       struct err *err)
{
    struct manifest manifest = {0};
    int rc = 0;
    if (strcmp(path, "-") == 0 || output_is_direct(path))
        return 0;
    rc = own_files_check_output(&(struct named_file){path, "-o", true}, dir, err);
    if (rc)
        return rc;
    if (manifest_read(dir, &manifest, NULL) == 0)
        for (size_t i = 0; rc == 0 && manifest.inputs && manifest.inputs[i]; i++)
            rc = named_files_check(
                (const struct named_file[]){{path, "-o", true},
                                            {manifest.inputs[i], "an input of the run", false}},
                2, err);
    rc = rc ? rc : output_claim_add(claim, path, err);
    /* A partial output at the run's own place would be taken for the whole one, and the run would not go on. */
    if (rc == 0 && manifest.output && path_is_same(path, manifest.output) &&
        !is_in_state(dir, RUN_FINISHED))
        rc = fail(err, ERR_USAGE,
                  "%s is the output of run %s, which the run itself writes; name another file",
                  path, path_basename(dir));
    manifest_release(&manifest);
    return rc;
}

static int results_print(struct app *app, const struct results_request *ask, const char *dir,
                         struct err *err)
{
    struct store *store = NULL;
    struct result_merge_stats stats = {0};
    bool are_shards = false;
    if (is_merged(dir))
        return merged_copy(dir, ask, err);
    int rc = store_open(&store, dir, STORE_READ, err);
    if (rc)
        return rc;
    rc = shards_stream(app, ask, store, &are_shards, err);
    if (rc == 0 && !are_shards)
        rc = stream(ask, store, &stats, err);
    store_close(store);
    if (rc || are_shards)
        return rc ? wrap(err, rc, "run %s", path_basename(dir)) : 0;
    char results[32];
    count_format(results, stats.n_results);
    say(app, "%s result%s so far, %llu item%s set aside", results, plural(stats.n_results),
        (unsigned long long)stats.n_failed_items, plural(stats.n_failed_items));
    return 0;
}

static int results_run(struct app *app, void *request, int argc, char **argv, char **command,
                       struct err *err)
{
    (void)command;
    const struct results_request *ask = request;
    cleanup_free char *dir = NULL;
    struct output_claim claim = OUTPUT_CLAIM_INIT;
    int rc = output_check(ask->out_path, err);
    rc = rc ? rc : run_arg_find(ask->runs_dir, argc, argv, &dir, err);
    rc = rc ? rc : verb_check(dir, err);
    rc = rc ? rc : place_claim(dir, ask->out_path, &claim, err);
    rc = rc ? rc : results_print(app, ask, dir, err);
    output_claim_release(&claim);
    return rc;
}

static void results_defaults(void *request)
{
    *(struct results_request *)request = (struct results_request){.out_path = "-"};
}

static const struct opt results_opts[] = {
    {.kind = OPT_TEXT,
     .letter = 'o',
     .name = "output",
     .arg = "FILE",
     .help = "write to FILE instead of stdout",
     .offset = offsetof(struct results_request, out_path)},
    {.kind = OPT_CHOICE,
     .name = "format-out",
     .arg = "FORMAT",
     .help = "jsonl, json, csv, tsv or lines (default: by FILE's extension)",
     .offset = offsetof(struct results_request, format),
     .choices = out_formats},
    {.kind = OPT_FLAG,
     .name = "as-committed",
     .help = "print results in the order in which they were committed, not in input order",
     .offset = offsetof(struct results_request, any_order)},
    {.kind = OPT_FLAG,
     .name = "force",
     .help = "replace FILE if it exists",
     .offset = offsetof(struct results_request, force)},
    RUNS_DIR_OPT(struct results_request),
    {.kind = OPT_END},
};

static const char *const results_examples[] = {
    "muster results | head",
    "the first results of the latest run, while it goes on",
    "muster results -o so-far.csv 20260131_090807-map",
    "all that this run has, as CSV",
    NULL,
};

const struct cmd cmd_results = {
    .name = "results",
    .args = "[OPTION]... [RUN]",
    .summary = "print the results that a run has so far",
    .details = "Items that have no result yet leave no line. The run may be going on, stopped or "
               "interrupted.",
    .opts = results_opts,
    .examples = results_examples,
    .request_size = sizeof(struct results_request),
    .defaults = results_defaults,
    .run = results_run,
};
