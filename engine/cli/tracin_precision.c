/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracin_precision.h"

#include "base/xalloc.h"
#include "tracin/rounding.h"

int tracin_precision_check(const struct tracin_request *ask, struct err *err)
{
    if (ask->precision == NUM_FULL)
        return 0;
    if (ask->models.dtype == NUM_F64)
        return fail(err, ERR_USAGE, "--precision rounds float32: leave --dtype float64 out");
    if (!tracin_is_batch(ask) && ask->mode == MODE_SELF)
        return fail(err, ERR_USAGE,
                    "--precision is about products of two triples: leave it out with --mode self");
    return 0;
}

void tracin_precision_report(const struct tracin_request *ask, const struct app *app,
                             const struct kge_data *data, const struct kge_models *models)
{
    struct rounding_error error;
    struct err err = {0};
    struct tracin_opts opts = models->opts;
    struct tracin_test *tests = xcalloc(data->test.n, sizeof(*tests));
    const char *name = choice_word(kge_precisions, (int)ask->precision);
    for (size_t i = 0; i < data->test.n; i++)
        tests[i].triple = data->test.at[i];
    opts.order = ask->order;
    if (rounding_measure(models->checkpoints, models->n, &opts, data->train.at, data->train.n,
                         tests, data->test.n, &error, &err) != 0)
        say(app, "--precision %s: its error could not be measured: %s", name, err.text);
    else
        say(app,
            "--precision %s: on a sample of %zu test x %zu training triples the relative error is "
            "%.1e in the median and %.1e at most, and of the %zu strongest influences %zu are the "
            "same",
            name, error.n_tests, error.n_train, error.median_relative, error.max_relative,
            error.n_strongest, error.n_kept);
    free(tests);
}
