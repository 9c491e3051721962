/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge tracin: which training triples moved the model on a test triple.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "cli/kge_verbs.h"
#include "cli/tracin_batch.h"
#include "cli/tracin_job.h"
#include "cli/tracin_precision.h"
#include "cli/tracin_request.h"
#include "cli/tracin_self.h"
#include "cli/word_arg.h"

static void tracin_defaults(void *request)
{
    struct tracin_request *ask = request;
    kge_filter_defaults(&ask->filter);
    kge_models_defaults(&ask->models);
}

static int mode_store(struct str text, void *field, struct err *err)
{
    static const struct word_arg words[] = {
        {"test", MODE_TEST}, {"self", MODE_SELF}, {"single", MODE_SINGLE}};
    int value = 0, rc = word_arg_parse(text, words, countof(words), &value, err);
    *(enum tracin_mode *)field = (enum tracin_mode)value;
    return rc;
}

static int order_store(struct str text, void *field, struct err *err)
{
    static const struct word_arg words[] = {{"magnitude", TRACIN_BY_MAGNITUDE},
                                            {"value", TRACIN_BY_VALUE}};
    int value = 0, rc = word_arg_parse(text, words, countof(words), &value, err);
    *(enum tracin_order *)field = (enum tracin_order)value;
    return rc;
}

/* ---- where the results go ---- */

static enum influence_form form_of(const struct tracin_request *ask, const char *path)
{
    const char *extension = path_extension(path);
    if (strcmp(extension, ".csv") == 0)
        return INFLUENCES_CSV;
    if (strcmp(extension, ".jsonl") == 0 || strcmp(extension, ".ndjson") == 0)
        return INFLUENCES_JSONL;
    return ask->mode == MODE_SINGLE ? INFLUENCES_SINGLE : INFLUENCES_TEST;
}

/* "x/out_test_3.csv" of x/out.csv. */
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

/* tracin_test_<i>.json beside --output, as TiePin has it, and CSV of the same numbers. */
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
    int rc = influence_matrix_open(&matrix, ask->output, ask->overwrite, job->n_tests,
                                   job->data->train.n, err);
    job->matrix = &matrix;
    if (rc == 0)
        rc = tracin_job_run(job, err);
    job->matrix = NULL;
    influence_matrix_close(&matrix);
    return rc;
}

/* ---- the run ---- */

static int places_find(const struct tracin_request *ask, const struct kge_data *data, int argc,
                       char **argv, size_t **places, size_t *n_places, struct err *err)
{
    if (ask->mode == MODE_SINGLE)
        return tracin_places_parse(ask, argc, argv, data->test.n, places, n_places, err);
    *n_places = data->test.n;
    if (ask->max_test_triples > 0)
        *n_places = MIN(*n_places, (size_t)ask->max_test_triples);
    *places = xcalloc(*n_places, sizeof(**places));
    for (size_t i = 0; i < *n_places; i++)
        (*places)[i] = i;
    return 0;
}

static int job_run(const struct tracin_request *ask, const struct app *app, struct tracin_job *job,
                   struct err *err)
{
    const struct proximity_opts filter = kge_filter_opts(&ask->filter);
    bool is_matrix = strcmp(path_extension(ask->output), ".npy") == 0 && !ask->per_triple;
    job->scene.top_k = (size_t)ask->top_k;
    job->order = ask->order;
    job->overwrite = ask->overwrite;
    int rc = ask->filter.n_hops > 0 ? tracin_job_filter(job, &filter, NULL, err) : 0;
    if (rc == 0 && is_matrix)
        return matrix_run(ask, job, err);
    if (rc == 0)
        rc = outputs_open(ask, job, err);
    if (rc == 0)
        rc = tracin_job_run(job, err);
    if (rc == 0)
        say(app, "%zu test triple%s, %zu training triples: %s", job->n_tests,
            job->n_tests == 1 ? "" : "s", job->data->train.n,
            ask->per_triple ? "tracin_test_*.json are in place" : ask->output);
    return rc;
}

static int single_or_test(const struct tracin_request *ask, const struct app *app,
                          const struct kge_data *data, struct kge_models *models, int argc,
                          char **argv, struct err *err)
{
    struct tracin_job job;
    cleanup_free size_t *places = NULL;
    size_t n_places = 0;
    int rc = places_find(ask, data, argc, argv, &places, &n_places, err);
    if (rc)
        return rc;
    tracin_job_init(&job, app, data, models, places, n_places);
    rc = job_run(ask, app, &job, err);
    tracin_job_release(&job);
    return rc;
}

/* All of --test, or what a batch would take. */
static int dry_run(const struct tracin_request *ask, const struct app *app,
                   const struct kge_data *data, struct kge_models *models, int argc, char **argv,
                   struct err *err)
{
    const struct proximity_opts filter = kge_filter_opts(&ask->filter);
    cleanup_buf struct buf text = BUF_INIT;
    cleanup_free size_t *places = NULL;
    struct tracin_job job;
    size_t n_places = 0;
    int rc = places_find(ask, data, argc, argv, &places, &n_places, err);
    if (rc)
        return rc;
    cleanup_free bool *lonely = xcalloc(n_places, sizeof(*lonely));
    tracin_job_init(&job, app, data, models, places, n_places);
    job.scene.top_k = (size_t)ask->top_k;
    if (tracin_is_batch(ask) || ask->filter.n_hops > 0)
        rc = tracin_job_filter(&job, &filter, lonely, err);
    if (rc == 0)
        rc = tracin_job_explain(&job, &text, err);
    if (rc == 0)
        rc = stdout_put(buf_str(&text), err);
    tracin_job_release(&job);
    return rc;
}

/* A batch whose filters alone are wanted needs no model. */
static bool needs_models(const struct tracin_request *ask)
{
    return ask->is_dry || !(tracin_is_batch(ask) && ask->skip_tracin);
}

static int tracin_run_verb(struct app *app, void *request, int argc, char **argv, char **command,
                           struct err *err)
{
    (void)command;
    struct tracin_request *ask = request;
    struct kge_data data = {0};
    struct kge_models models = {0};
    app->quiet = ask->quiet;
    if (argc > 0 && ask->mode != MODE_SINGLE)
        return fail(err, ERR_USAGE, "unexpected operand '%s': files are named by options", argv[0]);
    int rc = tracin_request_check(ask, app, err);
    if (rc == 0)
        rc = tracin_precision_check(ask, err);
    if (rc == 0)
        rc = kge_data_read(&data, &ask->files, app, err);
    if (rc == 0 && tracin_is_batch(ask))
        rc = kge_test_read(&data, ask->test_triples, ask->files.is_lenient, app, err);
    if (rc == 0 && needs_models(ask))
        rc = kge_models_open(&models, &ask->models, &data, app, err);
    models.opts.format = ask->precision;
    if (rc == 0 && ask->is_dry)
        rc = dry_run(ask, app, &data, &models, argc, argv, err);
    else if (rc == 0 && tracin_is_batch(ask))
        rc = tracin_batch_run(ask, app, &data, &models, err);
    else if (rc == 0 && ask->mode == MODE_SELF)
        rc = tracin_self_run(ask, &data, &models, err);
    else if (rc == 0)
        rc = single_or_test(ask, app, &data, &models, argc, argv, err);
    if (rc == 0 && ask->precision != NUM_FULL && !ask->is_dry && needs_models(ask))
        tracin_precision_report(ask, app, &data, &models);
    kge_models_close(&models);
    kge_data_release(&data);
    return rc;
}

#define FIELD(member) offsetof(struct tracin_request, member)

static const struct opt tracin_opts[] = {
    {OPT_HEADING, .help = "Data"},
    KGE_FILES_OPTS(struct tracin_request),
    KGE_LABELS_OPTS(struct tracin_request),
    {OPT_HEADING, .help = "What is asked"},
    {OPT_PARSE, 0, "mode", "NAME",
     "test: every test triple (default); single: those of --test-indices; self: every training "
     "triple on itself",
     FIELD(mode), .parse = mode_store},
    {OPT_TEXT, 0, "test-indices", "N...",
     "places in --test, from 0, apart or with commas (default 0)", FIELD(test_indices)},
    {OPT_U64, 0, "max-test-triples", "N", "the first N test triples only", FIELD(max_test_triples),
     1},
    {OPT_U64, 0, "top-k", "N", "the N strongest of each test triple (default: all)", FIELD(top_k),
     1, UINT32_MAX},
    {OPT_PARSE, 0, "order", "NAME",
     "strongest by magnitude (default), or by value: what helped first, what hurt last",
     FIELD(order), .parse = order_store},
    {OPT_HEADING, .help = "Model"},
    KGE_MODELS_OPTS(struct tracin_request),
    {OPT_PARSE, 0, "precision", "NAME",
     "fp32 (default), bf16 or fp16: what the largest products multiply; sums stay float32, and the "
     "error is measured and said",
     FIELD(precision), .parse = tracin_precision_store},
    {OPT_HEADING, .help = "Results"},
    {OPT_PATH, 'o', "output", "FILE",
     "by its extension: .json as TiePin writes it, .jsonl and .csv a line an influence, .npy the "
     "whole matrix",
     FIELD(output)},
    {OPT_PATH, 0, "csv-output", "FILE", "a CSV file with labels as well", FIELD(csv_output)},
    {OPT_FLAG, 0, "output-per-triple", NULL,
     "tracin_test_N.json for each test triple, in the folder of --output, whose own name is not used",
     FIELD(per_triple)},
    {OPT_FLAG, 0, "force", NULL, "replace results that are there", FIELD(overwrite)},
    {OPT_FLAG, 0, "dry-run", NULL,
     "read everything, and print how it would be computed and in how much memory", FIELD(is_dry)},
    {OPT_FLAG, 'q', "quiet", NULL, "no talk on stderr, only errors", FIELD(quiet)},
    {OPT_HEADING, .help = "Batch: a filter and files for each test triple"},
    {OPT_PATH, 0, "test-triples", "FILE", "the test triples", FIELD(test_triples)},
    {OPT_PATH, 0, "output-dir", "DIR", "for the files, and for batch_tracin_summary.json",
     FIELD(output_dir)},
    {OPT_U64, 0, "start-index", "N", "begin with test triple N, from 0", FIELD(start_index)},
    {OPT_U64, 0, "max-triples", "N", "so many test triples", FIELD(max_triples), 1},
    {OPT_FLAG, 0, "skip-existing", NULL, "leave alone what is there and whole",
     FIELD(skip_existing)},
    {OPT_FLAG, 0, "skip-tracin", NULL, "only write the filtered training triples",
     FIELD(skip_tracin)},
    {OPT_FLAG, 0, "skip-filtering", NULL, "no effect: the filter is applied in memory",
     FIELD(skip_filtering)},
    {OPT_HEADING, .help = "Proximity filter"},
    KGE_FILTER_OPTS(struct tracin_request),
    {OPT_HEADING, .help = "Accepted for TiePin's sake, without effect"},
    {OPT_U64, 0, "batch-size", "N", "tiles are as large as --memory allows",
     FIELD(no_effect.batch_size)},
    {OPT_U64, 0, "embedding-dim", "N", "the checkpoint has it", FIELD(no_effect.embedding_dim)},
    {OPT_U64, 0, "output-channels", "N", "the checkpoint has them",
     FIELD(no_effect.output_channels)},
    {OPT_FLAG, 0, "use-optimized-tracin", NULL, "there is one way to compute",
     FIELD(no_effect.optimized)},
    {OPT_FLAG, 0, "use-vectorized-gradients", NULL, "always", FIELD(no_effect.vectorized)},
    {OPT_FLAG, 0, "disable-vectorized-gradients", NULL, "always", FIELD(no_effect.no_vectorized)},
    {OPT_FLAG, 0, "cache-test-gradients", NULL, "always", FIELD(no_effect.cached)},
    {OPT_FLAG, 0, "disable-test-gradient-caching", NULL, "always", FIELD(no_effect.no_cached)},
    {OPT_FLAG, 0, "use-torch-compile", NULL, "there is no torch", FIELD(no_effect.compiled)},
    {OPT_FLAG, 0, "use-gradient-checkpointing", NULL, "no gradient is kept",
     FIELD(no_effect.checkpointed)},
    {OPT_FLAG, 0, "disable-memory-cleanup", NULL, "memory is bounded by --memory",
     FIELD(no_effect.no_cleanup)},
    {OPT_FLAG, 0, "use-mixed-precision", NULL, "the precision is that of --dtype and --precision",
     FIELD(no_effect.mixed_precision)},
    {OPT_FLAG, 0, "enable-multi-gpu", NULL, "the engine computes on processors so far",
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
    NULL,
};

const struct cmd cmd_kge_tracin = {
    .name = "tracin",
    .family = "kge",
    .args = "[OPTION]... --model-path FILE --train FILE --test FILE -o FILE",
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
