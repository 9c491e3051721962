/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "fit/fit_impl.h"
#include "map/template.h"

enum {
    MARGIN_PERCENT = 5,
    NEAR_PERCENT = 3 /* a rate so near to the best one counts as equal */
};

#define MARGIN_BYTES ((uint64_t)512 << 20)

/* ---- what is asked ---- */

static int command_check(const char *const *command, struct err *err)
{
    const uint32_t known = 1u << PLACE_BATCH | 1u << PLACE_GPU | 1u << PLACE_GPU_UUID;
    uint32_t uses = template_uses_all(command);
    if (!command || !command[0])
        return fail(err, ERR_USAGE, "no command; it stands behind --, with {batch} in it");
    for (const char *const *word = command; *word; word++)
        if (template_check(str_of(*word), err) != 0)
            return ERR_USAGE;
    if (uses & ~known)
        return fail(err, ERR_USAGE,
                    "of the placeholders, muster fit fills in {batch}, {gpu} and {gpu_uuid} only; "
                    "give a value for the others, or double the braces of a word that is none");
    return 0;
}

static int max_check(const struct fit_request *request, struct err *err)
{
    uint64_t max = fit_max(request);
    const char *cure = request->max == 0 ? ", the largest one if nothing is said" : "";
    if (request->start > max)
        return fail(err, ERR_USAGE, "--start %lu is above --max %lu%s", request->start, max, cure);
    if (request->multiple > max)
        return fail(err, ERR_USAGE, "no multiple of %lu is at most --max %lu%s", request->multiple,
                    max, cure);
    return 0;
}

int fit_check(const struct fit_request *request, struct err *err)
{
    struct output_pattern pattern;
    struct trial_input input = TRIAL_INPUT_INIT;
    int n_ways = (request->n_items > 0) + (request->n_steps > 0) + (request->rate_pattern != NULL);
    int rc = command_check(request->command, err);
    if (rc == 0 && n_ways > 1)
        rc = fail(err, ERR_USAGE,
                  "--items, --steps and --rate-pattern are ways to the same number; give one");
    rc = rc ? rc : max_check(request, err);
    if (rc == 0 && request->stdin_path)
        rc = trial_input_open(&input, request->stdin_path, err);
    trial_input_close(&input);
    if (rc == 0) {
        rc = output_pattern_make(&pattern, "--rate-pattern", request->rate_pattern, err);
        output_pattern_release(&pattern);
    }
    return rc;
}

/* The options that decide the result, as text. */
static char *wish_new(const struct fit_request *r)
{
    struct buf out = BUF_INIT;
    buf_addf(&out, "start=%lu max=%lu multiple=%lu repeat=%lu trial-limit=%lu", r->start,
             fit_max(r), r->multiple, r->n_repeats, r->trial_limit_ms);
    if (r->margin.is_given)
        buf_addf(&out, " margin=%lu+%u%%", r->margin.bytes, r->margin.percent);
    if (r->n_items > 0)
        buf_addf(&out, " items=%lu", r->n_items);
    if (r->n_steps > 0)
        buf_addf(&out, " steps=%lu", r->n_steps);
    if (r->rate_pattern)
        buf_addf(&out, " rate-pattern=%s", r->rate_pattern);
    if (r->stdin_path)
        buf_addf(&out, " stdin=%s", r->stdin_path);
    return buf_steal(&out);
}

/* ---- the device ---- */

/* How much memory a new process on this machine could have. */
static uint64_t memory_available_bytes(void)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str rest, line, name = STR("MemAvailable:");
    uint64_t kib;
    if (file_read("/proc/meminfo", 1 << 16, &text, NULL) != 0)
        return UINT64_MAX;
    rest = buf_str(&text);
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        if (!str_starts_with(line, name) || !str_ends_with(line, STR(" kB")))
            continue;
        struct str number = {line.at + name.len, line.len - name.len - 3};
        return u64_parse(str_trim(number), 0, UINT64_MAX / 1024, &kib, NULL) == 0 ? kib * 1024
                                                                                  : UINT64_MAX;
    }
    return UINT64_MAX;
}

uint64_t fit_margin_bytes(const struct fit_margin *margin, uint64_t total_bytes)
{
    uint32_t percent = margin->is_given ? margin->percent : MARGIN_PERCENT;
    uint64_t bytes = margin->is_given ? margin->bytes : MARGIN_BYTES;
    return MAX((uint64_t)((double)total_bytes * percent / 100), bytes);
}

static int margin_set(struct fit_device *d, const struct fit_margin *wish, struct err *err)
{
    uint64_t total_bytes = d->total_bytes;
    char margin[16], total[16];
    if (total_bytes == 0)
        return 0;
    d->margin_bytes = fit_margin_bytes(wish, total_bytes);
    size_format(margin, d->margin_bytes);
    size_format(total, total_bytes - MIN(d->used_bytes, total_bytes));
    if (d->margin_bytes + d->used_bytes >= total_bytes)
        return fail(
            err, ERR_USAGE,
            "a margin of %s leaves nothing of the %s that are free; give a smaller --margin",
            margin, total);
    d->limit_bytes = total_bytes - d->used_bytes - d->margin_bytes;
    return 0;
}

static int device_look(struct fitting *f, struct err *err)
{
    struct fit_device *d = &f->device;
    const struct seat *seat = &f->session.allocation.seats[0];
    d->device = &f->session.allocation.devices.at[seat->devices[0]];
    d->total_bytes = d->device->mem_total_bytes;
    d->used_bytes = d->total_bytes - MIN(d->device->mem_free_bytes, d->total_bytes);
    if (d->device->kind == DEVICE_CPU) {
        uint64_t share = f->session.allocation.n_seats;
        d->total_bytes = fit_device_bytes(d->device, share);
        d->used_bytes = d->total_bytes - MIN(memory_available_bytes() / share, d->total_bytes);
    }
    return margin_set(d, &f->request->margin, err);
}

/* ---- the search ---- */

static struct fit_wish search_wish(const struct fitting *f)
{
    const struct fit_request *r = f->request;
    return (struct fit_wish){.start = r->start,
                             .max = fit_max(r),
                             .multiple = r->multiple,
                             .limit_bytes = f->device.limit_bytes,
                             .n_repeats = (uint32_t)r->n_repeats,
                             .near = NEAR_PERCENT / 100.0};
}

/* Starts the next trial. Returns false if there is none. */
static bool trial_next(struct fitting *f)
{
    struct err err = {0};
    struct fit_step step = fit_next(&f->fit);
    if (step.kind != FIT_TRY)
        return false;
    if (fit_try(f, step.batch, &err) != 0)
        shell_abort(f->session.shell, &err);
    return true;
}

static void trials_run(struct fitting *f)
{
    bool goes_on = trial_next(f);
    while (f->session.run.process || (goes_on && !shell_is_to_end(f->session.shell))) {
        shell_turn(f->session.shell);
        if (trial_is_ready(&f->session.run) && !shell_is_to_end(f->session.shell))
            goes_on = trial_next(f);
        else if (!f->session.run.process && fit_next(&f->fit).kind != FIT_TRY)
            goes_on = false; /* after the last trial, its memory is not awaited */
    }
}

static void memo_make(const struct fitting *f, const struct fit_signature *signature, char *wish,
                      struct fit_memo *out)
{
    struct fit_result result;
    char when[40];
    fit_result(&f->fit, &result);
    clock_rfc3339(when, clock_wall_ms());
    *out = (struct fit_memo){.of = *signature,
                             .wish = wish,
                             .when = xstrdup(when),
                             .batch = result.batch,
                             .peak_bytes = result.peak_bytes,
                             .limit_bytes = f->device.limit_bytes,
                             .rate = result.rate,
                             .fixed_bytes = result.line.fixed_bytes,
                             .item_bytes = result.line.item_bytes};
}

static int search_run(struct fitting *f, const struct fit_signature *signature, char *wish,
                      struct buf *out, struct err *err)
{
    struct err why = {0};
    struct fit_memo memo;
    trials_run(f);
    if (f->n_rows > 0)
        report_add(f, out);
    int rc = shell_outcome(f->session.shell, err);
    if (rc)
        return rc;
    if (is_unmoved(f))
        return err_exit_status(ERR_FAILED);
    memo_make(f, signature, wish, &memo);
    if (memo.batch > 0 && fit_remember(&memo, &why) != 0)
        talk("the result is not remembered: %s", why.text);
    free(memo.when);
    return memo.batch > 0 ? 0 : err_exit_status(ERR_FAILED);
}

/* Takes the remembered result of the same request, or measures. */
static int answer(struct fitting *f, struct buf *out, struct err *err)
{
    const struct fit_request *request = f->request;
    struct fit_signature signature;
    struct fit_memo memo;
    cleanup_free char *wish = wish_new(request);
    int rc = 0;
    fit_signature_make(&signature, request->command, &request->environment, f->device.device->name,
                       f->device.total_bytes);
    const struct fit_wish asked = search_wish(f);
    fit_begin(&f->fit, &asked);
    if (request->is_plan)
        plan_report_add(f, out);
    else if (!request->is_fresh && fit_recall(&signature, wish, &memo)) {
        memo_report_add(&memo, request->is_json, out);
        fit_memo_release(&memo);
    } else
        rc = search_run(f, &signature, wish, out, err);
    fit_signature_release(&signature);
    return rc;
}

static int program_look(const struct fit_request *request, struct err *err)
{
    const char *program = request->command[0];
    bool is_found_later = request->environment.setup || template_uses(str_of(program)) != 0;
    return is_found_later ? 0 : program_check(program, err);
}

int fit_search(const struct fit_caller *caller, const struct fit_request *request, struct buf *out,
               struct err *err)
{
    cleanup_free struct fitting *f = xcalloc(1, sizeof(*f));
    *f = (struct fitting){.request = request, .caller = caller};
    const struct trial_session_wish wish = {.verb = "fit",
                                            .self_path = caller->self_path,
                                            .log = caller->log,
                                            .allocation = &request->allocation,
                                            .n_devices = 1,
                                            .limit_ms = request->limit_ms,
                                            .ended = fit_tried,
                                            .context = f};
    int rc = output_pattern_make(&f->pattern, "--rate-pattern", request->rate_pattern, err);
    if (rc == 0)
        rc = program_look(request, err);
    if (rc == 0) {
        rc = trial_session_open(&f->session, &wish, err);
        rc = rc ? rc : device_look(f, err);
        rc = rc ? rc : answer(f, out, err);
        trial_session_close(&f->session);
    }
    output_pattern_release(&f->pattern);
    free(f->rows);
    return rc;
}
