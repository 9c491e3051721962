/* SPDX-License-Identifier: Apache-2.0
 *
 * The result as JSON: an object for each run, one for each variant, and one for the whole.
 */
#include <math.h>

#include "base/json.h"
#include "bench/bench_impl.h"

static const struct {
    const char *key;
    enum contest_figure figure;
} figures[] = {{"loading_s", CONTEST_LOADING_S},
               {"loaded_items_per_s", CONTEST_LOADED},
               {"joules_per_item", CONTEST_ITEM_J}};

static void text_json(struct buf *out, const char *key, const char *text)
{
    buf_addf(out, ",\"%s\":", key);
    buf_add_json(out, str_of(text));
}

/* JSON has no infinity. */
static void double_json(struct buf *out, const char *key, double value)
{
    buf_addf(out, ",\"%s\":", key);
    if (isfinite(value))
        buf_add_json_double(out, value);
    else
        buf_add_text(out, "null");
}

static void number_json(struct buf *out, const char *key, double value)
{
    double_json(out, key, value > 0 ? value : (double)NAN);
}

static void count_json(struct buf *out, const char *key, uint64_t count)
{
    if (count > 0)
        buf_addf(out, ",\"%s\":%lu", key, count);
    else
        buf_addf(out, ",\"%s\":null", key);
}

/* Adds the object without its closing brace. */
static void spread_begin(struct buf *out, const char *key, const struct contest_spread *spread)
{
    buf_addf(out, ",\"%s\":{\"runs\":%u", key, spread->n);
    number_json(out, "median", spread->median);
    number_json(out, "min", spread->min);
    number_json(out, "max", spread->max);
}

static void spread_json(struct buf *out, const char *key, const struct contest_spread *spread)
{
    if (spread->n == 0) {
        buf_addf(out, ",\"%s\":null", key);
        return;
    }
    spread_begin(out, key, spread);
    buf_add_char(out, '}');
}

static void speedup_json(const struct benching *b, uint32_t variant, struct buf *out,
                         const char *key, enum contest_figure figure)
{
    struct contest_ratio ratio = contest_ratio(b->contest, variant, 0, figure);
    if (ratio.spread.n == 0) {
        buf_addf(out, ",\"%s\":null", key);
        return;
    }
    spread_begin(out, key, &ratio.spread);
    if (ratio.spread.n > 1) {
        double_json(out, "low", ratio.low);
        double_json(out, "high", ratio.high);
    }
    buf_add_char(out, '}');
}

void run_json_note(struct benching *b, const struct contest_run *run)
{
    struct buf *out = &b->runs_json;
    buf_addf(out, "{\"run\":%u,\"row\":%u", ++b->n_runs, b->variant + 1);
    text_json(out, "outcome", contest_outcome_name(contest_outcome(b->contest, b->variant)));
    text_json(out, "end", b->variants[b->variant].end);
    count_json(out, "items", run->n_items);
    number_json(out, "seconds", run->seconds);
    number_json(out, "items_per_s", run->figure[CONTEST_WHOLE]);
    for (size_t i = 0; i < countof(figures); i++)
        number_json(out, figures[i].key, run->figure[figures[i].figure]);
    buf_add_text(out, "}\n");
}

static void variant_json(const struct benching *b, uint32_t variant, struct buf *out)
{
    const struct bench_variant *w = &b->variants[variant];
    struct contest_spread seconds = contest_seconds(b->contest, variant);
    struct contest_spread rate = contest_figure(b->contest, variant, CONTEST_WHOLE);
    buf_addf(out, "{\"row\":%u", variant + 1);
    text_json(out, "method", b->methods[w->method].name);
    buf_addf(out, ",\"devices\":%u", w->n_devices);
    count_json(out, "batch", w->batch);
    text_json(out, "outcome", contest_outcome_name(contest_outcome(b->contest, variant)));
    text_json(out, "end", w->end);
    count_json(out, "items", w->n_items);
    spread_json(out, "seconds", &seconds);
    spread_json(out, "items_per_s", &rate);
    for (size_t i = 0; i < countof(figures); i++) {
        struct contest_spread spread = contest_figure(b->contest, variant, figures[i].figure);
        spread_json(out, figures[i].key, &spread);
    }
    speedup_json(b, variant, out, "speedup", CONTEST_WHOLE);
    speedup_json(b, variant, out, "loaded_speedup", CONTEST_LOADED);
    number_json(out, "efficiency", variant_efficiency(b, variant));
    count_json(out, "peak_bytes", w->peak_bytes);
    buf_add_text(out, "}\n");
}

static void whole_json(const struct benching *b, struct buf *out)
{
    static const char *const ends[] = {[CONTEST_GOES_ON] = "interrupted",
                                       [CONTEST_CLEAR] = "clear",
                                       [CONTEST_ROUNDS] = "rounds",
                                       [CONTEST_TIME] = "time",
                                       [CONTEST_NOTHING] = "nothing"};
    static const char *const deciding[CONTEST_FIGURES] = {
        [CONTEST_WHOLE] = "whole", [CONTEST_LOADED] = "loaded"};
    const struct device *device =
        &b->session.allocation.devices.at[b->session.allocation.seats[0].devices[0]];
    uint32_t best;
    buf_addf(out, "{\"rounds\":%u", contest_n_rounds(b->contest));
    text_json(out, "ended", ends[b->ended]);
    text_json(out, "unit", unit_of(b));
    text_json(out, "deciding", deciding[contest_deciding(b->contest)]);
    count_json(out, "best", contest_best(b->contest, &best) ? best + 1 : 0);
    text_json(out, "device", device->name);
    buf_add_text(out, "}\n");
}

void bench_json_add(const struct benching *b, struct buf *out)
{
    buf_add_str(out, buf_str(&b->runs_json));
    for (uint32_t i = 0; i < b->n_variants; i++)
        variant_json(b, i, out);
    whole_json(b, out);
}
