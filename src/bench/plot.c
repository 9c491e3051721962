/* SPDX-License-Identifier: Apache-2.0
 *
 * The result as an SVG picture. Each variant has a bar, as long as its median rate, and a line from
 * its lowest to its highest rate. A mark shows the rate that the variant would have if it used its
 * devices as well as the variant with the fewest devices does.
 */
#include "base/markup.h"
#include "bench/bench_impl.h"

enum {
    LABEL_WIDTH = 260,
    BAR_WIDTH = 560,
    VALUE_WIDTH = 200,
    ROW_HEIGHT = 26,
    BAR_HEIGHT = 16,
    TOP_HEIGHT = 40
};

static const char head[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" role=\"img\" "
    "font-family=\"system-ui,sans-serif\" font-size=\"12\">\n"
    "<style>:root{color-scheme:light dark}text{fill:#1c2024}.bar{fill:#3d7dca}.out{fill:#c8413b}"
    ".range{stroke:#1c2024}.ideal{stroke:#e0b04c;stroke-width:3}"
    "@media(prefers-color-scheme:dark){text{fill:#e3e6e8}.bar{fill:#5b9be6}.range{stroke:#e3e6e8}}"
    "</style>\n";

static struct contest_spread rate_of(const struct benching *b, uint32_t variant)
{
    return contest_figure(b->contest, variant, contest_deciding(b->contest));
}

/*
 * The rate of the variant if it used its devices as well as the variant with the fewest devices
 * does; 0: not known.
 */
static double ideal_of(const struct benching *b, uint32_t variant)
{
    double efficiency = variant_efficiency(b, variant);
    return efficiency > 0 ? rate_of(b, variant).median / efficiency : 0;
}

static double rate_max(const struct benching *b)
{
    double most = 0;
    for (uint32_t i = 0; i < b->n_variants; i++)
        most = MAX(most, MAX(rate_of(b, i).max, ideal_of(b, i)));
    return most > 0 ? most : 1;
}

static void label_add(const struct benching *b, uint32_t variant, int y, struct buf *out)
{
    struct buf name = BUF_INIT;
    variant_name_add(b, variant, &name);
    buf_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LABEL_WIDTH - 8,
             y + BAR_HEIGHT - 4);
    markup_text_add(out, buf_str(&name));
    buf_add_text(out, "</text>\n");
    buf_release(&name);
}

static void bar_add(const struct benching *b, uint32_t variant, double scale, int y,
                    struct buf *out)
{
    struct contest_spread rate = rate_of(b, variant);
    int middle = y + BAR_HEIGHT / 2;
    double ideal = ideal_of(b, variant);
    buf_addf(out, "<rect class=\"bar\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
             LABEL_WIDTH, y, rate.median * scale, BAR_HEIGHT);
    buf_addf(out, "<line class=\"range\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n",
             LABEL_WIDTH + rate.min * scale, LABEL_WIDTH + rate.max * scale, middle, middle);
    if (ideal > 0)
        buf_addf(out, "<line class=\"ideal\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n",
                 LABEL_WIDTH + ideal * scale, LABEL_WIDTH + ideal * scale, y - 2,
                 y + BAR_HEIGHT + 2);
}

static void value_add(const struct benching *b, uint32_t variant, int y, struct buf *out)
{
    char number[24];
    enum contest_figure figure = contest_deciding(b->contest);
    struct contest_spread rate = rate_of(b, variant);
    struct contest_ratio ratio = contest_ratio(b->contest, variant, 0, figure);
    buf_addf(out, "<text x=\"%d\" y=\"%d\">", LABEL_WIDTH + BAR_WIDTH + 10, y + BAR_HEIGHT - 4);
    if (rate.n == 0) {
        markup_text_add(out, str_of(contest_outcome_name(contest_outcome(b->contest, variant))));
    } else {
        bench_number_format(number, rate.median);
        buf_addf(out, "%s", number);
    }
    if (ratio.spread.n > 0) {
        bench_number_format(number, ratio.spread.median);
        buf_addf(out, ", %s x", variant == 0 ? "1" : number);
    }
    buf_add_text(out, "</text>\n");
}

void bench_plot_add(const struct benching *b, struct buf *out)
{
    double scale = BAR_WIDTH / rate_max(b);
    bool is_loaded = contest_deciding(b->contest) == CONTEST_LOADED;
    buf_addf(out, head, LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH,
             TOP_HEIGHT + b->n_variants * ROW_HEIGHT + 10);
    buf_addf(out,
             "<title>muster bench</title>\n<text x=\"%d\" y=\"20\">%s a second%s, and times "
             "the first row; medians and ranges of %u round%s</text>\n",
             LABEL_WIDTH, unit_of(b), is_loaded ? " when loaded" : "", contest_n_rounds(b->contest),
             contest_n_rounds(b->contest) == 1 ? "" : "s");
    for (uint32_t i = 0; i < b->n_variants; i++) {
        int y = TOP_HEIGHT + (int)i * ROW_HEIGHT;
        label_add(b, i, y, out);
        if (rate_of(b, i).n > 0)
            bar_add(b, i, scale, y, out);
        value_add(b, i, y, out);
    }
    buf_add_text(out, "</svg>\n");
}
