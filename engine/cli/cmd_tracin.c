/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge tracin: which training triples moved the model on a test triple.
 */
#include <dirent.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/named_files.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/kge_full.h"
#include "cli/kge_verbs.h"
#include "cli/tracin_batch.h"
#include "cli/tracin_job.h"
#include "cli/tracin_precision.h"
#include "cli/tracin_request.h"
#include "cli/tracin_self.h"
#include "cli/tracin_spread.h"
#include "cli/tracin_tests.h"
#include "device/spec.h"
#include "proc/front.h"
#include "shell/claim.h"

static void tracin_defaults(void *request)
{
    struct tracin_request *ask = request;
    kge_filter_defaults(&ask->filter);
}

static const struct choice modes[] = {
    {"test", MODE_TEST}, {"self", MODE_SELF}, {"single", MODE_SINGLE}, {0}};
static const struct choice orders[] = {
    {"magnitude", TRACIN_BY_MAGNITUDE}, {"value", TRACIN_BY_VALUE}, {0}};
static const struct choice triples_orders[] = {
    {"file", TRIPLES_AS_IN_FILES}, {"pykeen", TRIPLES_AS_IN_PYKEEN}, {0}};

/* ---- where the results go ---- */

static enum influence_form form_of(const struct tracin_request *ask, const char *path)
{
    enum result_form form = tracin_result_form(path);
    if (form == RESULT_CSV)
        return INFLUENCES_CSV;
    if (form == RESULT_LINES)
        return INFLUENCES_JSONL;
    if (ask->mode == MODE_SINGLE)
        return INFLUENCES_SINGLE;
    return ask->test_triple.len > 0 ? INFLUENCES_LONE : INFLUENCES_TEST;
}

/* Returns "x/out_test_3.csv" for x/out.csv. */
static char *numbered_path(const char *path, size_t index)
{
    const char *extension = path_extension(path);
    return xasprintf("%.*s_test_%zu%s", (int)(strlen(path) - strlen(extension)), path, index,
                     extension);
}

static int own_check(const struct tracin_job *job, struct err *err)
{
    for (size_t i = 0; i < job->n_tests && !job->overwrite; i++)
        for (size_t k = 0; k < OWN_FILES_MAX; k++)
            if (job->tests[i].own[k] && path_exists(job->tests[i].own[k]))
                return fail(err, ERR_USAGE, "%s exists; --force replaces it", job->tests[i].own[k]);
    return 0;
}

/*
 * Names the files of each test triple: tracin_test_<i>.json beside --output, as in TiePin, and CSV
 * files numbered in the same way.
 */
static int per_triple_outputs(const struct tracin_request *ask, struct tracin_job *job,
                              struct err *err)
{
    cleanup_free char *folder = path_dirname(ask->output);
    job->own_forms[0] = INFLUENCES_PER_TRIPLE;
    job->own_forms[1] = INFLUENCES_CSV;
    for (size_t i = 0; i < job->n_tests; i++) {
        struct tracin_job_test *test = &job->tests[i];
        test->own[0] = xasprintf("%s/tracin_test_%zu.json", folder, test->index);
        if (ask->csv_output)
            test->own[1] = numbered_path(ask->csv_output, test->index);
    }
    return own_check(job, err);
}

static bool has_place(const struct tracin_job *job, uint64_t place)
{
    for (size_t i = 0; i < job->n_tests; i++)
        if (job->tests[i].index == place)
            return true;
    return false;
}

/*
 * Prints how many files tracin_test_<i>.json beside --output belong to no test triple of this
 * command.
 */
static void others_say(const struct tracin_request *ask, const struct tracin_job *job)
{
    cleanup_free char *path = path_dirname(ask->output);
    DIR *folder = opendir(path);
    size_t n = 0;
    for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        struct str name = str_of(entry->d_name), prefix = STR("tracin_test_"), end = STR(".json");
        uint64_t place;
        if (!str_starts_with(name, prefix) || !str_ends_with(name, end) ||
            name.len <= prefix.len + end.len)
            continue;
        name.at += prefix.len;
        name.len -= prefix.len + end.len;
        n += u64_parse(name, 0, SIZE_MAX, &place, NULL) == 0 && !has_place(job, place);
    }
    if (folder)
        closedir(folder);
    if (n > 0)
        say(job->app,
            "%s has %zu other tracin_test_*.json, which %s not of this command and stay%s", path, n,
            n == 1 ? "is" : "are", n == 1 ? "s" : "");
}

static int outputs_open(const struct tracin_request *ask, struct tracin_job *job, struct err *err)
{
    if (ask->per_triple)
        return per_triple_outputs(ask, job, err);
    int rc = tracin_job_share(job, ask->output, form_of(ask, ask->output), err);
    if (rc || !ask->csv_output)
        return rc;
    if (ask->mode == MODE_TEST || job->n_tests == 1)
        return tracin_job_share(job, ask->csv_output, INFLUENCES_CSV, err);
    job->own_forms[0] = INFLUENCES_CSV;
    for (size_t i = 0; i < job->n_tests; i++)
        job->tests[i].own[0] = numbered_path(ask->csv_output, job->tests[i].index);
    return own_check(job, err);
}

static int matrix_run(const struct tracin_request *ask, struct tracin_job *job, struct err *err)
{
    struct influence_matrix matrix = INFLUENCE_MATRIX_INIT;
    if (ask->csv_output || ask->top_k > 0)
        return fail(err, ERR_USAGE, "%s takes every influence: leave --csv-output and --top-k out",
                    ask->output);
    int rc = influence_matrix_open(&matrix, ask->output, job->overwrite, job->n_tests,
                                   job->data->train.n, err);
    job->matrix = &matrix;
    if (rc == 0)
        rc = tracin_job_run(job, err);
    job->matrix = NULL;
    influence_matrix_close(&matrix);
    return rc;
}

/* ---- the run ---- */

/* The request, and what was read for it. */
struct call {
    const struct tracin_request *ask;
    const struct app *app;
    struct kge_data data;
    struct kge_models models;
    struct tracin_spread *spread; /* NULL: this process computes */
    int front_fd;                 /* from front_begin(); -1: there is no front */
};

static int job_run(const struct tracin_request *ask, const struct app *app, struct tracin_job *job,
                   struct err *err)
{
    const struct proximity_opts filter = kge_filter_opts(&ask->filter);
    job->scene.top_k = (size_t)ask->top_k;
    job->order = ask->order;
    job->overwrite = ask->overwrite || tracin_spread_may_replace(job->spread);
    int rc = ask->filter.n_hops > 0 ? tracin_job_filter(job, &filter, NULL, err) : 0;
    if (rc == 0 && tracin_is_matrix(ask)) {
        rc = matrix_run(ask, job, err);
    } else if (rc == 0) {
        rc = outputs_open(ask, job, err);
        if (rc == 0)
            rc = tracin_job_run(job, err);
    }
    if (rc == 0)
        say(app, "%zu test triple%s, %zu training triples: %s", job->n_tests,
            job->n_tests == 1 ? "" : "s", job->data->train.n,
            ask->per_triple ? "tracin_test_*.json are in place" : ask->output);
    if (rc == 0 && ask->per_triple)
        others_say(ask, job);
    return rc;
}

static int single_or_test(struct call *call, struct err *err)
{
    struct tracin_job job;
    cleanup_free size_t *places = NULL;
    size_t n_places = 0;
    int rc = tracin_places_find(call->ask, &call->data, call->app, &places, &n_places, err);
    if (rc)
        return rc;
    tracin_job_init(&job, call->app, &call->data, &call->models, places, n_places);
    job.spread = call->spread;
    rc = job_run(call->ask, call->app, &job, err);
    tracin_job_release(&job);
    return rc;
}

/* Explains how the test triples that were asked for would be computed. */
static int dry_run(struct call *call, struct err *err)
{
    const struct tracin_request *ask = call->ask;
    const struct proximity_opts filter = kge_filter_opts(&ask->filter);
    cleanup_buf struct buf text = BUF_INIT;
    cleanup_free size_t *places = NULL;
    struct tracin_job job;
    size_t n_places = 0;
    int rc = tracin_places_find(call->ask, &call->data, call->app, &places, &n_places, err);
    if (rc)
        return rc;
    cleanup_free bool *lonely = xcalloc(n_places, sizeof(*lonely));
    tracin_job_init(&job, call->app, &call->data, &call->models, places, n_places);
    job.scene.top_k = (size_t)ask->top_k;
    if (tracin_is_batch(ask) || ask->filter.n_hops > 0)
        rc = tracin_job_filter(&job, &filter, lonely, err);
    if (rc == 0)
        rc = tracin_job_explain(&job, &text, err);
    if (rc == 0 && ask->gpus)
        rc = tracin_spread_explain(ask, &job, &text, err);
    if (rc == 0)
        rc = stdout_put(buf_str(&text), err);
    tracin_job_release(&job);
    return rc;
}

/* A batch that only writes the filtered training triples needs no model. */
static bool needs_models(const struct tracin_request *ask)
{
    return ask->is_dry || !(tracin_is_batch(ask) && ask->skip_tracin);
}

static int call_read(struct call *call, struct err *err)
{
    const struct tracin_request *ask = call->ask;
    int rc = kge_data_read(&call->data, &ask->files, call->app, err);
    if (rc == 0)
        rc = tracin_tests_take(&call->data, ask, call->app, err);
    if (rc == 0 && tracin_is_batch(ask))
        rc = kge_test_read(&call->data, ask->test_triples, ask->files.is_lenient, call->app, err);
    if (rc == 0 && needs_models(ask))
        rc = kge_models_open(&call->models, &ask->models, &call->data, call->app, err);
    call->models.opts.format = ask->precision;
    if (rc == 0 && needs_models(ask) && !ask->is_dry)
        rc = tracin_spread_open(&call->spread, ask, call->app, call->front_fd, err);
    return rc;
}

static int self_run(struct call *call, struct err *err)
{
    int rc = tracin_self_run(call->ask, &call->data, &call->models, call->spread, err);
    if (rc == 0)
        say(call->app, "%zu training triples on themselves: %s", call->data.train.n,
            call->ask->output);
    return rc;
}

static int call_run(struct call *call, struct err *err)
{
    const struct tracin_request *ask = call->ask;
    if (ask->is_dry)
        return dry_run(call, err);
    if (tracin_is_batch(ask))
        return tracin_batch_run(ask, call->app, &call->data, &call->models, call->spread, err);
    if (ask->mode == MODE_SELF)
        return self_run(call, err);
    return single_or_test(call, err);
}

/* A run on workers unloads the models of this process; they are then loaded again. */
static void rounding_report(struct call *call)
{
    const struct tracin_request *ask = call->ask;
    struct app quiet = *call->app; /* the models were described when they were first loaded */
    struct err err = {0};
    int rc = 0;
    quiet.quiet = true;
    if (ask->precision == NUM_FULL || ask->is_dry || !needs_models(ask))
        return;
    if (call->models.n == 0) {
        kge_models_close(&call->models);
        rc = kge_models_open(&call->models, &ask->models, &call->data, &quiet, &err);
        call->models.opts.format = ask->precision;
    }
    if (rc == 0)
        tracin_precision_report(ask, call->app, &call->data, &call->models);
    else
        say(call->app, "the error of --precision could not be measured: %s", err.text);
}

static int results_check(const struct tracin_request *ask, struct err *err)
{
    struct kge_files files = ask->files;
    if (tracin_triple_file(ask))
        files.test = tracin_triple_file(ask);
    const struct named_file outputs[] = {{ask->output, "-o", true},
                                         {ask->csv_output, "--csv-output", true}};
    int rc = named_files_check(outputs, countof(outputs), err);
    rc = rc ? rc : kge_output_check(ask->output, &files, &ask->models.paths, err);
    rc = rc ? rc : kge_output_check(ask->csv_output, &files, &ask->models.paths, err);
    return rc ? rc : tracin_form_check(ask, err);
}

/* What to do after a full disk. */
static const char *full_cure(const struct tracin_request *ask)
{
    if (ask->gpus)
        return ask->overwrite ? "the same command without --force goes on"
                              : "the same command goes on";
    if (!tracin_is_batch(ask))
        return ask->per_triple || ask->csv_output ? KGE_FULL_FORCE : KGE_FULL_AGAIN;
    return ask->overwrite       ? "the same command with --skip-existing instead of --force goes on"
           : ask->skip_existing ? "the same command goes on"
                                : "the same command with --skip-existing goes on";
}

static int tracin_run_verb(struct app *app, void *request, int argc, char **argv, char **command,
                           struct err *err)
{
    (void)command;
    struct tracin_request *ask = request;
    struct call call = {.ask = ask, .app = app, .front_fd = -1};
    struct output_claim claim = OUTPUT_CLAIM_INIT;
    app->quiet = ask->quiet;
    xalloc_cure("; fewer --threads and a smaller --memory take less");
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected operand '%s': files are named by options", argv[0]);
    int rc = tracin_request_check(ask, app, err);
    if (rc == 0)
        rc = tracin_precision_check(ask, err);
    if (rc == 0)
        rc = results_check(ask, err);
    if (rc == 0 && ask->gpus) /* before this process has threads and much memory */
        rc = front_begin(&call.front_fd, NULL, err);
    if (rc == 0)
        rc = call_read(&call, err);
    if (rc == 0 && ask->output &&
        !ask->is_dry) /* a result that another command computes is not computed twice */
        rc = output_claim_add(&claim, ask->output, err);
    if (rc == 0)
        rc = call_run(&call, err);
    if (rc == 0)
        rounding_report(&call);
    tracin_spread_close(call.spread);
    kge_models_close(&call.models);
    kge_data_release(&call.data);
    output_claim_release(&claim);
    return kge_full_say(rc, full_cure(ask), err);
}

#define FIELD(member) offsetof(struct tracin_request, member)

static const struct opt tracin_opts[] = {
    {OPT_HEADING, .help = "Data"},
    KGE_FILES_OPTS(struct tracin_request),
    KGE_LABELS_OPTS(struct tracin_request),
    {OPT_HEADING, .help = "What is asked"},
    {OPT_CHOICE, 0, "mode", "NAME",
     "test: every test triple (default); single: those of --test-indices; self: every training "
     "triple on itself",
     FIELD(mode), .choices = modes},
    {OPT_WORDS, 0, "test-indices", "N...",
     "places in --test, from 0, as words or with commas (default 0)", FIELD(test_indices)},
    {OPT_WORDS, 0, "test-triple", "H R T",
     "this test triple instead of --test: its names or their indices, or a FILE with one triple",
     FIELD(test_triple), .max = 3},
    {OPT_CHOICE, 0, "triples-order", "NAME",
     "order of --train and --test: file, as their lines come (default), or pykeen, sorted by index, "
     "each triple once, as PyKEEN counts them for --test-indices",
     FIELD(triples_order), .choices = triples_orders},
    {OPT_U64, 0, "max-test-triples", "N", "the first N test triples only", FIELD(max_test_triples),
     1},
    {OPT_U64, 0, "top-k", "N", "the N strongest of each test triple (default: all)", FIELD(top_k),
     1, UINT32_MAX},
    {OPT_CHOICE, 0, "order", "NAME",
     "strongest by magnitude (default), or by value: what helped first, what hurt last",
     FIELD(order), .choices = orders},
    {OPT_HEADING, .help = "Model"},
    KGE_MODELS_OPTS(struct tracin_request),
    {OPT_CHOICE, 0, "precision", "NAME",
     "number format of the factors in the largest products: fp32 (default), bf16 or fp16; sums stay "
     "float32, and the error is measured and printed",
     FIELD(precision), .choices = kge_precisions},
    {OPT_TEXT, 'g', "gpus", "SPEC",
     "compute on these devices, with one worker each, as muster map does: all, 0,2-3, any:4, cpu:N "
     "(default: in this process)",
     FIELD(gpus), .check = spec_check},
    {OPT_PATH, 0, "run-dir", "DIR",
     "with --gpus: folder for finished work until all results are in place (default: FILE.run beside "
     "--output)",
     FIELD(run_dir)},
    {OPT_HEADING, .help = "Results"},
    {OPT_PATH, 'o', "output", "FILE",
     "format by extension: .json as TiePin writes it, .jsonl and .csv with one line per influence, "
     ".npy the whole matrix",
     FIELD(output)},
    {OPT_PATH, 0, "csv-output", "FILE", "a CSV file with labels as well", FIELD(csv_output)},
    {OPT_FLAG, 0, "output-per-triple", NULL,
     "tracin_test_N.json for each test triple, in the folder of --output, whose own name is not used",
     FIELD(per_triple)},
    {OPT_FLAG, 0, "force", NULL, "replace existing results", FIELD(overwrite)},
    {OPT_FLAG, 0, "dry-run", NULL,
     "read everything, and print how it would be computed and in how much memory", FIELD(is_dry)},
    {OPT_FLAG, 'q', "quiet", NULL, "print only errors on stderr", FIELD(quiet)},
    {OPT_HEADING, .help = "Batch: a filter and files for each test triple"},
    {OPT_PATH, 0, "test-triples", "FILE", "the test triples", FIELD(test_triples)},
    {OPT_PATH, 0, "output-dir", "DIR", "folder for the files and for batch_tracin_summary.json",
     FIELD(output_dir)},
    {OPT_U64, 0, "start-index", "N", "begin with test triple N, from 0", FIELD(start_index)},
    {OPT_U64, 0, "max-triples", "N", "number of test triples", FIELD(max_triples), 1},
    {OPT_FLAG, 0, "skip-existing", NULL, "keep results that are there and complete",
     FIELD(skip_existing)},
    {OPT_FLAG, 0, "skip-tracin", NULL, "only write the filtered training triples",
     FIELD(skip_tracin)},
    {OPT_FLAG, 0, "skip-filtering", NULL, "no effect: the filter is applied in memory",
     FIELD(skip_filtering)},
    {OPT_HEADING, .help = "Proximity filter"},
    KGE_FILTER_OPTS(struct tracin_request),
    {OPT_HEADING, .help = "Accepted for TiePin's sake, without effect"},
    {OPT_U64, 0, "batch-size", "N", "no effect: tiles are as large as --memory allows",
     FIELD(no_effect.batch_size)},
    {OPT_U64, 0, "embedding-dim", "N", "no effect: read from the checkpoint",
     FIELD(no_effect.embedding_dim)},
    {OPT_U64, 0, "output-channels", "N", "no effect: read from the checkpoint",
     FIELD(no_effect.output_channels)},
    {OPT_FLAG, 0, "use-optimized-tracin", NULL, "no effect: there is one way to compute",
     FIELD(no_effect.optimized)},
    {OPT_FLAG, 0, "use-vectorized-gradients", NULL, "no effect: always done",
     FIELD(no_effect.vectorized)},
    {OPT_FLAG, 0, "disable-vectorized-gradients", NULL,
     "no effect: the triples of a tile are always computed together",
     FIELD(no_effect.no_vectorized)},
    {OPT_FLAG, 0, "cache-test-gradients", NULL, "no effect: always done", FIELD(no_effect.cached)},
    {OPT_FLAG, 0, "disable-test-gradient-caching", NULL,
     "no effect: test gradients are always computed once", FIELD(no_effect.no_cached)},
    {OPT_FLAG, 0, "no-cache-test-gradients", NULL,
     "no effect: test gradients are always computed once", FIELD(no_effect.cached_not)},
    {OPT_FLAG, 0, "use-torch-compile", NULL, "no effect: there is no torch",
     FIELD(no_effect.compiled)},
    {OPT_FLAG, 0, "use-gradient-checkpointing", NULL, "no effect: no gradient is kept",
     FIELD(no_effect.checkpointed)},
    {OPT_FLAG, 0, "disable-memory-cleanup", NULL, "no effect: memory is bounded by --memory",
     FIELD(no_effect.no_cleanup)},
    {OPT_FLAG, 0, "use-mixed-precision", NULL,
     "no effect: the precision is that of --dtype and --precision",
     FIELD(no_effect.mixed_precision)},
    {OPT_FLAG, 0, "enable-multi-gpu", NULL, "no effect: --gpus says on which devices",
     FIELD(no_effect.multi_gpu)},
    {.kind = OPT_END},
};

static const char *const tracin_examples[] = {
    "muster kge tracin --model-path best_model.pt --train train.txt --test test.txt --entity-to-id "
    "node_dict.txt --relation-to-id rel_dict.txt --top-k 10 -o influences.json",
    "the ten training triples behind each prediction",
    "muster kge tracin --model-path best_model.pt --train train.txt --test-triples top.txt "
    "--entity-to-id node_dict.txt --relation-to-id rel_dict.txt --output-dir results --skip-existing",
    "a batch, each test triple with the training triples within two hops",
    "muster kge tracin --gpus cpu:4 --model-path best_model.pt --train train.txt --test test.txt "
    "--entity-to-id node_dict.txt --relation-to-id rel_dict.txt --top-k 10 -o influences.json",
    "on four CPU slots; typed again after an interruption it goes on",
    NULL,
};

const struct cmd cmd_kge_tracin = {
    .name = "tracin",
    .family = "kge",
    .args =
        "[OPTION]... --model-path FILE --train FILE (--test FILE | --test-triple H R T) -o FILE",
    .summary = "which training triples moved the model on a test triple",
    .details =
        "The influence of a training triple on a test triple is the inner product of the gradients "
        "of the loss on both, times the learning rate: how far one step on the one would have "
        "lowered the loss on the other.",
    .opts = tracin_opts,
    .examples = tracin_examples,
    .request_size = sizeof(struct tracin_request),
    .defaults = tracin_defaults,
    .run = tracin_run_verb,
};
