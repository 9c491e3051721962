/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/timeline.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/markup.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    WIDTH = 1200, /* width of the plot, in units of the picture */
    LABEL = 90,
    LABEL_CHARS = 14, /* characters for which a label has room */
    TOP = 18,
    ROW = 14,
    GAP = 4,
    TICK = 5,
    TICKS_MAX = 8
};

struct box {
    enum timeline_kind kind;
    uint64_t from_us, to_us;
};

struct row {
    uint32_t worker;
    char *name; /* NULL: the number is shown */
    struct box *boxes;
    size_t n_boxes, cap_boxes;
};

struct timeline {
    uint32_t n_workers, n_rows;
    uint64_t end_us;  /* end of the last box, which is the end of the axis */
    uint64_t done_us; /* 0: not known */
    bool has_overlap; /* a worker does several things at one time */
    struct row rows[TIMELINE_ROWS];
};

struct timeline *timeline_new(uint32_t n_workers)
{
    struct timeline *t = xcalloc(1, sizeof(*t));
    t->n_workers = n_workers;
    t->n_rows = MIN(n_workers, (uint32_t)TIMELINE_ROWS);
    t->end_us = 1;
    for (uint32_t r = 0; r < t->n_rows; r++)
        t->rows[r].worker = (uint32_t)((uint64_t)r * n_workers / t->n_rows);
    return t;
}

void timeline_free(struct timeline *timeline)
{
    if (!timeline)
        return;
    for (uint32_t r = 0; r < timeline->n_rows; r++) {
        free(timeline->rows[r].boxes);
        free(timeline->rows[r].name);
    }
    free(timeline);
}

static struct row *row_of(struct timeline *t, uint32_t worker)
{
    uint32_t at = (uint32_t)(((uint64_t)worker * t->n_rows + t->n_workers - 1) / t->n_workers);
    return at < t->n_rows && t->rows[at].worker == worker ? &t->rows[at] : NULL;
}

void timeline_name(struct timeline *timeline, uint32_t worker, const char *name)
{
    struct row *row = row_of(timeline, worker);
    if (!row)
        return;
    free(row->name);
    row->name = xstrdup(name);
}

void timeline_add(struct timeline *timeline, enum timeline_kind kind, uint32_t worker,
                  uint64_t from_us, uint64_t to_us)
{
    struct row *row = row_of(timeline, worker);
    if (!row)
        return;
    timeline->end_us = MAX(timeline->end_us, to_us);
    if (row->n_boxes > 0 && from_us < row->boxes[row->n_boxes - 1].to_us)
        timeline->has_overlap = true;
    if (row->n_boxes == row->cap_boxes) {
        row->cap_boxes = row->cap_boxes ? 2 * row->cap_boxes : 64;
        row->boxes = xrealloc(row->boxes, row->cap_boxes * sizeof(*row->boxes));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    row->boxes[row->n_boxes++] = (struct box){kind, from_us, to_us};
}

void timeline_mark_end(struct timeline *timeline, uint64_t at_us)
{
    timeline->done_us = at_us;
    timeline->end_us = MAX(timeline->end_us, at_us);
}

static const struct look {
    const char *class, *means;
} looks[TIMELINE_KINDS] = {
    [TIMELINE_LOADING] = {"loading", "loads its model"},
    [TIMELINE_ITEM] = {"item", "an item that counted"},
    [TIMELINE_LOST] = {"lost", "work for nothing"},
};

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1c2024;--paper:#fff;--loading:#e0b04c;--item:#3d7dca;"
    "--lost:#c8413b;--rail:#e9ecef}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e3e6e8;--paper:#16191c;--item:#5b9be6;"
    "--rail:#2a2f34}}\n"
    "body{font:14px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "margin:2em auto;max-width:1340px;padding:0 1em}\n"
    "pre{font:13px/1.45 ui-monospace,monospace;overflow-x:auto}\n"
    ".plot{overflow-x:auto}.plot svg{width:100%;min-width:900px;height:auto}\n"
    "text{font-size:11px;fill:var(--ink)}.rail{fill:var(--rail)}.tick,.done{stroke:var(--ink)}\n"
    ".done{stroke-dasharray:4 3}rect.item{stroke:var(--paper);stroke-width:.4}\n";

static void legend_add(const struct timeline *t, struct buf *out)
{
    buf_add_text(out, "<p>");
    for (int k = 0; k < TIMELINE_KINDS; k++)
        buf_addf(out,
                 "<svg style=\"width:12px;height:12px\"><rect class=\"%s\" width=\"12\" "
                 "height=\"12\"/></svg> %s &nbsp; ",
                 looks[k].class, looks[k].means);
    buf_addf(out, "the rest: nothing to do%s</p>\n",
             t->has_overlap ? "; stronger: several items side by side" : "");
}

/* The smallest round step that divides the axis into at most TICKS_MAX pieces. */
static uint64_t tick_us(const struct timeline *t)
{
    static const uint32_t steps_s[] = {1,   2,   5,    10,   15,   30,    60,    120,   300,
                                       600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400};
    uint64_t step_us = 1;
    for (int digit = 0; step_us < 1000000 && t->end_us / step_us > TICKS_MAX; digit++)
        step_us = digit % 3 == 1 ? step_us / 2 * 5 : step_us * 2; /* 1 2 5 10 20 50 … */
    if (step_us < 1000000)
        return step_us;
    for (size_t i = 0; i < countof(steps_s); i++)
        if (t->end_us / (steps_s[i] * UINT64_C(1000000)) <= TICKS_MAX)
            return steps_s[i] * UINT64_C(1000000);
    for (step_us = 86400 * UINT64_C(1000000); t->end_us / step_us > TICKS_MAX;)
        step_us *= 2;
    return step_us;
}

static double x_of(const struct timeline *t, uint64_t at_us)
{
    return LABEL + (double)WIDTH * (double)at_us / (double)t->end_us;
}

static void axis_add(const struct timeline *t, uint32_t height, struct buf *out)
{
    uint64_t step_us = tick_us(t);
    for (uint64_t at_us = 0; at_us <= t->end_us; at_us += step_us) {
        char when[24] = "0";
        double x = x_of(t, at_us);
        if (at_us > 0 && step_us < 1000)
            snprintf(when, sizeof(when), "%lu us", (unsigned long)at_us);
        else if (at_us > 0)
            duration_format(when, at_us / 1000);
        buf_addf(out,
                 "<line class=\"tick\" x1=\"%.1f\" y1=\"%u\" x2=\"%.1f\" y2=\"%u\"/>"
                 "<text x=\"%.1f\" y=\"%u\" text-anchor=\"middle\">%s</text>\n",
                 x, height, x, height + TICK, x, height + TICK + 12, when);
    }
}

static void done_add(const struct timeline *t, uint32_t height, struct buf *out)
{
    char when[24];
    double x = x_of(t, t->done_us);
    if (t->done_us == 0)
        return;
    duration_format(when, t->done_us / 1000);
    buf_addf(out,
             "<line class=\"done\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%u\"/>"
             "<text x=\"%.1f\" y=\"%d\" text-anchor=\"end\">all done after %s</text>\n",
             x, TOP - 12, x, height, x - 5, TOP - 6, when);
}

/*
 * How many of the first boxes are drawn as one. Boxes of the first one's kind join it while each is narrow and the
 * gap before it is too small to be seen.
 */
static size_t boxes_joined(const struct box *boxes, size_t n_boxes, double scale)
{
    size_t n = 1;
    for (; n < n_boxes && boxes[n].kind == boxes[0].kind; n++) {
        double width = (double)(boxes[n].to_us - boxes[n].from_us) * scale;
        double gap = ((double)boxes[n].from_us - (double)boxes[n - 1].to_us) * scale;
        if (width >= 3 || gap >= 0.5)
            break;
    }
    return n;
}

/* Adds a label. A long name is drawn narrower. */
static void label_add(const struct row *row, uint32_t y, struct buf *out)
{
    cleanup_free char *label = row->name ? xstrdup(row->name) : xasprintf("worker %u", row->worker);
    buf_addf(out, "<text x=\"0\" y=\"%u\"", y);
    if (strlen(label) > LABEL_CHARS)
        buf_addf(out, " textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\"", LABEL - 5);
    buf_add_char(out, '>');
    markup_text_add(out, str_of(label));
    buf_add_text(out, "</text>");
}

static void row_add(const struct timeline *t, const struct row *row, uint32_t at, struct buf *out)
{
    uint32_t y = TOP + at * (ROW + GAP);
    double scale = (double)WIDTH / (double)t->end_us;
    label_add(row, y + ROW - 3, out);
    buf_addf(out, "<rect class=\"rail\" x=\"%d\" y=\"%u\" width=\"%d\" height=\"%d\"/>\n", LABEL, y,
             WIDTH, ROW);
    for (size_t b = 0, n; b < row->n_boxes; b += n) {
        n = boxes_joined(row->boxes + b, row->n_boxes - b, scale);
        double from = (double)row->boxes[b].from_us * scale;
        double to = (double)row->boxes[b + n - 1].to_us * scale;
        buf_addf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\"/>\n",
                 looks[row->boxes[b].kind].class, LABEL + from, y, MAX(to - from, 0.3), ROW);
    }
}

static void style_add(const struct timeline *timeline, struct buf *out)
{
    buf_addf(out, "<style>\n%s", style);
    for (int k = 0; k < TIMELINE_KINDS; k++)
        buf_addf(out, "rect.%s{fill:var(--%s)}\n", looks[k].class, looks[k].class);
    if (timeline->has_overlap)
        buf_add_text(out, ".plot rect.item{fill-opacity:.45;stroke:none}\n"
                          ".plot rect.lost{fill-opacity:.75}\n");
    buf_add_text(out, "</style>");
}

static void rows_add(const struct timeline *timeline, struct buf *out)
{
    uint32_t height = TOP + timeline->n_rows * (ROW + GAP);
    for (uint32_t r = 0; r < timeline->n_rows; r++)
        row_add(timeline, &timeline->rows[r], r, out);
    axis_add(timeline, height, out);
    done_add(timeline, height, out);
    buf_add_text(out, "</svg>");
}

static void svg_begin(const struct timeline *timeline, const char *title, const char *attributes,
                      struct buf *out)
{
    buf_addf(out, "<svg%s viewBox=\"0 0 %d %u\" role=\"img\" aria-label=\"%s\">\n", attributes,
             LABEL + WIDTH + 40, TOP + timeline->n_rows * (ROW + GAP) + TICK + 16, title);
}

void timeline_page(const struct timeline *timeline, const char *title, const char *text,
                   struct buf *out)
{
    buf_addf(out,
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n",
             title);
    style_add(timeline, out);
    buf_addf(out, "</head><body>\n<h1>%s</h1>\n<pre>", title);
    markup_text_add(out, str_of(text));
    buf_add_text(out, "</pre>\n");
    legend_add(timeline, out);
    buf_add_text(out, "<div class=\"plot\">");
    svg_begin(timeline, title, "", out);
    rows_add(timeline, out);
    buf_add_text(out, "</div>\n");
    if (timeline->n_rows < timeline->n_workers)
        buf_addf(out, "<p>%u of %u workers are drawn.</p>\n", timeline->n_rows,
                 timeline->n_workers);
    buf_add_text(out, "</body></html>\n");
}

void timeline_picture(const struct timeline *timeline, const char *title, struct buf *out)
{
    svg_begin(timeline, title,
              " xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" "
              "font-family=\"system-ui, sans-serif\"",
              out);
    style_add(timeline, out);
    rows_add(timeline, out);
    buf_add_char(out, '\n');
}
