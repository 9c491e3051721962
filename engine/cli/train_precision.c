/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_precision.h"

#include "cli/kge_models.h"

#include "train/rounding.h"

void train_precision_report(struct trainer *trainer, const struct app *app)
{
    struct train_rounding error;
    struct err err = {0};
    const char *name = choice_word(kge_precisions, (int)trainer->opts.mode.format);
    if (trainer->opts.mode.format == NUM_FULL)
        return;
    if (train_rounding_measure(trainer, &error, &err) != 0)
        say(app, "--precision %s: its error could not be measured: %s", name, err.text);
    else
        say(app,
            "--precision %s: what fc and the scores of all entities multiply is rounded, forward "
            "and back; sums, weights and all else stay float32; of the next batch the gradients "
            "are off by %.1e of their length, the loss by %.1e",
            name, error.gradients, error.loss);
    if (!trainer->be->is_device)
        say(app, "--precision %s: backend %s only emulates it, and is slower than with fp32", name,
            trainer->be->name);
}
