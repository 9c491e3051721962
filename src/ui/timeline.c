/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/timeline.h"

#include "base/parse.h"
#include "base/xalloc.h"

enum {
    WIDTH = 1200, /* of the plot, in units of the picture */
    LABEL = 90,
    ROW = 14,
    GAP = 4,
    TICKS = 6
};

struct box {
    enum timeline_kind kind;
    uint64_t from_us, to_us;
};

struct row {
    uint32_t worker;
    struct box *boxes;
    size_t n_boxes, cap_boxes;
};

struct timeline {
    uint32_t n_workers, n_rows;
    uint64_t end_us; /* of the last box, which is where the axis ends */
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
    for (uint32_t r = 0; r < timeline->n_rows; r++)
        free(timeline->rows[r].boxes);
    free(timeline);
}

static struct row *row_of(struct timeline *t, uint32_t worker)
{
    uint32_t at = (uint32_t)(((uint64_t)worker * t->n_rows + t->n_workers - 1) / t->n_workers);
    return at < t->n_rows && t->rows[at].worker == worker ? &t->rows[at] : NULL;
}

void timeline_add(struct timeline *timeline, enum timeline_kind kind, uint32_t worker,
                  uint64_t from_us, uint64_t to_us)
{
    struct row *row = row_of(timeline, worker);
    if (!row)
        return;
    timeline->end_us = MAX(timeline->end_us, to_us);
    if (row->n_boxes == row->cap_boxes) {
        row->cap_boxes = row->cap_boxes ? 2 * row->cap_boxes : 64;
        row->boxes = xrealloc(row->boxes, row->cap_boxes * sizeof(*row->boxes));
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    row->boxes[row->n_boxes++] = (struct box){kind, from_us, to_us};
}

static void escaped_add(struct buf *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '<'   ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '&' ? "&amp;"
                                            : NULL;
        if (entity)
            buf_add_text(out, entity);
        else
            buf_add_char(out, *text);
    }
}

static const struct look {
    const char *class, *means;
} looks[TIMELINE_KINDS] = {
    [TIMELINE_LOADING] = {"loading", "loads its model"},
    [TIMELINE_ITEM] = {"item", "an item that counted"},
    [TIMELINE_LOST] = {"lost", "work for nothing"},
};

static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n<style>\n"
    ":root{color-scheme:light dark;--ink:#1c2024;--paper:#fff;--loading:#e0b04c;--item:#3d7dca;"
    "--lost:#c8413b;--rail:#e9ecef}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e3e6e8;--paper:#16191c;--item:#5b9be6;"
    "--rail:#2a2f34}}\n"
    "body{font:14px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "margin:2em auto;max-width:1340px;padding:0 1em}\n"
    "pre{font:13px/1.45 ui-monospace,monospace;overflow-x:auto}\nsvg{width:100%%;height:auto}\n"
    "text{font-size:11px;fill:var(--ink)}.rail{fill:var(--rail)}.tick{stroke:var(--rail)}\n"
    "rect.item{stroke:var(--paper);stroke-width:.4}\n";

static void legend_add(struct buf *out)
{
    buf_add_text(out, "<p>");
    for (int k = 0; k < TIMELINE_KINDS; k++)
        buf_addf(out,
                 "<svg style=\"width:12px;height:12px\"><rect class=\"%s\" width=\"12\" "
                 "height=\"12\"/></svg> %s &nbsp; ",
                 looks[k].class, looks[k].means);
    buf_add_text(out, "the rest: nothing to do</p>\n");
}

static void axis_add(const struct timeline *t, uint32_t height, struct buf *out)
{
    for (int i = 0; i <= TICKS; i++) {
        char when[24];
        int x = LABEL + WIDTH * i / TICKS;
        duration_format(when, t->end_us / 1000 * (uint64_t)i / TICKS);
        buf_addf(out,
                 "<line class=\"tick\" x1=\"%d\" y1=\"0\" x2=\"%d\" y2=\"%u\"/>"
                 "<text x=\"%d\" y=\"%u\" text-anchor=\"middle\">%s</text>\n",
                 x, x, height, x, height + 14, when);
    }
}

/* The first boxes of these that are drawn as one: alike, each narrow, nothing seen between them. */
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

static void row_add(const struct timeline *t, const struct row *row, uint32_t at, struct buf *out)
{
    uint32_t y = at * (ROW + GAP);
    double scale = (double)WIDTH / (double)t->end_us;
    buf_addf(out,
             "<text x=\"0\" y=\"%u\">worker %u</text><rect class=\"rail\" x=\"%d\" y=\"%u\" "
             "width=\"%d\" height=\"%d\"/>\n",
             y + ROW - 3, row->worker, LABEL, y, WIDTH, ROW);
    for (size_t b = 0, n; b < row->n_boxes; b += n) {
        n = boxes_joined(row->boxes + b, row->n_boxes - b, scale);
        double from = (double)row->boxes[b].from_us * scale;
        double to = (double)row->boxes[b + n - 1].to_us * scale;
        buf_addf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%d\"/>\n",
                 looks[row->boxes[b].kind].class, LABEL + from, y, MAX(to - from, 0.3), ROW);
    }
}

void timeline_page(const struct timeline *timeline, const char *title, const char *text,
                   struct buf *out)
{
    uint32_t height = timeline->n_rows * (ROW + GAP);
    buf_addf(out, page_head, title);
    for (int k = 0; k < TIMELINE_KINDS; k++)
        buf_addf(out, "rect.%s{fill:var(--%s)}\n", looks[k].class, looks[k].class);
    buf_addf(out, "</style></head><body>\n<h1>%s</h1>\n<pre>", title);
    escaped_add(out, text);
    buf_add_text(out, "</pre>\n");
    legend_add(out);
    buf_addf(out, "<svg viewBox=\"0 0 %d %u\" role=\"img\" aria-label=\"%s\">\n",
             LABEL + WIDTH + 40, height + 20, title);
    axis_add(timeline, height, out);
    for (uint32_t r = 0; r < timeline->n_rows; r++)
        row_add(timeline, &timeline->rows[r], r, out);
    buf_add_text(out, "</svg>\n");
    if (timeline->n_rows < timeline->n_workers)
        buf_addf(out, "<p>%u of %u workers are drawn.</p>\n", timeline->n_rows,
                 timeline->n_workers);
    buf_add_text(out, "</body></html>\n");
}
