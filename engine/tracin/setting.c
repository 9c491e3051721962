/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/setting.h"

#include <stdlib.h>

#include "base/xalloc.h"

int setting_open(struct setting *setting, const struct tracin_checkpoint *checkpoints,
                 size_t n_checkpoints, const struct tracin_opts *opts, size_t n_tests,
                 size_t n_train, struct err *err)
{
    *setting = (struct setting){
        .be = opts->backend, .checkpoints = checkpoints, .n_checkpoints = n_checkpoints};
    factor_plan_init(&setting->plan, &checkpoints[0].model->shape, opts);
    int rc = cut_choose(&setting->plan, opts, n_checkpoints, n_tests, n_train, &setting->cut, err);
    if (rc == 0 && !setting->be) {
        rc = num_open(&setting->own, NULL, err);
        setting->be = &setting->own;
    }
    if (rc != 0)
        return rc;
    setting->weights = xcalloc(n_checkpoints, sizeof(*setting->weights));
    for (size_t c = 0; c < n_checkpoints; c++)
        conve_weights_init(&setting->weights[c], checkpoints[c].model, setting->plan.dtype);
    setting->crew = crew_open(setting->cut.n_threads);
    return 0;
}

void setting_close(struct setting *setting)
{
    crew_close(setting->crew);
    for (size_t c = 0; c < setting->n_checkpoints; c++)
        conve_weights_release(&setting->weights[c]);
    free(setting->weights);
    num_close(&setting->own);
}
