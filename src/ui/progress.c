/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    DRAW_EVERY_MS = 100,
    PLAIN_EVERY_MS = 5000,
    PLAIN_FIRST_MS = 2000,
    PLAIN_MAX_MS = 60000,
    WORKER_LINES_MAX = 16
};

/* A hundred years. A longer estimate means no more than "never". */
static const uint64_t ETA_MAX_MS = 3153600000000;
/* 2^53: a larger number has no fraction, and may have 309 digits */
static const double ACCURACY_IN_FULL = 9007199254740992;

struct progress {
    struct progress_opts opts;
    uint64_t drawn_ms, plain_ms;
    int lines_shown;
    struct buf screen; /* the lines that were drawn last */
};

struct progress *progress_new(const struct progress_opts *opts)
{
    struct progress *p = xcalloc(1, sizeof(*p));
    p->opts = *opts;
    if (p->opts.plain_every_ms == 0)
        p->opts.plain_every_ms = PLAIN_EVERY_MS;
    return p;
}

void progress_free(struct progress *p)
{
    if (!p)
        return;
    buf_release(&p->screen);
    free(p);
}

static void say(struct str text)
{
    if (write_patiently(STDERR_FILENO, text.at, text.len, 0, NULL) < 1)
        return; /* the terminal has gone, or nobody reads stderr; the run goes on */
}

uint64_t progress_eta_ms(const struct progress_total *total)
{
    uint64_t settled = total->done + total->aside;
    if (!total->input_is_final || total->items_per_s <= 0)
        return UINT64_MAX;
    uint64_t left = total->known - MIN(total->known, settled);
    double by_rate_ms = (double)left * 1000.0 / total->items_per_s;
    double each_ms = (double)MAX(total->n_workers, (size_t)1) * 1000.0 / total->items_per_s;
    /* Rule of thumb: an overdue item will take as long again as it has exceeded the average. */
    double overdue_ms =
        (double)total->oldest_ms > 2 * each_ms ? (double)total->oldest_ms - each_ms : 0;
    return (uint64_t)MIN(MAX(by_rate_ms, overdue_ms), (double)ETA_MAX_MS);
}

void accuracy_add(struct buf *out, const char *before, double correct, double seen)
{
    double accuracy = correct / seen;
    buf_addf(out, accuracy < ACCURACY_IN_FULL ? "%saccuracy %.4f" : "%saccuracy %.4g", before,
             accuracy);
}

static void total_line(const struct progress_total *t, struct buf *out)
{
    char settled[32], known[32], eta[24] = "?", elapsed[24], rate[24];
    uint64_t eta_ms = progress_eta_ms(t);
    count_format(settled, t->done + t->aside);
    count_format(known, t->known);
    duration_format(elapsed, t->elapsed_ms);
    if (eta_ms != UINT64_MAX)
        duration_format(eta, eta_ms);
    buf_addf(out, "%s of %s%s", settled, known, t->input_is_final ? "" : "+");
    if (t->input_is_final && t->known > 0)
        buf_addf(out, " (%.1f %%)", percent_of(t->done + t->aside, t->known));
    figures_format(rate, t->items_per_s);
    buf_addf(out, ", %s/s, %s, left %s", rate, elapsed, eta);
    if (t->seen > 0)
        accuracy_add(out, ", ", t->correct, t->seen);
    if (t->aside > 0)
        buf_addf(out, ", %lu failed", t->aside);
    if (t->retries > 0)
        buf_addf(out, ", %lu %s", t->retries, counted_noun(t->retries, "retry", "retries"));
}

static void worker_line(const struct progress_worker *w, struct buf *out)
{
    char done[32], used[16], total[16], rate[24];
    count_format(done, w->done);
    figures_format(rate, w->items_per_s);
    buf_addf(out, "  %-8s %-8s %10s  %8s/s  %4u in flight", w->label, w->state, done, rate,
             w->in_flight);
    if (w->mem_used_bytes > 0 && w->mem_total_bytes > 0) {
        size_format(used, w->mem_used_bytes);
        size_format(total, w->mem_total_bytes);
        buf_addf(out, "  %s of %s", used, total);
    }
    if (w->last_word && *w->last_word)
        buf_addf(out, "  %s", w->last_word);
}

static size_t columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

/* Cut at `width` characters, never inside a UTF-8 sequence. */
static void line_add(struct buf *out, struct str line, size_t width)
{
    size_t used = 0, at = 0;
    while (at < line.len && used < width) {
        at++;
        while (at < line.len && ((unsigned char)line.at[at] & 0xc0) == 0x80)
            at++;
        used++;
    }
    buf_add(out, line.at, at);
    buf_add_text(out, "\x1b[K\n");
}

void progress_hide(void *context)
{
    struct progress *p = context;
    if (!p || p->lines_shown == 0)
        return;
    cleanup_buf struct buf out = BUF_INIT;
    buf_addf(&out, "\x1b[%dA\x1b[J", p->lines_shown);
    say(buf_str(&out));
    p->lines_shown = 0;
}

void progress_back(void *context)
{
    struct progress *p = context;
    if (!p || !p->opts.is_terminal || p->screen.len == 0)
        return;
    for (size_t i = 0; i < p->screen.len; i++)
        p->lines_shown += p->screen.at[i] == '\n';
    say(buf_str(&p->screen));
}

static void draw(struct progress *p, const struct progress_total *t)
{
    size_t width = columns(), shown = MIN(t->n_workers, (size_t)WORKER_LINES_MAX);
    cleanup_buf struct buf line = BUF_INIT;
    progress_hide(p);
    buf_reset(&p->screen);
    for (size_t i = 0; i < shown; i++) {
        buf_reset(&line);
        worker_line(&t->workers[i], &line);
        line_add(&p->screen, buf_str(&line), width - 1);
    }
    buf_reset(&line);
    if (shown < t->n_workers)
        buf_addf(&line, "  and %zu worker%s more; ", t->n_workers - shown,
                 plural(t->n_workers - shown));
    total_line(t, &line);
    line_add(&p->screen, buf_str(&line), width - 1);
    progress_back(p);
}

static void plain(const struct progress_total *t)
{
    cleanup_buf struct buf line = BUF_INIT;
    buf_add_text(&line, "muster: ");
    total_line(t, &line);
    buf_add_char(&line, '\n');
    say(buf_str(&line));
}

void progress_show(struct progress *p, const struct progress_total *total, uint64_t now_ms,
                   bool last)
{
    if (p->opts.is_terminal) {
        if (last)
            progress_hide(p);
        else if (now_ms - p->drawn_ms >= DRAW_EVERY_MS)
            draw(p, total);
        if (last)
            buf_reset(&p->screen);
        p->drawn_ms = now_ms;
        return;
    }
    if (p->plain_ms == 0)
        p->plain_ms = now_ms + PLAIN_FIRST_MS - p->opts.plain_every_ms;
    /* Lines come less often with time, so that a run of a whole night does not fill the screen. */
    uint64_t every_ms =
        MIN(MAX(p->opts.plain_every_ms, total->elapsed_ms / 20), (uint64_t)PLAIN_MAX_MS);
    if (last || now_ms - p->plain_ms < every_ms)
        return;
    p->plain_ms = now_ms;
    plain(total);
}
