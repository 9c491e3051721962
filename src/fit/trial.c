/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "fit/fit_impl.h"
#include "map/template.h"

enum {
    LAST_LINES = 12 /* of a command that fails at the first size */
};

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
    env_inherit(env);
    seat_environment_add(&f->allocation, 0, env);
    env_set(env, xasprintf("MUSTER_BATCH=%lu", batch));
    if (!env_get(env, "PYTHONUNBUFFERED")) /* what a trial printed before it was ended is read */
        env_set(env, xstrdup("PYTHONUNBUFFERED=1"));
    environment_wish_apply(&f->request->environment, env);
    env_end(env);
}

/* ---- how it ended ---- */

/* If its guard was killed, the command was killed with it. */
static int signal_of(const struct worker_exit *exit)
{
    return exit->has_exited || exit->was_refused ? exit->exit_signal : SIGKILL;
}

static enum death death_of(const struct fitting *f, const struct worker_exit *exit)
{
    const struct oom_counts *kills = &exit->oom_kills;
    bool is_lost = device_watch_seat_has_lost(f->watch, 0);
    /*
     * It may have run out of memory in one of its threads and stood still: so what it printed
     * counts although we ended it.
     */
    return verdict_of(
        &(struct death_facts){.exit_code = exit->exit_code,
                              .exit_signal = signal_of(exit),
                              .exec_failed = exit->was_refused,
                              .device_lost = is_lost,
                              .oom_kills_near = kills->knows_own ? kills->own : kills->host,
                              .oom_kills_host = MAX(kills->host, kills->own),
                              .rss_peak_bytes = exit->rss_peak_bytes,
                              .memory_bytes = exit->memory_bytes,
                              .stderr_tail = output_tail(&f->trial.errors),
                              .stdout_tail = output_tail(&f->trial.out)});
}

static enum fit_outcome outcome_of(const struct trial_run *trial, enum death death)
{
    if (death == DEATH_OOM || death == DEATH_HOST_OOM)
        return FIT_OOM;
    /* A command that goes on for ever is measured by what it prints. */
    if (trial->is_late)
        return trial->printed_rate > 0 ? FIT_OK : FIT_TIMEOUT;
    return death == DEATH_CLEAN ? FIT_OK : FIT_FAILED;
}

static double rate_of(const struct fitting *f, uint64_t batch, uint64_t took_ms)
{
    const struct fit_request *request = f->request;
    double seconds = (double)MAX(took_ms, (uint64_t)1) / 1000;
    if (request->rate_pattern)
        return f->trial.printed_rate;
    if (request->n_items > 0)
        return (double)request->n_items / seconds;
    return (double)request->n_steps * (double)batch / seconds;
}

static uint64_t peak_of(const struct fitting *f, const struct worker_exit *exit)
{
    const struct trial_run *trial = &f->trial;
    if (!f->device.is_sampled)
        return exit->rss_peak_bytes;
    return trial->used_peak_bytes - MIN(trial->used_before_bytes, trial->used_peak_bytes);
}

static void end_describe(const struct fitting *f, const struct worker_exit *exit, enum death death,
                         enum fit_outcome outcome, struct trial_row *row)
{
    char end[24], limit[24];
    struct str last = output_last_line(&f->trial.errors);
    cleanup_buf struct buf shown = BUF_INIT;
    exit_format(end, exit->exit_code, signal_of(exit));
    duration_format(limit, f->request->trial_limit_ms);
    if (last.len == 0)
        last = output_last_line(&f->trial.out);
    console_visible_add(&shown, last);
    shown.len = console_text_cut(buf_str(&shown), 100);
    if (outcome == FIT_TIMEOUT)
        snprintf(row->end, sizeof(row->end), "not done after %s", limit);
    else if (outcome == FIT_OOM)
        snprintf(row->end, sizeof(row->end), "%s", death_text(death));
    else if (outcome == FIT_FAILED)
        snprintf(row->end, sizeof(row->end), "%s%s%.*s", end, shown.len > 0 ? ": " : "",
                 (int)shown.len, buf_text(&shown));
}

/* Its last lines, for a command that cannot be tried at all. */
static void last_lines_say(const struct trial_run *trial)
{
    struct str all = output_tail(&trial->errors), line;
    const char *at;
    if (str_trim(all).len == 0)
        all = output_tail(&trial->out);
    all = str_trim(all);
    size_t n = 0, from = all.len;
    while (n < LAST_LINES && (at = memrchr(all.at, '\n', from)) != NULL) {
        from = (size_t)(at - all.at);
        n++;
    }
    if (n == LAST_LINES)
        all = (struct str){all.at + from + 1, all.len - from - 1};
    while (all.len > 0 && str_next(&all, '\n', &line))
        talk("| %.*s", (int)line.len, line.at);
}

static void unusable_say(struct fitting *f, const struct trial_row *row, enum death death,
                         int exec_errno)
{
    struct err err = {0};
    if (death == DEATH_NOT_STARTED)
        fail(&err, ERR_UNAVAILABLE, "the command could not be executed: %s",
             errno_text(exec_errno));
    else if (death == DEATH_DEVICE_LOST)
        fail(&err, ERR_UNAVAILABLE, "the device was lost at batch %lu", row->trial.batch);
    else if (f->pattern.is_set && row->trial.outcome == FIT_OK && f->trial.printed_rate <= 0)
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
    if (death != DEATH_NOT_STARTED)
        last_lines_say(&f->trial);
    shell_abort(&f->shell, &err);
}

static void row_add(struct fitting *f, const struct worker_exit *exit, uint64_t took_ms)
{
    const struct trial_run *trial = &f->trial;
    enum death death = death_of(f, exit);
    enum fit_outcome outcome = outcome_of(trial, death);
    bool is_good = outcome == FIT_OK; /* else it has not done what the rate is about */
    struct trial_row row = {.trial = {.batch = trial->batch,
                                      .outcome = outcome,
                                      .peak_bytes = peak_of(f, exit),
                                      .rate = is_good ? rate_of(f, trial->batch, took_ms) : 0},
                            .took_ms = took_ms};
    end_describe(f, exit, death, outcome, &row);
    if (death == DEATH_HOST_OOM && exit->exit_signal == SIGKILL)
        node_oom_explained(trial->process);
    f->rows = xrealloc(f->rows, (f->n_rows + 1) * sizeof(*f->rows));
    f->rows[f->n_rows++] = row;
    row_say(f, &row);
    unusable_say(f, &row, death, exit->exec_errno);
    fit_took(&f->fit, &row.trial);
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct fitting *f = context;
    struct trial_run *trial = &f->trial;
    uint64_t took_ms = shell_now(&f->shell) - trial->begin_ms;
    output_end(&trial->out, &f->pattern, &trial->printed_rate);
    output_end(&trial->errors, &f->pattern, &trial->printed_rate);
    if (!shell_is_to_end(&f->shell))
        row_add(f, exit, took_ms);
    node_release(steal_ptr(&trial->process));
    device_watch_ended(f->watch, 0);
    device_watch_left(f->watch, 0);
}

/* ---- the process ---- */

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct fitting *f = context;
    output_take(stream == STREAM_ERR ? &f->trial.errors : &f->trial.out, bytes, &f->pattern,
                &f->trial.printed_rate);
}

static void on_warned(void *context, const char *text)
{
    const struct fitting *f = context;
    log_add(f->shell.log, LOG_WARN, "fit", "batch %lu: %s", f->trial.batch, text);
}

static void on_failed(void *context, const struct err *why)
{
    struct fitting *f = context;
    shell_abort(&f->shell, why);
}

static void input_pump(struct fitting *f)
{
    struct err err = {0};
    if (trial_input_pump(&f->trial.input, f->trial.process, &err) != 0)
        shell_abort(&f->shell, &err);
}

static void on_writable(void *context, enum worker_stream stream)
{
    if (stream == STREAM_IN)
        input_pump(context);
}

void trial_sampled(struct fitting *f, const struct device_sample *sample)
{
    if (sample->device == f->device.chosen && f->trial.process && !sample->is_lost)
        f->trial.used_peak_bytes = MAX(f->trial.used_peak_bytes, sample->mem_used_bytes);
}

void trial_tick(struct fitting *f)
{
    struct trial_run *trial = &f->trial;
    if (!trial->process || trial->is_late ||
        f->shell.now_ms - trial->begin_ms < f->request->trial_limit_ms)
        return;
    trial->is_late = true;
    node_end(trial->process, END_POLITELY);
}

static void trial_reset(struct fitting *f, uint64_t batch)
{
    uint64_t used_bytes = f->device.used_bytes;
    trial_release(&f->trial);
    if (device_watch_memory(f->watch, 0).total_bytes > 0)
        used_bytes = device_watch_memory(f->watch, 0).used_bytes;
    f->trial = (struct trial_run){.batch = batch,
                                  .begin_ms = shell_now(&f->shell),
                                  .input = TRIAL_INPUT_INIT,
                                  .used_before_bytes = used_bytes,
                                  .used_peak_bytes = used_bytes};
}

int trial_start(struct fitting *f, uint64_t batch, struct err *err)
{
    static const struct worker_handlers handlers = {.output = on_output,
                                                    .writable = on_writable,
                                                    .gone = on_gone,
                                                    .warned = on_warned,
                                                    .failed = on_failed};
    const struct seat *seat = &f->allocation.seats[0];
    struct env_list env = {0}, words = {0};
    int held[LOCK_FDS_MAX];
    const char *stdin_path = f->request->stdin_path;
    trial_reset(f, batch);
    if (stdin_path && trial_input_open(&f->trial.input, stdin_path, err) != 0)
        return ERR_USAGE;
    environment_make(f, batch, &env);
    trial_words(f, batch, &words);
    const struct spawn_request request = {
        .argv = (const char *const *)words.at,
        .envp = (const char *const *)env.at,
        .seat = seat,
        .grace_ms = f->request->grace_ms,
        .has_input = stdin_path != NULL,
        .held_fds = held,
        .n_held_fds = device_locks_fds(&f->allocation.locks, seat->devices, seat->n_devices, held),
        .handlers = &handlers,
        .context = f};
    int rc = node_spawn(f->shell.node, &request, &f->trial.process, err);
    env_list_release(&env);
    env_list_release(&words);
    if (rc)
        return rc;
    device_watch_started(f->watch, 0);
    if (stdin_path)
        input_pump(f);
    return 0;
}

void trial_release(struct trial_run *trial)
{
    trial_input_close(&trial->input);
    output_release(&trial->out);
    output_release(&trial->errors);
}
