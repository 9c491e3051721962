/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/setting.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/parse.h"
#include "base/xalloc.h"

static int weights_open(struct setting *setting, struct err *err)
{
    int rc = 0;
    setting->weights = xcalloc(setting->n_checkpoints, sizeof(*setting->weights));
    for (size_t c = 0; rc == 0 && c < setting->n_checkpoints; c++)
        rc = conve_weights_open(&setting->weights[c], setting->checkpoints[c].model,
                                setting->plan.dtype, setting->be, err);
    return rc;
}

static void note(const struct setting *setting, const char *text)
{
    const struct tracin_opts *opts = setting->ask.opts;
    if (opts->note)
        opts->note(opts->note_context, text);
}

/* There may be room for fewer threads than the cut asks for; the tiles stay the same. */
static void pool_make(struct setting *setting)
{
    unsigned wanted = setting->cut.n_threads;
    setting->pool = thread_pool_open(wanted);
    setting->cut.n_threads = thread_pool_n_threads(setting->pool);
    if (setting->cut.n_threads == wanted)
        return;
    char text[128];
    snprintf(text, sizeof(text),
             "%u thread%s instead of %u: there is no room for more (ulimit -v, ulimit -u)",
             setting->cut.n_threads, plural(setting->cut.n_threads), wanted);
    note(setting, text);
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
        pool_make(setting);
    return rc;
}

void setting_close(struct setting *setting)
{
    if (setting->pool)
        thread_pool_close(setting->pool);
    for (size_t c = 0; c < setting->n_checkpoints; c++)
        conve_weights_close(&setting->weights[c], setting->be);
    free(setting->weights);
    num_close(&setting->own);
}

static void shrinking_say(const struct setting *setting, const struct err *why)
{
    char text[sizeof(why->text) + 128];
    snprintf(text, sizeof(text),
             "%s: going on with tiles of %zu training triples, %zu test triples at once", why->text,
             setting->cut.train_tile, setting->cut.tests_at_once);
    note(setting, text);
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
        thread_pool_close(setting->pool);
        pool_make(setting);
        rc = maker->make(maker->context, &why);
    }
    if (rc != 0)
        maker->release(maker->context);
    return rc == 0 ? 0 : fail(err, rc, "%s", why.text);
}
