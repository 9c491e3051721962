/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/trial.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "node/environment.h"

enum {
    LAST_LINES = 12,
    LAST_LINE_BYTES = 100
};

static uint64_t now_us(void)
{
    return clock_now_ns() / 1000;
}

static struct output_matches matches_of(struct trial_run *run)
{
    return (struct output_matches){run->matches, countof(run->matches)};
}

/* ---- the devices ---- */

static struct seat seat_make(const struct allocation *a, uint32_t n_seats)
{
    struct seat seat = a->seats[0];
    for (uint32_t i = 1; i < n_seats; i++) {
        size_t len = strlen(seat.label);
        seat_join(&seat, &a->seats[i]);
        snprintf(seat.label + len, sizeof(seat.label) - len, "+%d",
                 a->devices.at[a->seats[i].devices[0]].index);
    }
    return seat;
}

void trial_devices_add(const struct trial_setting *setting, uint32_t n_seats, struct env_list *env)
{
    const struct seat seat = seat_make(setting->allocation, n_seats);
    seat_devices_add(setting->allocation, &seat, env);
}

static void devices_begin(struct trial_run *run)
{
    const struct trial_setting *setting = &run->setting;
    for (uint32_t i = 0; i < run->seat.n_devices; i++) {
        const struct device *device = &setting->allocation->devices.at[run->seat.devices[i]];
        uint64_t used_bytes =
            device->mem_total_bytes - MIN(device->mem_free_bytes, device->mem_total_bytes);
        const struct device_sample *sample =
            device_watch_sample(setting->watch, run->seat.devices[i]);
        if (sample->mem_total_bytes > 0)
            used_bytes = sample->mem_used_bytes;
        run->devices[i] = (struct trial_device){.chosen = setting->allocation->device_of[i],
                                                .before_bytes = used_bytes,
                                                .peak_bytes = used_bytes,
                                                .sampled_us = run->begin_us,
                                                .joules = -1};
        device_watch_started(setting->watch, i);
    }
}

/* Takes the power of this sample for the whole time since the sample before. */
static void energy_add(struct trial_device *device, double power_w, uint64_t at_us)
{
    double seconds = (double)(at_us - MIN(device->sampled_us, at_us)) / 1e6;
    device->sampled_us = at_us;
    if (power_w < 0)
        return;
    device->power_w = power_w;
    device->joules = MAX(device->joules, 0.0) + power_w * seconds;
}

void trial_sampled(struct trial_run *run, const struct device_sample *sample)
{
    for (size_t i = 0; run->process && !sample->is_lost && i < run->seat.n_devices; i++) {
        struct trial_device *device = &run->devices[i];
        if (device->chosen != sample->device)
            continue;
        device->peak_bytes = MAX(device->peak_bytes, sample->mem_used_bytes);
        energy_add(device, sample->power_w, now_us());
    }
}

bool trial_has(const struct trial_run *run, uint32_t chosen)
{
    for (size_t i = 0; i < run->seat.n_devices; i++)
        if (run->devices[i].chosen == chosen)
            return true;
    return false;
}

static bool is_sampled(const struct trial_run *run)
{
    enum device_kind kind = run->setting.allocation->devices.at[run->seat.devices[0]].kind;
    return kind != DEVICE_CPU && kind != DEVICE_SIM;
}

static void devices_end(struct trial_run *run, const struct worker_exit *exit,
                        struct trial_end *end)
{
    uint64_t at_us = run->begin_us + end->took_us;
    for (uint32_t i = 0; i < run->seat.n_devices; i++) {
        struct trial_device *device = &run->devices[i];
        if (device->joules >= 0)
            energy_add(device, device->power_w, at_us);
        uint64_t bytes = device->peak_bytes - MIN(device->before_bytes, device->peak_bytes);
        end->peak_bytes = MAX(end->peak_bytes, bytes);
        end->joules = device->joules < 0 || end->joules < 0 ? -1 : end->joules + device->joules;
    }
    if (!is_sampled(run))
        end->peak_bytes = exit->rss_peak_bytes;
}

void trial_memory_back(struct trial_run *run, uint32_t seat)
{
    if (seat < countof(run->awaits_memory))
        run->awaits_memory[seat] = false;
}

bool trial_is_ready(const struct trial_run *run)
{
    for (size_t i = 0; i < countof(run->awaits_memory); i++)
        if (run->awaits_memory[i])
            return false;
    return run->process == NULL;
}

/* ---- how it ended ---- */

/* If the guard was killed, the command was killed too. */
static int signal_of(const struct worker_exit *exit)
{
    return exit->has_exited || exit->was_refused ? exit->exit_signal : SIGKILL;
}

static enum death death_of(const struct trial_run *run, const struct worker_exit *exit)
{
    const struct oom_counts *kills = &exit->oom_kills;
    bool is_lost = false;
    for (uint32_t i = 0; i < run->seat.n_devices; i++)
        is_lost = is_lost || device_watch_seat_has_lost(run->setting.watch, i);
    /*
     * The command may have run out of memory in one thread and then stood still. So its output counts, although
     * muster ended the command.
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
                              .stderr_tail = output_tail(&run->errors),
                              .stdout_tail = output_tail(&run->out)});
}

void trial_end_format(const struct trial_run *run, const struct trial_end *end, char *out,
                      size_t cap)
{
    char how[24];
    struct str last = output_last_line(&run->errors);
    cleanup_buf struct buf shown = BUF_INIT;
    exit_format(how, end->exit->exit_code, signal_of(end->exit));
    if (last.len == 0)
        last = output_last_line(&run->out);
    console_visible_add(&shown, last);
    shown.len = console_text_cut(buf_str(&shown), LAST_LINE_BYTES);
    snprintf(out, cap, "%s%s%.*s", how, shown.len > 0 ? ": " : "", (int)shown.len,
             buf_text(&shown));
}

void trial_last_lines_say(const struct trial_run *run)
{
    struct str all = output_tail(&run->errors), line;
    const char *at;
    if (str_trim(all).len == 0)
        all = output_tail(&run->out);
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

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct trial_run *run = context;
    uint64_t end_us = now_us();
    struct trial_end end = {
        .exit = exit, .was_late = run->is_late, .took_us = end_us - run->begin_us};
    output_end(&run->out, matches_of(run), end_us);
    output_end(&run->errors, matches_of(run), end_us);
    end.death = death_of(run, exit);
    devices_end(run, exit, &end);
    if (end.death == DEATH_HOST_OOM && exit->exit_signal == SIGKILL)
        node_oom_explained(run->process);
    run->ended(run->context, &end);
    node_release(steal_ptr(&run->process));
    for (uint32_t i = 0; i < run->seat.n_devices; i++) {
        run->awaits_memory[i] = true;
        device_watch_ended(run->setting.watch, i);
        device_watch_left(run->setting.watch, i);
    }
}

/* ---- the process ---- */

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct trial_run *run = context;
    output_take(stream == STREAM_ERR ? &run->errors : &run->out, bytes, matches_of(run), now_us());
}

static void on_warned(void *context, const char *text)
{
    const struct trial_run *run = context;
    log_add(shell_log(run->setting.shell), LOG_WARN, shell_verb_name(run->setting.shell), "%s",
            text);
}

static void on_failed(void *context, const struct err *why)
{
    struct trial_run *run = context;
    shell_abort(run->setting.shell, why);
}

static void input_pump(struct trial_run *run)
{
    struct err err = {0};
    if (trial_input_pump(&run->input, run->process, &err) != 0)
        shell_abort(run->setting.shell, &err);
}

static void on_writable(void *context, enum worker_stream stream)
{
    if (stream == STREAM_IN)
        input_pump(context);
}

void trial_tick(struct trial_run *run)
{
    if (!run->process || run->is_late || run->limit_ms == 0 ||
        now_us() - run->begin_us < run->limit_ms * 1000)
        return;
    run->is_late = true;
    trial_stop(run, END_POLITELY);
}

void trial_stop(struct trial_run *run, enum worker_end how)
{
    if (run->process)
        node_end(run->process, how);
}

static int process_start(struct trial_run *run, const struct trial_request *request,
                         struct err *err)
{
    static const struct worker_handlers handlers = {.output = on_output,
                                                    .writable = on_writable,
                                                    .gone = on_gone,
                                                    .warned = on_warned,
                                                    .failed = on_failed};
    const struct spawn_request spawn = {.argv = request->argv,
                                        .envp = request->envp,
                                        .seat = &run->seat,
                                        .grace_ms = request->grace_ms,
                                        .has_input = request->stdin_path != NULL,
                                        .locks = &run->setting.allocation->locks,
                                        .handlers = &handlers,
                                        .context = run};
    run->begin_us = now_us();
    return node_spawn(shell_node(run->setting.shell), &spawn, &run->process, err);
}

int trial_start(struct trial_run *run, const struct trial_request *request, struct err *err)
{
    trial_release(run);
    run->seat = seat_make(run->setting.allocation, request->n_seats);
    run->limit_ms = request->limit_ms;
    run->is_late = false;
    for (size_t i = 0; i < countof(run->matches); i++)
        run->matches[i] = (struct output_match){.pattern = request->patterns[i]};
    if (request->stdin_path && trial_input_open(&run->input, request->stdin_path, err) != 0)
        return ERR_USAGE;
    int rc = process_start(run, request, err);
    if (rc)
        return rc;
    devices_begin(run);
    if (request->stdin_path)
        input_pump(run);
    return 0;
}

void trial_release(struct trial_run *run)
{
    trial_input_close(&run->input);
    output_release(&run->out);
    output_release(&run->errors);
}

/* ---- which devices ---- */

static void spec_narrow(struct device_spec *spec, uint32_t n)
{
    if (spec->kind == SPEC_FREE)
        spec->kind = SPEC_ANY;
    if (spec->kind == SPEC_ANY || spec->is_default)
        spec->count = n;
    if (spec->kind == SPEC_LIST)
        spec->n_entries = MIN(spec->n_entries, (size_t)n);
    if (spec->kind != SPEC_ALL)
        return;
    spec->kind = SPEC_LIST;
    for (spec->n_entries = 0; spec->n_entries < n && spec->n_entries < SPEC_ENTRIES_MAX;
         spec->n_entries++)
        spec->entries[spec->n_entries] =
            (struct spec_entry){.is_id = true, .id = (uint32_t)spec->n_entries};
}

int trial_spec_new(const char *self_path, const char *gpus, uint32_t n, char **out, struct err *err)
{
    cleanup_free struct device_spec *spec = xcalloc(1, sizeof(*spec));
    cleanup_buf struct buf notes = BUF_INIT;
    struct buf text = BUF_INIT;
    struct device_list devices = {0};
    int rc = spec_parse(gpus, spec, err);
    if (rc == 0 && spec->kind == SPEC_NONE)
        rc = fail(err, ERR_USAGE, "-g none: a device is needed");
    if (rc)
        return rc;
    if (spec->is_default) {
        rc = probe_universe(&(struct probe_opts){.self_path = self_path}, spec, &devices, &notes,
                            err);
        if (devices.len > 0 && devices.at[0].kind == DEVICE_CPU)
            spec->kind = SPEC_CPU;
        device_list_release(&devices);
    }
    if (n > 0)
        spec_narrow(spec, n);
    spec->is_default = false;
    spec_format(spec, &text);
    *out = buf_steal(&text);
    return rc;
}
