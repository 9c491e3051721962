/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "fit/fit_impl.h"
#include "map/template.h"

/* ---- what it is given ---- */

static void values_make(const struct fitting *f, const char *batch, const char *gpu,
                        struct template_values *out)
{
    *out = (struct template_values){0};
    out->of[PLACE_BATCH] = str_of(batch);
    out->of[PLACE_GPU] = str_of(gpu);
    out->of[PLACE_GPU_UUID] = str_of(f->device.device->uuid);
}

void trial_words(const struct fitting *f, uint64_t batch, struct env_list *out)
{
    struct template_values values;
    char number[24], gpu[16];
    struct env_list words = {0};
    snprintf(number, sizeof(number), "%lu", batch);
    snprintf(gpu, sizeof(gpu), "%d", f->device.device->index);
    values_make(f, number, gpu, &values);
    for (const char *const *word = f->request->command; *word; word++) {
        struct buf filled = BUF_INIT;
        template_fill(str_of(*word), &values, &filled);
        env_list_add(&words, buf_steal(&filled));
    }
    env_end(&words);
    environment_command(&f->request->environment, (const char *const *)words.at, out);
    env_list_release(&words);
}

static void environment_make(const struct fitting *f, uint64_t batch, struct env_list *env)
{
    worker_environment_begin(&f->session.allocation, 0, &f->request->environment, env);
    env_set(env, xasprintf("MUSTER_BATCH=%lu", batch));
    env_end(env);
}

/* ---- how it ended ---- */

static double printed_rate(const struct fitting *f)
{
    return f->session.run.matches[0].number;
}

static enum fit_outcome outcome_of(const struct fitting *f, const struct trial_end *end)
{
    if (end->death == DEATH_OOM || end->death == DEATH_HOST_OOM)
        return FIT_OOM;
    /* A command that never ends is measured by the rate that it prints. */
    if (end->was_late)
        return printed_rate(f) > 0 ? FIT_OK : FIT_TIMEOUT;
    return end->death == DEATH_CLEAN ? FIT_OK : FIT_FAILED;
}

static double rate_of(const struct fitting *f, uint64_t took_us)
{
    const struct fit_request *request = f->request;
    double seconds = (double)MAX(took_us, (uint64_t)1000) / 1e6;
    if (request->rate_pattern)
        return printed_rate(f);
    if (request->n_items > 0)
        return (double)request->n_items / seconds;
    return (double)request->n_steps * (double)f->batch / seconds;
}

static void end_describe(const struct fitting *f, const struct trial_end *end,
                         enum fit_outcome outcome, struct trial_row *row)
{
    char limit[24];
    duration_format(limit, f->request->trial_limit_ms);
    if (outcome == FIT_TIMEOUT)
        snprintf(row->end, sizeof(row->end), "not done after %s", limit);
    else if (outcome == FIT_OOM)
        snprintf(row->end, sizeof(row->end), "%s", death_text(end->death));
    else if (outcome == FIT_FAILED)
        trial_end_format(&f->session.run, end, row->end, sizeof(row->end));
}

static void unusable_say(struct fitting *f, const struct trial_row *row,
                         const struct trial_end *end)
{
    struct err err = {0};
    if (end->death == DEATH_NOT_STARTED)
        fail(&err, ERR_UNAVAILABLE, "the command could not be executed: %s",
             errno_text(end->exit->exec_errno));
    else if (end->death == DEATH_DEVICE_LOST)
        fail(&err, ERR_UNAVAILABLE, "the device was lost at batch %lu", row->trial.batch);
    else if (f->pattern.is_set && row->trial.outcome == FIT_OK && printed_rate(f) <= 0)
        fail(&err, ERR_FAILED, "nothing that the command printed matches --rate-pattern '%s'",
             f->request->rate_pattern);
    else if (f->n_rows == 1 && row->trial.outcome == FIT_FAILED)
        fail(&err, ERR_FAILED,
             "the command fails at batch %lu, the first size (%s); give another --start, or mend "
             "the command",
             row->trial.batch, row->end);
    else if (f->n_rows == 1 && row->trial.outcome == FIT_TIMEOUT)
        fail(&err, ERR_FAILED,
             "the command is %s at batch %lu, the first size; give a longer --trial-limit, fewer "
             "steps, or a --rate-pattern for a command that does not end",
             row->end, row->trial.batch);
    if (err.code == 0)
        return;
    if (end->death != DEATH_NOT_STARTED)
        trial_last_lines_say(&f->session.run);
    shell_abort(f->session.shell, &err);
}

void fit_tried(void *context, const struct trial_end *end)
{
    struct fitting *f = context;
    enum fit_outcome outcome = outcome_of(f, end);
    bool is_good = outcome == FIT_OK; /* a failed run has not done the counted work */
    struct trial_row row = {.trial = {.batch = f->batch,
                                      .outcome = outcome,
                                      .peak_bytes = end->peak_bytes,
                                      .rate = is_good ? rate_of(f, end->took_us) : 0},
                            .took_ms = end->took_us / 1000};
    if (shell_is_to_end(f->session.shell))
        return;
    end_describe(f, end, outcome, &row);
    f->rows = xrealloc(f->rows, (f->n_rows + 1) * sizeof(*f->rows));
    f->rows[f->n_rows++] = row;
    row_say(f, &row);
    unusable_say(f, &row, end);
    fit_took(&f->fit, &row.trial);
}

/* ---- the process ---- */

int fit_try(struct fitting *f, uint64_t batch, struct err *err)
{
    struct env_list env = {0}, words = {0};
    f->batch = batch;
    environment_make(f, batch, &env);
    trial_words(f, batch, &words);
    int rc = trial_start(&f->session.run,
                         &(struct trial_request){.argv = (const char *const *)words.at,
                                                 .envp = (const char *const *)env.at,
                                                 .n_seats = 1,
                                                 .stdin_path = f->request->stdin_path,
                                                 .grace_ms = f->request->grace_ms,
                                                 .limit_ms = f->request->trial_limit_ms,
                                                 .patterns = {&f->pattern}},
                         err);
    env_list_release(&env);
    env_list_release(&words);
    return rc;
}
