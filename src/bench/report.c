/* SPDX-License-Identifier: Apache-2.0
 *
 * The report: a line for each run, the table, and sentences about the table.
 */
#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "bench/bench_impl.h"
#include "bench/table.h"

enum {
    OPEN_SAID = 6 /* pairs of variants that are named; the rest are only counted */
};

/* ---- numbers ---- */

void bench_number_format(char out[24], double value)
{
    int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3;
    if (value > 0 && value < 0.0995)
        snprintf(out, 24, "%.2g", value);
    else
        snprintf(out, 24, "%.*f", digits, value);
}

/* "2.98 (2.95-3.02)"; NULL: not known. */
static char *spread_new(const struct contest_spread *spread)
{
    char median[24], min[24], max[24];
    if (spread->n == 0)
        return NULL;
    bench_number_format(median, spread->median);
    bench_number_format(min, spread->min);
    bench_number_format(max, spread->max);
    return spread->n == 1 ? xstrdup(median) : xasprintf("%s (%s-%s)", median, min, max);
}

double variant_efficiency(const struct benching *b, uint32_t variant)
{
    const struct bench_variant *w = &b->variants[variant];
    uint32_t least = variant;
    for (uint32_t i = 0; i < b->n_variants; i++)
        if (b->variants[i].method == w->method && b->variants[i].batch == w->batch &&
            b->variants[i].n_devices < b->variants[least].n_devices)
            least = i;
    struct contest_ratio ratio =
        contest_ratio(b->contest, variant, least, contest_deciding(b->contest));
    return ratio.spread.median * b->variants[least].n_devices / w->n_devices;
}

/* ---- while it goes on ---- */

void run_say(const struct benching *b, const struct contest_run *run)
{
    cleanup_buf struct buf line = BUF_INIT;
    char rate[24], took[24], end[sizeof(b->variants->end)];
    const struct bench_variant *variant = &b->variants[b->variant];
    if (b->caller->is_quiet)
        return;
    variant_name_add(b, b->variant, &line);
    duration_format(took, (uint64_t)(run->seconds * 1000));
    snprintf(end, sizeof(end), "%s", variant->end);
    if (end[0])
        buf_addf(&line, ": %s", end);
    else if (run->figure[CONTEST_WHOLE] > 0) {
        bench_number_format(rate, run->figure[CONTEST_WHOLE]);
        buf_addf(&line, ": %s %s/s", rate, unit_of(b));
    }
    if (run->figure[CONTEST_LOADED] > 0) {
        bench_number_format(rate, run->figure[CONTEST_LOADED]);
        buf_addf(&line, "%s %s when loaded", run->figure[CONTEST_WHOLE] > 0 ? "," : ":", rate);
    }
    talk("%s, %s", buf_text(&line), took);
}

/* ---- the table ---- */

enum column {
    COLUMN_METHOD,
    COLUMN_DEVICES,
    COLUMN_BATCH,
    COLUMN_SECONDS,
    COLUMN_RATE,
    COLUMN_SPEEDUP,
    COLUMN_LOADING,
    COLUMN_LOADED_RATE,
    COLUMN_LOADED_SPEEDUP,
    COLUMN_EFFICIENCY,
    COLUMN_MEMORY,
    COLUMN_ENERGY,
    COLUMN_RUNS,
    COLUMN_NOTE,
    COLUMNS
};

static const char *const headings[COLUMNS] = {
    [COLUMN_METHOD] = "METHOD",
    [COLUMN_DEVICES] = "DEVICES",
    [COLUMN_BATCH] = "BATCH",
    [COLUMN_SECONDS] = "SECONDS",
    [COLUMN_RATE] = "ITEMS/S",
    [COLUMN_SPEEDUP] = "SPEED-UP",
    [COLUMN_LOADING] = "LOADING (S)",
    [COLUMN_LOADED_RATE] = "LOADED: ITEMS/S",
    [COLUMN_EFFICIENCY] = "EFFICIENCY",
    [COLUMN_LOADED_SPEEDUP] = "LOADED: SPEED-UP",
    [COLUMN_MEMORY] = "MEMORY",
    [COLUMN_ENERGY] = "J/ITEM",
    [COLUMN_RUNS] = "RUNS",
    [COLUMN_NOTE] = "NOTE",
};

/* The speed-up over the first row, with which all rows are compared. In the first row itself it is just "1". */
static char *speedup_new(const struct benching *b, uint32_t variant, enum contest_figure figure)
{
    struct contest_ratio ratio = contest_ratio(b->contest, variant, 0, figure);
    if (variant == 0 && ratio.spread.n > 0)
        return xstrdup("1");
    return spread_new(&ratio.spread);
}

static char *memory_new(const struct bench_variant *variant)
{
    char size[16];
    size_format(size, variant->peak_bytes);
    return variant->peak_bytes > 0 ? xstrdup(size) : NULL;
}

static char *visible_new(const char *text)
{
    return text[0] ? console_visible_new(text) : NULL;
}

static void figures_fill(const struct benching *b, uint32_t variant, struct table *table)
{
    static const struct {
        enum column column;
        enum contest_figure figure;
    } figures[] = {{COLUMN_LOADING, CONTEST_LOADING_S},
                   {COLUMN_LOADED_RATE, CONTEST_LOADED},
                   {COLUMN_ENERGY, CONTEST_ITEM_J}};
    struct contest_spread seconds = contest_seconds(b->contest, variant);
    struct contest_spread rate = contest_figure(b->contest, variant, CONTEST_WHOLE);
    bool counts_items = strcmp(unit_of(b), "items") == 0;
    table_cell_take(table, COLUMN_SECONDS, spread_new(&seconds));
    if (counts_items)
        table_cell_take(table, COLUMN_RATE, spread_new(&rate));
    for (size_t i = 0; i < countof(figures); i++) {
        struct contest_spread spread = contest_figure(b->contest, variant, figures[i].figure);
        if (counts_items || figures[i].figure == CONTEST_LOADING_S)
            table_cell_take(table, figures[i].column, spread_new(&spread));
    }
}

static void row_fill(const struct benching *b, uint32_t variant, struct table *table)
{
    const struct bench_variant *w = &b->variants[variant];
    double efficiency = variant_efficiency(b, variant);
    table_row_add(table);
    if (b->n_methods > 1)
        table_cell_take(table, COLUMN_METHOD, visible_new(b->methods[w->method].name));
    table_cell_take(table, COLUMN_DEVICES, xasprintf("%u", w->n_devices));
    if (w->batch > 0)
        table_cell_take(table, COLUMN_BATCH, xasprintf("%lu", w->batch));
    figures_fill(b, variant, table);
    table_cell_take(table, COLUMN_SPEEDUP, speedup_new(b, variant, CONTEST_WHOLE));
    table_cell_take(table, COLUMN_LOADED_SPEEDUP, speedup_new(b, variant, CONTEST_LOADED));
    if (efficiency > 0)
        table_cell_take(table, COLUMN_EFFICIENCY, xasprintf("%.0f %%", 100 * efficiency));
    table_cell_take(table, COLUMN_MEMORY, memory_new(w));
    table_cell_take(table, COLUMN_RUNS, xasprintf("%u", contest_n_runs(b->contest, variant)));
    table_cell_take(table, COLUMN_NOTE, visible_new(w->end));
}

/* ---- sentences ---- */

static void devices_sentence(const struct benching *b, struct buf *out)
{
    const struct device *device =
        &b->session.allocation.devices.at[b->session.allocation.seats[0].devices[0]];
    buf_addf(out, "%u x %s; %u round%s in turn, medians (minimum-maximum)\n",
             b->session.allocation.n_seats, device->name, contest_n_rounds(b->contest),
             plural(contest_n_rounds(b->contest)));
}

/* Adds why there are no speed-ups although there are rates. */
static void baseline_sentence(const struct benching *b, struct buf *out)
{
    cleanup_buf struct buf name = BUF_INIT;
    if (contest_outcome(b->contest, 0) == CONTEST_OK)
        return;
    variant_name_add(b, 0, &name);
    buf_addf(out,
             "no speed-ups: the first row (%s), with which the others are compared, was not "
             "measured to its end\n",
             buf_text(&name));
}

static bool is_certain(const struct benching *b, uint32_t best)
{
    for (uint32_t i = 0; i < b->n_variants; i++)
        if (i != best && contest_outcome(b->contest, i) == CONTEST_OK &&
            contest_compare(b->contest, i, best, contest_deciding(b->contest)) == CONTEST_OPEN)
            return false;
    return true;
}

static void best_sentence(const struct benching *b, struct buf *out)
{
    uint32_t best;
    char times[24];
    enum contest_figure figure = contest_deciding(b->contest);
    if (b->n_variants < 2 || !contest_best(b->contest, &best))
        return;
    struct contest_ratio ratio = contest_ratio(b->contest, best, 0, figure);
    buf_add_text(out, is_certain(b, best) ? "fastest: " : "fastest by the medians: ");
    variant_name_add(b, best, out);
    bench_number_format(times, ratio.spread.median);
    if (best == 0)
        buf_add_text(out, ", the first row");
    else if (ratio.spread.n > 0)
        buf_addf(out, ", %s times the first row", times);
    buf_addf(out, "%s\n", figure == CONTEST_LOADED ? " when loaded" : "");
}

/*
 * Adds "a and b are as fast" or "… may be" for the best variant and each variant that is as fast;
 * at most OPEN_SAID of them.
 */
static void alike_sentences(const struct benching *b, uint32_t best, enum contest_verdict verdict,
                            const char *text, struct buf *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n_variants; i++) {
        bool is_other = i != best && contest_outcome(b->contest, i) == CONTEST_OK;
        if (!is_other ||
            contest_compare(b->contest, i, best, contest_deciding(b->contest)) != verdict)
            continue;
        if (++n > OPEN_SAID)
            continue;
        buf_add_text(out, n > 1 ? "; " : text);
        variant_name_add(b, i, out);
    }
    if (n > OPEN_SAID)
        buf_addf(out, "; and %u more", n - OPEN_SAID);
    if (n > 0)
        buf_add_char(out, '\n');
}

static void end_sentence(const struct benching *b, struct buf *out)
{
    static const char *const texts[] = {
        [CONTEST_GOES_ON] = "interrupted: this is what was measured until then\n",
        [CONTEST_CLEAR] = "",
        [CONTEST_ROUNDS] = "",
        [CONTEST_TIME] = "the time of --max-time is over\n",
        [CONTEST_NOTHING] = "",
    };
    buf_add_text(out, texts[b->ended]);
}

static void sentences_add(const struct benching *b, struct buf *out)
{
    uint32_t best;
    baseline_sentence(b, out);
    best_sentence(b, out);
    if (contest_best(b->contest, &best)) {
        alike_sentences(b, best, CONTEST_ALIKE, "as fast as that, within 2 %: ", out);
        alike_sentences(b, best, CONTEST_OPEN, "not certain to be slower (99 %): ", out);
    }
    end_sentence(b, out);
}

void bench_report_add(const struct benching *b, struct buf *out)
{
    struct table table;
    bool is_markdown = b->request->format == BENCH_MARKDOWN;
    table_init(&table, headings, COLUMNS, 1u << COLUMN_METHOD | 1u << COLUMN_NOTE);
    for (uint32_t i = 0; i < b->n_variants; i++)
        row_fill(b, i, &table);
    devices_sentence(b, out);
    if (is_markdown) {
        buf_add_char(out, '\n');
        table_markdown_add(&table, out);
        buf_add_char(out, '\n');
    } else {
        table_text_add(&table, out);
    }
    sentences_add(b, out);
    table_release(&table);
}

void bench_plan_add(const struct benching *b, struct buf *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "would run, up to %lu times in turn:\n", b->request->n_rounds);
    for (uint32_t i = 0; i < b->n_variants; i++) {
        struct env_list words = {0};
        variant_words(b, i, &words);
        buf_add_text(&text, "  ");
        variant_name_add(b, i, &text);
        buf_add_char(&text, ':');
        for (size_t k = 0; k < words.len; k++) {
            buf_add_char(&text, ' ');
            buf_add_shell_word(&text, words.at[k]);
        }
        buf_add_char(&text, '\n');
        env_list_release(&words);
    }
    console_lines_add(out, buf_str(&text));
}
