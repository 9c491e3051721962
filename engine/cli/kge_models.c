/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kge_models.h"

#include <math.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "num/thread_pool.h"

enum {
    LAST_DEFAULT = 2
};
static const double learning_rate_default = 1e-3;

void kge_threads_say(const struct app *app, uint64_t n_asked, unsigned n)
{
    uint64_t wanted = n_asked > 0 ? n_asked : thread_pool_processors();
    if (n < wanted)
        say(app, "%u thread%s instead of %lu: there is no room for more (ulimit -v, ulimit -u)", n,
            plural(n), (unsigned long)wanted);
}

void kge_model_say(const struct app *app, const struct conve *model)
{
    if (model->shape.lacks_norms)
        say(app, "%s has no batch norm, and is computed without", model->path);
}

const struct choice kge_layouts[] = {{"width", LAYOUT_WIDTH}, {"height", LAYOUT_HEIGHT}, {0}};
const struct choice kge_losses[] = {
    {"positive", TRACIN_POSITIVE}, {"one-vs-all", TRACIN_ONE_VS_ALL}, {0}};
const struct choice kge_dtypes[] = {{"float32", NUM_F32}, {"float64", NUM_F64}, {0}};
const struct choice kge_precisions[] = {
    {"fp32", NUM_FULL}, {"bf16", NUM_BF16}, {"fp16", NUM_FP16}, {0}};

static void learning_rate_add(struct kge_models *models, double rate)
{
    models->learning_rates = xrealloc(models->learning_rates, (models->n_learning_rates + 1) *
                                                                  sizeof(*models->learning_rates));
    models->learning_rates[models->n_learning_rates++] = rate;
}

static int learning_rates_parse(struct kge_models *models, const char *text, struct err *err)
{
    struct str rest = str_of(text), piece;
    while (str_next(&rest, ',', &piece)) {
        double rate = 0;
        int rc = double_parse(str_trim(piece), &rate, err);
        if (rc)
            return wrap(err, rc, "--learning-rate");
        if (!(rate > 0) || !isfinite(rate))
            return fail(err, ERR_USAGE, "--learning-rate: expected a number above 0, found '%.*s'",
                        (int)piece.len, piece.at);
        learning_rate_add(models, rate);
    }
    return 0;
}

static void learning_rates_say(const struct kge_models *models, const struct app *app)
{
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < models->n_learning_rates; i++)
        buf_addf(&text, "%s%.6g", i ? ", " : "", models->learning_rates[i]);
    say(app, "learning rate%s %s, as the checkpoint%s say%s; --learning-rate says otherwise",
        plural(models->n_learning_rates), buf_text(&text), plural(models->n),
        models->n == 1 ? "s" : "");
}

/*
 * Takes the learning rates from the checkpoints, because the user gave none. There is one rate if
 * all checkpoints have the same, and the default if none has any.
 */
static int learning_rates_find(struct kge_models *models, const struct app *app, struct err *err)
{
    const struct conve *first = models->at[0];
    bool is_one = true;
    for (size_t i = 1; i < models->n; i++) {
        const struct conve *model = models->at[i];
        is_one &= model->learning_rate == first->learning_rate;
        if ((model->learning_rate > 0) != (first->learning_rate > 0))
            return fail(err, ERR_USAGE,
                        "%s says what its learning rate was, and %s does not: name all of them by "
                        "--learning-rate X,X...",
                        model->learning_rate > 0 ? model->path : first->path,
                        model->learning_rate > 0 ? first->path : model->path);
    }
    for (size_t i = 0; i < (is_one ? 1 : models->n); i++)
        learning_rate_add(models, first->learning_rate > 0 ? models->at[i]->learning_rate
                                                           : learning_rate_default);
    if (first->learning_rate > 0)
        learning_rates_say(models, app);
    return 0;
}

/*
 * --backend names a backend, which must be available. --device cuda is only a preference, as in
 * TiePin's programs: without a GPU the processors compute.
 */
static int backend_open(struct kge_models *models, const struct kge_models_ask *ask,
                        const struct app *app, struct err *err)
{
    struct err why = {0};
    bool wants_gpu = ask->device && strncmp(ask->device, "cuda", 4) == 0;
    if (ask->device && !wants_gpu && strcmp(ask->device, "cpu") != 0)
        return fail(err, ERR_USAGE, "--device: expected cpu or cuda, found '%s'", ask->device);
    if (!ask->backend && !wants_gpu)
        return 0;
    int rc = num_open_any(&models->backend, ask->backend ? ask->backend : "cuda", &why);
    if (rc != 0 && ask->backend)
        return fail(err, rc, "%s", why.text);
    if (rc != 0)
        say(app, "--device %s: the processors compute, and the results are the same: %s",
            ask->device, why.text);
    models->has_backend = rc == 0;
    models->opts.backend = rc == 0 ? &models->backend : NULL;
    return 0;
}

static void note_say(void *context, const char *text)
{
    say(context, "%s", text);
}

/*
 * Names may be given together with TiePin's flag --use-last-layers-only, which requires them there.
 * --num-last-layers belongs to that flag; --last-layers is used without it.
 */
static int params_check(const struct kge_models_ask *ask, const struct app *app, struct err *err)
{
    bool are_named = ask->layers || ask->layer_names.len > 0;
    if (ask->layers && ask->layer_names.len > 0)
        return fail(err, ERR_USAGE, "--layers and --last-layer-names are the same: leave one out");
    if (ask->last_layers > 0 && (are_named || ask->last_only))
        return fail(err, ERR_USAGE, "--last-layers chooses the layers, as %s does: leave one out",
                    ask->layers ? "--layers"
                    : are_named ? "--last-layer-names"
                                : "--use-last-layers-only");
    if (ask->n_last > 0 && (are_named || !ask->last_only))
        say(app, "--num-last-layers has no effect: %s",
            are_named ? "the layers are named" : "it goes with --use-last-layers-only");
    return 0;
}

static int layer_names_parse(const struct texts *names, const struct conve_shape *shape,
                             conve_params *out, struct err *err)
{
    cleanup_buf struct buf list = BUF_INIT;
    for (size_t i = 0; i < names->len; i++)
        buf_addf(&list, "%s%s", i ? "," : "", names->at[i]);
    return conve_params_parse(shape, buf_str(&list), out, err);
}

static int params_find(struct kge_models *models, const struct kge_models_ask *ask, struct err *err)
{
    const struct conve_shape *shape = &models->at[0]->shape;
    conve_params *params = &models->opts.params;
    size_t n_last = ask->n_last > 0 ? (size_t)ask->n_last : LAST_DEFAULT;
    const char *option = NULL;
    int rc = 0;
    *params = 0;
    if (ask->layers) {
        option = "--layers";
        rc = conve_params_parse(shape, str_of(ask->layers), params, err);
    } else if (ask->layer_names.len > 0) {
        option = "--last-layer-names";
        rc = layer_names_parse(&ask->layer_names, shape, params, err);
    } else if (ask->last_layers > 0) {
        option = "--last-layers";
        rc = conve_params_last(shape, (size_t)ask->last_layers, params, err);
    } else if (ask->last_only) {
        *params = conve_params_last_listed(shape, models->at[0]->naming, n_last);
    }
    return rc ? wrap(err, rc, "%s", option) : 0;
}

void kge_params_format(const struct kge_models *models, struct buf *out)
{
    const struct conve *model = models->at[0];
    conve_params all = conve_params_all(&model->shape),
                 taken = models->opts.params ? models->opts.params : all;
    if (taken == all) {
        buf_addf(out, "gradients of all %d parameters", __builtin_popcount(all));
        return;
    }
    buf_addf(out, "gradients of %d of the %d parameters: ", __builtin_popcount(taken),
             __builtin_popcount(all));
    conve_params_format(&model->shape, taken, model->naming, out);
}

static void params_say(const struct kge_models *models, const struct app *app)
{
    cleanup_buf struct buf text = BUF_INIT;
    kge_params_format(models, &text);
    say(app, "%s", buf_text(&text));
}

static int opts_fill(struct kge_models *models, const struct kge_models_ask *ask,
                     const struct app *app, struct err *err)
{
    int rc = 0;
    models->opts.loss = ask->loss;
    models->opts.dtype = ask->dtype;
    models->opts.n_threads = (unsigned)ask->n_threads;
    models->opts.memory_bytes = ask->memory_bytes;
    if (ask->label_smoothing) {
        double *smoothing = &models->opts.label_smoothing;
        rc = double_parse(str_of(ask->label_smoothing), smoothing, err);
        if (rc)
            return wrap(err, rc, "--label-smoothing");
        if (ask->loss != TRACIN_ONE_VS_ALL)
            return fail(err, ERR_USAGE, "--label-smoothing goes with --loss one-vs-all");
        if (!(*smoothing >= 0) || !(*smoothing < 1))
            return fail(err, ERR_USAGE, "--label-smoothing: expected 0 or more, and less than 1");
    }
    models->opts.note = note_say;
    models->opts.note_context = (void *)(uintptr_t)app;
    rc = backend_open(models, ask, app, err);
    return rc ? rc : params_find(models, ask, err);
}

static int checkpoints_load(struct kge_models *models, const struct kge_models_ask *ask,
                            const struct kge_data *data, const struct app *app, struct err *err)
{
    const struct conve_load_opts opts = {.height = (size_t)ask->embedding_height,
                                         .width = (size_t)ask->embedding_width,
                                         .layout = ask->layout};
    models->at = xcalloc(ask->paths.len, sizeof(*models->at));
    models->checkpoints = xcalloc(ask->paths.len, sizeof(*models->checkpoints));
    for (size_t i = 0; i < ask->paths.len; i++) {
        int rc = conve_load(&models->at[i], ask->paths.at[i], &opts, err);
        if (rc)
            return rc;
        models->n++;
        kge_model_say(app, models->at[i]);
        if (data)
            rc = conve_check_dictionaries(models->at[i], data->entities.len, data->relations.len,
                                          err);
        if (rc)
            return rc;
    }
    return 0;
}

static void checkpoints_fill(struct kge_models *models)
{
    for (size_t i = 0; i < models->n; i++)
        models->checkpoints[i] = (struct tracin_checkpoint){
            .model = models->at[i],
            .learning_rate = models->learning_rates[models->n_learning_rates > 1 ? i : 0],
        };
}

int kge_models_open(struct kge_models *models, const struct kge_models_ask *ask,
                    const struct kge_data *data, const struct app *app, struct err *err)
{
    *models = (struct kge_models){0};
    if (ask->paths.len == 0)
        return fail(err, ERR_USAGE, "--model-path is needed: the checkpoint");
    int rc = params_check(ask, app, err);
    if (rc == 0 && ask->learning_rates)
        rc = learning_rates_parse(models, ask->learning_rates, err);
    if (rc == 0 && models->n_learning_rates > 1 && models->n_learning_rates != ask->paths.len)
        return fail(err, ERR_USAGE, "--learning-rate: %zu rates for %zu checkpoint%s",
                    models->n_learning_rates, ask->paths.len, plural(ask->paths.len));
    if (rc == 0)
        rc = checkpoints_load(models, ask, data, app, err);
    if (rc == 0 && models->n_learning_rates == 0)
        rc = learning_rates_find(models, app, err);
    if (rc != 0)
        return rc;
    checkpoints_fill(models);
    rc = opts_fill(models, ask, app, err);
    if (rc == 0)
        params_say(models, app);
    return rc;
}

void kge_models_unload(struct kge_models *models)
{
    for (size_t i = 0; i < models->n; i++)
        conve_free(models->at[i]);
    free(steal_ptr(&models->at));
    free(steal_ptr(&models->checkpoints));
    models->n = 0;
}

void kge_models_close(struct kge_models *models)
{
    kge_models_unload(models);
    free(models->learning_rates);
    if (models->has_backend)
        num_close(&models->backend);
    *models = (struct kge_models){0};
}
