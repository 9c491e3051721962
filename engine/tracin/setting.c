/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/setting.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/xalloc.h"

/* ---- weights on a device ---- */

static int array_move(const struct num_backend *be, const void *from, size_t bytes, void **to,
                      struct err *err)
{
    int rc = be->allocate(be, bytes, to, err);
    if (rc == 0)
        be->upload(be, *to, from, bytes);
    return rc;
}

/* Those of the host, gone to where the backend computes. */
static int weights_move(struct conve_weights *to, const struct conve_weights *from,
                        const struct num_backend *be, struct err *err)
{
    int rc = 0;
    size_t real = num_bytes(from->dtype);
    *to = (struct conve_weights){.shape = from->shape, .dtype = from->dtype};
    for (unsigned param = 0; rc == 0 && param < PARAM_N; param++) {
        size_t n = conve_param_dims(&from->shape, (enum conve_param)param).n_elements;
        if (from->at[param])
            rc = array_move(be, from->at[param], n * real, &to->owned[param], err);
        to->at[param] = to->owned[param];
    }
    for (unsigned norm = 0; rc == 0 && norm < NORM_N; norm++) {
        size_t n = conve_norm_params(&from->shape, (enum conve_norm)norm).channels;
        rc = array_move(be, from->inv_std[norm], n * real, &to->inv_std[norm], err);
    }
    return rc;
}

static void weights_release(struct conve_weights *weights, const struct num_backend *be)
{
    for (unsigned param = 0; param < PARAM_N; param++)
        be->release(be, weights->owned[param]);
    for (unsigned norm = 0; norm < NORM_N; norm++)
        be->release(be, weights->inv_std[norm]);
}

static int weights_open(struct setting *setting, struct err *err)
{
    int rc = 0;
    setting->weights = xcalloc(setting->n_checkpoints, sizeof(*setting->weights));
    for (size_t c = 0; rc == 0 && c < setting->n_checkpoints; c++) {
        const struct conve *model = setting->checkpoints[c].model;
        struct conve_weights host;
        if (!setting->be->is_device) {
            conve_weights_init(&setting->weights[c], model, setting->plan.dtype);
            continue;
        }
        conve_weights_init(&host, model, setting->plan.dtype);
        rc = weights_move(&setting->weights[c], &host, setting->be, err);
        if (rc != 0)
            rc = wrap(err, rc, "the weights of %s", model->path);
        conve_weights_release(&host);
    }
    return rc;
}

/* ---- the whole ---- */

int setting_open(struct setting *setting, const struct tracin_checkpoint *checkpoints,
                 size_t n_checkpoints, const struct tracin_opts *opts, size_t n_tests,
                 size_t n_train, struct err *err)
{
    int rc = 0;
    *setting = (struct setting){
        .be = opts->backend, .checkpoints = checkpoints, .n_checkpoints = n_checkpoints};
    factor_plan_init(&setting->plan, &checkpoints[0].model->shape, opts);
    if (!setting->be) {
        rc = num_open(&setting->own, NULL, err);
        setting->be = &setting->own;
    }
    if (rc != 0)
        return rc;
    setting->ask =
        (struct cut_ask){&setting->plan, opts, setting->be, n_checkpoints, n_tests, n_train, 0};
    rc = weights_open(setting, err);
    if (rc == 0)
        rc = cut_choose(&setting->ask, &setting->cut, err);
    if (rc != 0)
        setting_close(setting);
    else
        setting->crew = crew_open(setting->cut.n_threads);
    return rc;
}

void setting_close(struct setting *setting)
{
    if (setting->crew)
        crew_close(setting->crew);
    for (size_t c = 0; c < setting->n_checkpoints; c++)
        if (setting->be->is_device)
            weights_release(&setting->weights[c], setting->be);
        else
            conve_weights_release(&setting->weights[c]);
    free(setting->weights);
    num_close(&setting->own);
}

static void shrinking_say(const struct setting *setting, const struct err *why)
{
    const struct tracin_opts *opts = setting->ask.opts;
    char text[sizeof(why->text) + 128];
    snprintf(text, sizeof(text),
             "%s: going on with tiles of %zu training triples, %zu test triples at once", why->text,
             setting->cut.train_tile, setting->cut.tests_at_once);
    if (opts->note)
        opts->note(opts->note_context, text);
}

int setting_make_room(struct setting *setting, const struct room_maker *maker, struct err *err)
{
    struct err why = {0};
    int rc = maker->make(maker->context, &why);
    while (rc == ERR_UNAVAILABLE) {
        maker->release(maker->context);
        setting->ask.memory_bytes = setting->cut.bytes / 2;
        rc = cut_choose(&setting->ask, &setting->cut, NULL);
        if (rc != 0)
            return fail(err, ERR_UNAVAILABLE,
                        "%s, with tiles as small as they get: stop what else uses it, or compute "
                        "with --backend blas",
                        why.text);
        shrinking_say(setting, &why);
        crew_close(setting->crew);
        setting->crew = crew_open(setting->cut.n_threads);
        rc = maker->make(maker->context, &why);
    }
    if (rc != 0)
        maker->release(maker->context);
    return rc == 0 ? 0 : fail(err, rc, "%s", why.text);
}
