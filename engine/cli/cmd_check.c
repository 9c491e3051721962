/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge check: compares the influences of tracin with those from whole gradients.
 */
#include <math.h>

#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/kge_full.h"
#include "cli/kge_models.h"
#include "cli/kge_verbs.h"
#include "cli/tracin_job.h"

enum {
    PAIRS_DEFAULT = 64
};

struct check_request {
    struct kge_files files;
    struct kge_models_ask models;
    uint64_t n_pairs, seed;
    const char *tolerance;
    bool json;
};

static void check_defaults(void *request)
{
    struct check_request *ask = request;
    ask->n_pairs = PAIRS_DEFAULT;
    ask->seed = 1;
    ask->tolerance = "1e-4";
}

static void result_add(struct buf *out, const struct check_request *ask,
                       const struct kge_data *data, const struct tracin_check *check,
                       double tolerance)
{
    if (ask->json) {
        struct json_out json = {.to = out};
        json_out_open(&json, '{');
        json_out_bool(&json, "ok", check->max_relative <= tolerance);
        json_out_u64(&json, "pairs", check->n_pairs);
        json_out_double(&json, "max_relative", check->max_relative);
        json_out_double(&json, "found", check->found);
        json_out_double(&json, "expected", check->expected);
        json_out_close(&json, '}');
        buf_add_char(out, '\n');
        return;
    }
    buf_addf(out, "%zu pairs, largest relative difference %.3g (of %g)\n  worst: train ",
             check->n_pairs, check->max_relative, tolerance);
    tracin_triple_format(data, check->train, out);
    buf_add_text(out, ", test ");
    tracin_triple_format(data, check->test, out);
    buf_addf(out, ": found %.9g, expected %.9g\n", check->found, check->expected);
}

static int check_compute(const struct check_request *ask, const struct app *app,
                         const struct kge_data *data, struct kge_models *models, struct err *err)
{
    const struct tracin_check_opts opts = {.n_pairs = (size_t)ask->n_pairs, .seed = ask->seed};
    const struct triples *tests = data->test.n > 0 ? &data->test : &data->train;
    struct tracin_check check;
    double tolerance;
    int rc = double_parse(str_of(ask->tolerance), &tolerance, err);
    if (rc || !(tolerance > 0))
        return rc ? wrap(err, rc, "--tolerance")
                  : fail(err, ERR_USAGE, "--tolerance: expected a number above 0");
    rc = kge_models_open(models, &ask->models, data, app, err);
    if (rc == 0)
        rc = tracin_check_run(models->checkpoints, models->n, &models->opts, &opts, data->train.at,
                              data->train.n, tests->at, tests->n, &check, err);
    if (rc)
        return rc;
    cleanup_buf struct buf text = BUF_INIT;
    result_add(&text, ask, data, &check, tolerance);
    rc = stdout_put(buf_str(&text), err);
    if (rc == 0 && !(check.max_relative <= tolerance))
        rc = fail(err, ERR_FAILED, "the largest relative difference is %.3g, above %g",
                  check.max_relative, tolerance);
    return rc;
}

static int check_run(struct app *app, void *request, int argc, char **argv, char **command,
                     struct err *err)
{
    (void)command;
    struct check_request *ask = request;
    struct kge_data data = {0};
    struct kge_models models = {0};
    xalloc_cure("; fewer --threads and a smaller --memory take less");
    if (argc > 0)
        return fail(err, ERR_USAGE, "unexpected operand '%s': files are named by options", argv[0]);
    int rc = kge_data_read(&data, &ask->files, app, err);
    if (rc == 0)
        rc = check_compute(ask, app, &data, &models, err);
    kge_models_close(&models);
    kge_data_release(&data);
    return kge_full_say(rc, KGE_FULL_AGAIN, err);
}

#define FIELD(member) offsetof(struct check_request, member)

static const struct opt check_opts[] = {
    {OPT_U64, 0, "pairs", "N", "number of pairs of a training and a test triple (default 64)",
     FIELD(n_pairs), 1, 1000000},
    {OPT_U64, 0, "seed", "N", "seed for choosing the pairs (default 1)", FIELD(seed)},
    {OPT_TEXT, 0, "tolerance", "X", "largest relative difference that passes (default 1e-4)",
     FIELD(tolerance)},
    {OPT_FLAG, 0, "json", NULL, "print the result as a JSON object", FIELD(json)},
    {OPT_HEADING, .help = "Data"},
    KGE_FILES_OPTS(struct check_request),
    {OPT_HEADING, .help = "Model"},
    KGE_MODELS_OPTS(struct check_request),
    {.kind = OPT_END},
};

static const char *const check_examples[] = {
    "muster kge check --model-path best_model.pt --train train.txt --entity-to-id node_dict.txt "
    "--relation-to-id rel_dict.txt",
    "64 random pairs, against gradients in float64",
    NULL,
};

const struct cmd cmd_kge_check = {
    .name = "check",
    .family = "kge",
    .args = "[OPTION]... --model-path FILE --train FILE",
    .summary = "compare influences with gradients written out in full",
    .details =
        "Influences are computed from a few small products instead of gradients. Here the gradient "
        "of every parameter is formed, in float64, for random pairs, and compared.",
    .opts = check_opts,
    .examples = check_examples,
    .request_size = sizeof(struct check_request),
    .defaults = check_defaults,
    .run = check_run,
};
