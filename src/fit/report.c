/* SPDX-License-Identifier: Apache-2.0 */
#include "base/console_text.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/talk.h"
#include "fit/fit_impl.h"

enum {
    CELL = 24
};

static const double level_factor = 1.02;
#define NOISE_BYTES ((uint64_t)1 << 20) /* equal runs of a small process differ by less */

static const char *const outcome_names[FIT_OUTCOMES] = {
    [FIT_OK] = "ok", [FIT_OOM] = "oom", [FIT_FAILED] = "failed", [FIT_TIMEOUT] = "timeout"};

static const struct {
    const char *name, *text;
} bounds[] = {
    [FIT_BOUND_MEMORY] = {"memory", "a larger batch does not fit"},
    [FIT_BOUND_FAILURE] = {"failure", "the command fails with a larger batch"},
    [FIT_BOUND_TIME] = {"time", "a larger batch takes longer than --trial-limit"},
    [FIT_BOUND_RATE] = {"rate", "a larger batch is hardly faster"},
    [FIT_BOUND_MAX] = {"max", "it is the largest size that was asked for (--max)"},
    [FIT_BOUND_NONE] = {"none", "no size fits"},
};

/* ---- cells ---- */

static void peak_cell(char out[CELL], uint64_t bytes)
{
    char size[16] = "-";
    if (bytes > 0)
        size_format(size, bytes);
    snprintf(out, CELL, "%s", size);
}

static void share_cell(char out[CELL], uint64_t bytes, uint64_t total_bytes)
{
    snprintf(out, CELL, "-");
    if (bytes > 0 && total_bytes > 0)
        snprintf(out, CELL, "%.1f %%", 100.0 * (double)bytes / (double)total_bytes);
}

static void rate_cell(char out[CELL], double rate)
{
    snprintf(out, CELL, "-");
    if (rate > 0)
        snprintf(out, CELL, rate < 1000 ? "%.4g" : "%.0f", rate);
}

static bool is_over(const struct fitting *f, const struct fit_trial *trial)
{
    return trial->outcome == FIT_OK && f->device.limit_bytes > 0 &&
           trial->peak_bytes > f->device.limit_bytes;
}

static const char *outcome_text(const struct fitting *f, const struct trial_row *row)
{
    return row->end[0] ? row->end : is_over(f, &row->trial) ? "over the margin" : "ok";
}

void row_say(const struct fitting *f, const struct trial_row *row)
{
    char peak[CELL], rate[CELL], took[24];
    peak_cell(peak, row->trial.peak_bytes);
    rate_cell(rate, row->trial.rate);
    duration_format(took, row->took_ms);
    if (!f->caller->is_quiet && !f->request->is_json)
        talk("batch %lu: %s, peak %s, %s items/s, %s", row->trial.batch, outcome_text(f, row), peak,
             rate, took);
}

static void row_add(const struct fitting *f, const struct trial_row *row, struct buf *out)
{
    char peak[CELL], share[CELL], rate[CELL], took[24];
    peak_cell(peak, row->trial.peak_bytes);
    share_cell(share, row->trial.peak_bytes, f->device.total_bytes);
    rate_cell(rate, row->trial.rate);
    duration_format(took, row->took_ms);
    buf_addf(out, "%8lu  %10s  %9s  %10s  %10s  %s\n", row->trial.batch, peak, share, rate, took,
             outcome_text(f, row));
}

/* ---- the table ---- */

/* True if the peak is the same although the batch size grew to eight times or more: that cannot be chance. */
static bool is_level(const struct fit *fit)
{
    const struct fit_size *first = NULL, *last = NULL;
    for (size_t i = 0; i < fit->n_sizes; i++) {
        const struct fit_size *size = &fit->sizes[i];
        if (size->outcome != FIT_OK || size->peak_bytes == 0)
            continue;
        first = first ? first : size;
        last = size;
    }
    return first && last->batch / 8 >= first->batch &&
           (double)last->peak_bytes < level_factor * (double)first->peak_bytes;
}

/* True if the peaks of all sizes differ no more than the peaks of one size do. */
static bool are_peaks_alike(const struct fit *fit)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < fit->n_sizes; i++) {
        if (fit->sizes[i].peak_bytes == 0)
            continue;
        least = MIN(least, fit->sizes[i].peak_bytes);
        most = MAX(most, fit->sizes[i].peak_bytes);
    }
    return most == 0 || most - least < NOISE_BYTES || (double)most < level_factor * (double)least;
}

bool is_unmoved(const struct fitting *f)
{
    const struct fit_request *r = f->request;
    struct fit_result result;
    fit_result(&f->fit, &result);
    /* --steps does not count as a rate here: it assumes that a batch twice as large is twice the work. */
    bool has_rate = r->rate_pattern || r->n_items > 0;
    return result.batch > 0 && result.bound == FIT_BOUND_MAX && r->max == 0 && !has_rate &&
           are_peaks_alike(&f->fit);
}

static void line_add(const struct fitting *f, const struct fit_result *result, struct buf *out)
{
    char fixed[16], item[16];
    size_format(fixed, (uint64_t)MAX(result->line.fixed_bytes, 0.0));
    size_format(item, (uint64_t)result->line.item_bytes);
    if (is_level(&f->fit) || is_unmoved(f))
        buf_add_text(out, "peak memory: it does not grow with the batch; does the command use "
                          "{batch}, or MUSTER_BATCH?\n");
    else if (result->line.is_known)
        buf_addf(out, "peak memory: %s + %s an item of the batch\n", fixed, item);
    else if (result->peak_falls)
        buf_add_text(out, "peak memory: a larger batch took less, so the peaks say little, and the "
                          "batch was not foretold from them\n");
    if (f->fit.is_unsteady)
        buf_add_text(out, "a size ended well once and not another time; it counts as too large\n");
}

static void device_add(const struct fitting *f, struct buf *out)
{
    const struct fit_device *d = &f->device;
    char total[16], used[16], margin[16], limit[16];
    size_format(total, d->total_bytes);
    size_format(used, d->used_bytes);
    size_format(margin, d->margin_bytes);
    size_format(limit, d->limit_bytes);
    buf_addf(out, "%s (%s)", f->session.allocation.seats[0].label, d->device->name);
    if (d->total_bytes > 0)
        buf_addf(out, ": %s, of which others use %s and %s are left free: at most %s", total, used,
                 margin, limit);
    buf_add_char(out, '\n');
}

static void best_add(const struct fit_device *d, const struct fit_result *result, struct buf *out)
{
    char peak[CELL], rate[CELL], left[16];
    uint64_t taken_bytes = d->used_bytes + result->peak_bytes;
    peak_cell(peak, result->peak_bytes);
    rate_cell(rate, result->rate);
    if (result->batch == 0) {
        buf_add_text(out, "no batch size fits\n");
        return;
    }
    buf_addf(out, "best batch size: %lu (peak %s, ", result->batch, peak);
    if (result->peak_bytes > 0 && d->total_bytes > taken_bytes) {
        size_format(left, d->total_bytes - taken_bytes);
        buf_addf(out, "%s stay free, ", left);
    }
    buf_addf(out, "%s items/s); %s\n", rate, bounds[result->bound].text);
}

static void table_add(const struct fitting *f, const struct fit_result *result, struct buf *out)
{
    device_add(f, out);
    buf_addf(out, "%8s  %10s  %9s  %10s  %10s  %s\n", "BATCH", "PEAK", "OF DEVICE", "ITEMS/S",
             "TIME", "OUTCOME");
    for (size_t i = 0; i < f->n_rows; i++)
        row_add(f, &f->rows[i], out);
    line_add(f, result, out);
    if (fit_next(&f->fit).kind != FIT_END)
        return;
    if (is_unmoved(f))
        buf_addf(out,
                 "no best batch size: nothing that was measured changes with it, up to %d; if "
                 "that is right, --max names the largest one that makes sense\n",
                 FIT_MAX_USUAL);
    else
        best_add(&f->device, result, out);
}

/* ---- JSON ---- */

static void bytes_json(struct buf *out, const char *key, uint64_t bytes)
{
    if (bytes > 0)
        buf_addf(out, ",\"%s\":%lu", key, bytes);
    else
        buf_addf(out, ",\"%s\":null", key);
}

static void number_json(struct buf *out, const char *key, double value, bool is_known)
{
    buf_addf(out, ",\"%s\":", key);
    if (is_known)
        buf_add_json_double(out, value);
    else
        buf_add_text(out, "null");
}

static void text_json(struct buf *out, const char *key, const char *text)
{
    buf_addf(out, ",\"%s\":", key);
    buf_add_json(out, str_of(text));
}

static void row_json(const struct fitting *f, size_t i, struct buf *out)
{
    const struct trial_row *row = &f->rows[i];
    buf_addf(out, "{\"trial\":%zu,\"batch\":%lu", i + 1, row->trial.batch);
    text_json(out, "outcome", outcome_names[row->trial.outcome]);
    text_json(out, "end", row->end);
    bytes_json(out, "peak_bytes", row->trial.peak_bytes);
    number_json(out, "rate", row->trial.rate, row->trial.rate > 0);
    number_json(out, "seconds", (double)row->took_ms / 1000, true);
    buf_addf(out, ",\"fits\":%s}\n",
             row->trial.outcome == FIT_OK && !is_over(f, &row->trial) ? "true" : "false");
}

static void best_json(const struct fitting *f, const struct fit_result *result, struct buf *out)
{
    const struct fit_device *d = &f->device;
    buf_addf(out, "{\"best\":%lu", is_unmoved(f) ? 0 : result->batch);
    bytes_json(out, "peak_bytes", result->peak_bytes);
    number_json(out, "rate", result->rate, result->rate > 0);
    text_json(out, "bound", is_unmoved(f) ? "unknown" : bounds[result->bound].name);
    number_json(out, "fixed_bytes", result->line.fixed_bytes, result->line.is_known);
    number_json(out, "item_bytes", result->line.item_bytes, result->line.is_known);
    text_json(out, "device", d->device->name);
    bytes_json(out, "device_bytes", d->total_bytes);
    bytes_json(out, "limit_bytes", d->limit_bytes);
    buf_add_text(out, ",\"remembered\":false}\n");
}

void report_add(const struct fitting *f, struct buf *out)
{
    struct fit_result result;
    fit_result(&f->fit, &result);
    if (!f->request->is_json) {
        table_add(f, &result, out);
        return;
    }
    for (size_t i = 0; i < f->n_rows; i++)
        row_json(f, i, out);
    if (fit_next(&f->fit).kind == FIT_END)
        best_json(f, &result, out);
}

/* ---- without trials ---- */

static void memo_json(const struct fit_memo *memo, struct buf *out)
{
    buf_addf(out, "{\"best\":%lu", memo->batch);
    bytes_json(out, "peak_bytes", memo->peak_bytes);
    number_json(out, "rate", memo->rate, memo->rate > 0);
    number_json(out, "fixed_bytes", memo->fixed_bytes, memo->item_bytes > 0);
    number_json(out, "item_bytes", memo->item_bytes, memo->item_bytes > 0);
    text_json(out, "device", memo->of.device);
    bytes_json(out, "device_bytes", memo->of.device_bytes);
    bytes_json(out, "limit_bytes", memo->limit_bytes);
    text_json(out, "command", memo->of.command);
    text_json(out, "when", memo->when);
    buf_add_text(out, ",\"remembered\":true}\n");
}

void memo_report_add(const struct fit_memo *memo, bool is_json, struct buf *out)
{
    char peak[CELL], rate[CELL];
    peak_cell(peak, memo->peak_bytes);
    rate_cell(rate, memo->rate);
    if (is_json)
        memo_json(memo, out);
    else {
        cleanup_buf struct buf where = BUF_INIT;
        buf_addf(&where, "%s at %s", memo->of.device, memo->when);
        buf_addf(out, "best batch size: %lu (peak %s, %s items/s), as measured on ", memo->batch,
                 peak, rate);
        console_visible_add(out, buf_str(&where));
        buf_add_text(out, "; --fresh measures again\n");
    }
}

void plan_report_add(const struct fitting *f, struct buf *out)
{
    struct env_list words = {0};
    uint64_t first = fit_next(&f->fit).batch;
    device_add(f, out);
    buf_addf(out, "would run, with MUSTER_BATCH=%lu, and then with other sizes up to %lu:\n ",
             first, fit_max(f->request));
    trial_words(f, first, &words);
    for (size_t i = 0; i < words.len; i++) {
        buf_add_char(out, ' ');
        buf_add_shell_word(out, words.at[i]);
    }
    buf_add_char(out, '\n');
    env_list_release(&words);
}
