/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracin_request.h"

#include <strings.h>

#include "base/fs.h"
#include "base/outfile.h"
#include "cli/no_effect.h"

#define NO_EFFECT(member) offsetof(struct no_effect_ask, member)

/* Options of TiePin that ask for something that is always so here, or that does not exist here. */
static const struct no_effect no_effects[] = {
    {"batch-size", "tiles are as large as --memory allows", NO_EFFECT(batch_size), true},
    {"embedding-dim", "the checkpoint has it", NO_EFFECT(embedding_dim), true},
    {"output-channels", "the checkpoint has them", NO_EFFECT(output_channels), true},
    {"use-optimized-tracin", "there is one way to compute", NO_EFFECT(optimized), false},
    {"use-vectorized-gradients", "all triples of a tile are computed together",
     NO_EFFECT(vectorized), false},
    {"disable-vectorized-gradients", "all triples of a tile are computed together",
     NO_EFFECT(no_vectorized), false},
    {"cache-test-gradients", "the test side is computed once", NO_EFFECT(cached), false},
    {"disable-test-gradient-caching", "the test side is computed once", NO_EFFECT(no_cached),
     false},
    {"no-cache-test-gradients", "the test side is computed once", NO_EFFECT(cached_not), false},
    {"use-torch-compile", "there is no torch", NO_EFFECT(compiled), false},
    {"use-gradient-checkpointing", "no gradient is kept", NO_EFFECT(checkpointed), false},
    {"disable-memory-cleanup", "memory is bounded by --memory", NO_EFFECT(no_cleanup), false},
    {"use-mixed-precision", "the precision is that of --dtype and --precision",
     NO_EFFECT(mixed_precision), false},
    {"enable-multi-gpu", "--gpus says on which devices", NO_EFFECT(multi_gpu), false},
};

enum result_form tracin_result_form(const char *path)
{
    static const struct {
        const char *extension;
        enum result_form form;
    } rows[] = {{".json", RESULT_JSON},
                {".jsonl", RESULT_LINES},
                {".ndjson", RESULT_LINES},
                {".csv", RESULT_CSV},
                {".npy", RESULT_ARRAY}};
    for (size_t i = 0; i < countof(rows); i++)
        if (strcasecmp(path_extension(path), rows[i].extension) == 0)
            return rows[i].form;
    return output_is_direct(path) ? RESULT_JSON : RESULT_UNKNOWN;
}

/* A combination of options that is not allowed, and the message about it. */
struct rule {
    bool is_broken;
    const char *sentence;
};

static int rules_check(const struct rule *rules, size_t n_rules, struct err *err)
{
    for (size_t i = 0; i < n_rules; i++)
        if (rules[i].is_broken)
            return fail(err, ERR_USAGE, "%s", rules[i].sentence);
    return 0;
}

static int batch_check(const struct tracin_request *ask, struct err *err)
{
    const struct rule rules[] = {
        {!ask->test_triples, "--output-dir is for a batch: --test-triples FILE is needed"},
        {ask->run_dir && !ask->gpus, "--run-dir goes with --gpus"},
        {ask->max_test_triples > 0,
         "with --output-dir the number of test triples is --max-triples"},
        {ask->output || ask->csv_output || ask->per_triple,
         "with --output-dir each test triple has files of its own: leave --output, --csv-output and "
         "--output-per-triple out"},
        {ask->files.test || ask->test_indices.len > 0 || ask->test_triple.len > 0 ||
             ask->mode != MODE_TEST,
         "with --output-dir the test triples are those of --test-triples, from --start-index on: "
         "leave --test, --test-triple, --test-indices and --mode out"},
    };
    return rules_check(rules, countof(rules), err);
}

/* The first given option that is only for a batch; NULL: none. */
static const char *batch_option(const struct tracin_request *ask)
{
    return ask->test_triples    ? "--test-triples"
           : ask->skip_existing ? "--skip-existing"
           : ask->skip_tracin   ? "--skip-tracin"
           : ask->start_index   ? "--start-index"
           : ask->max_triples   ? "--max-triples"
                                : NULL;
}

static int outputs_check(const struct tracin_request *ask, struct err *err)
{
    bool is_self = ask->mode == MODE_SELF, has_triple = ask->test_triple.len > 0;
    enum result_form form = ask->output ? tracin_result_form(ask->output) : RESULT_UNKNOWN;
    const struct rule rules[] = {
        {!ask->output, "--output is needed: the file for the results"},
        {ask->run_dir && !ask->gpus, "--run-dir goes with --gpus"},
        {!is_self && !ask->files.test && !has_triple,
         "--test FILE or --test-triple H R T is needed"},
        {ask->per_triple && ask->mode != MODE_TEST, "--output-per-triple goes with --mode test"},
        {ask->test_indices.len > 0 && ask->mode != MODE_SINGLE,
         "--test-indices goes with --mode single"},
        {ask->test_triple.len == 2,
         "--test-triple: expected head, relation and tail, or a file with one triple"},
        {has_triple && (ask->files.test || ask->test_indices.len > 0 || is_self),
         "--test-triple is the test triple: leave --test, --test-indices and --mode self out"},
        {is_self && ask->is_dry, "--dry-run is not for --mode self"},
        {is_self && form == RESULT_CSV,
         "--mode self has no CSV form: name a .json, .jsonl or .npy"},
        {is_self && (ask->csv_output || ask->top_k || ask->filter.n_hops),
         "--mode self scores every training triple: leave --csv-output, --top-k and --n-hops out"},
    };
    if (batch_option(ask))
        return fail(err, ERR_USAGE, "%s is for a batch: --output-dir DIR is needed",
                    batch_option(ask));
    if (ask->filter.n_hops == 0 && kge_filter_option(&ask->filter))
        return fail(err, ERR_USAGE, "%s is about the proximity filter: --n-hops N is needed",
                    kge_filter_option(&ask->filter));
    return rules_check(rules, countof(rules), err);
}

int tracin_form_check(const struct tracin_request *ask, struct err *err)
{
    if (!ask->output || ask->per_triple || tracin_result_form(ask->output) != RESULT_UNKNOWN)
        return 0;
    return fail(err, ERR_USAGE, "%s: expected a name that ends in .json, .jsonl%s or .npy",
                ask->output, ask->mode == MODE_SELF ? "" : ", .csv");
}

int tracin_request_check(const struct tracin_request *ask, const struct app *app, struct err *err)
{
    int rc = tracin_is_batch(ask) ? batch_check(ask, err) : outputs_check(ask, err);
    if (rc == 0)
        rc = kge_filter_check(&ask->filter, app, err);
    if (rc)
        return rc;
    no_effects_say(app, no_effects, countof(no_effects), &ask->no_effect);
    if (ask->skip_filtering)
        say(app, "--skip-filtering has no effect: the filter is applied in memory");
    return 0;
}

bool tracin_is_matrix(const struct tracin_request *ask)
{
    return ask->output && ask->mode != MODE_SELF && !ask->per_triple &&
           tracin_result_form(ask->output) == RESULT_ARRAY;
}
