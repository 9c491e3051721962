/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fit.h"

#include <string.h>

#include "base/attr.h"

enum {
    RESOLUTION = 16, /* sizes that differ by a 16th or less are the same for the search */
    LINE_SIZES = 3,  /* a line through fewer sizes does not end the search */
    PAIRS_MAX = FIT_SIZES_MAX * (FIT_SIZES_MAX - 1) / 2
};

/* A peak may fall by this share from one size to the next: allocators round, and samples miss peaks. */
static const double fall_share = 0.05;
/* Noise is taken to be up to this many times `near`. */
static const double noise_factor = 3;

void fit_begin(struct fit *fit, const struct fit_wish *wish)
{
    struct fit_wish *own = &fit->wish;
    *fit = (struct fit){.wish = *wish};
    own->multiple = MAX(own->multiple, (uint64_t)1);
    own->n_repeats = MAX(own->n_repeats, (uint32_t)1);
    own->max = MAX(own->max - own->max % own->multiple, own->multiple);
    own->start = MIN(MAX(own->start, (uint64_t)1), own->max);
    own->start += (own->multiple - own->start % own->multiple) % own->multiple;
}

/* ---- the trials ---- */

/* The place of a size, or where it belongs. */
static size_t place_of(const struct fit *fit, uint64_t batch)
{
    size_t i = 0;
    while (i < fit->n_sizes && fit->sizes[i].batch < batch)
        i++;
    return i;
}

static struct fit_size *size_at(struct fit *fit, uint64_t batch)
{
    size_t i = place_of(fit, batch);
    if (i < fit->n_sizes && fit->sizes[i].batch == batch)
        return &fit->sizes[i];
    ASSERT(fit->n_sizes < FIT_SIZES_MAX);
    memmove(&fit->sizes[i + 1], &fit->sizes[i], (fit->n_sizes - i) * sizeof(fit->sizes[0]));
    fit->n_sizes++;
    fit->sizes[i] = (struct fit_size){.batch = batch};
    return &fit->sizes[i];
}

/* Neither NaN nor infinite, and not so small or large that products of rates leave the range. */
static bool is_rate(double rate)
{
    return rate > 1e-100 && rate < 1e100;
}

void fit_took(struct fit *fit, const struct fit_trial *trial)
{
    struct fit_size *size = size_at(fit, trial->batch);
    bool is_good = trial->outcome == FIT_OK;
    if (size->n_runs > 0 && (size->outcome == FIT_OK) != is_good)
        fit->is_unsteady = true;
    if (size->n_runs == 0 || !is_good)
        size->outcome = trial->outcome;
    size->n_runs++;
    if (is_good) {
        size->peak_bytes = MAX(size->peak_bytes, trial->peak_bytes);
        size->rate = is_rate(trial->rate) ? MAX(size->rate, trial->rate) : size->rate;
    }
}

/* ---- the line through peak memory ---- */

struct slope {
    double value, weight;
};

static bool has_peak(const struct fit_size *size)
{
    return size->outcome == FIT_OK && size->peak_bytes > 0;
}

static void slope_insert(struct slope *slopes, size_t n, struct slope added)
{
    size_t i = n;
    for (; i > 0 && slopes[i - 1].value > added.value; i--)
        slopes[i] = slopes[i - 1];
    slopes[i] = added;
}

static size_t slopes_of(const struct fit *fit, struct slope slopes[PAIRS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < fit->n_sizes; i++) {
        for (size_t k = i + 1; k < fit->n_sizes; k++) {
            const struct fit_size *a = &fit->sizes[i], *b = &fit->sizes[k];
            double apart = (double)(b->batch - a->batch);
            if (!has_peak(a) || !has_peak(b))
                continue;
            double rise = (double)b->peak_bytes - (double)a->peak_bytes;
            slope_insert(slopes, n++, (struct slope){rise / apart, apart});
        }
    }
    return n;
}

static double weighted_median(const struct slope *slopes, size_t n)
{
    double total = 0, sum = 0;
    size_t i = 0;
    for (size_t k = 0; k < n; k++)
        total += slopes[k].weight;
    while (i + 1 < n && (sum += slopes[i].weight) < total / 2)
        i++;
    return slopes[i].value;
}

/* A size with a clearly lower peak than a smaller one. */
static bool falls(const struct fit *fit)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < fit->n_sizes; i++) {
        const struct fit_size *size = &fit->sizes[i];
        if (!has_peak(size))
            continue;
        if ((double)size->peak_bytes < (1 - fall_share) * (double)highest)
            return true;
        highest = MAX(highest, size->peak_bytes);
    }
    return false;
}

struct fit_line fit_line_of(const struct fit *fit)
{
    struct slope slopes[PAIRS_MAX];
    struct fit_line line = {0};
    size_t n_slopes = slopes_of(fit, slopes), n = 0;
    if (n_slopes == 0 || falls(fit))
        return line;
    line.item_bytes = weighted_median(slopes, n_slopes);
    if (!(line.item_bytes > 0))
        return (struct fit_line){0};
    for (size_t i = 0; i < fit->n_sizes; i++) {
        const struct fit_size *size = &fit->sizes[i];
        double rest = (double)size->peak_bytes - line.item_bytes * (double)size->batch;
        if (has_peak(size))
            slope_insert(slopes, n++, (struct slope){rest, 1});
    }
    line.fixed_bytes = weighted_median(slopes, n);
    line.is_known = true;
    return line;
}

static double line_at(const struct fit_line *line, uint64_t batch)
{
    return line->fixed_bytes + line->item_bytes * (double)batch;
}

/* ---- good sizes, and those that are out ---- */

struct view {
    const struct fit *fit;
    struct fit_line line;
    const struct fit_size *good,
        *out; /* the largest good one, the smallest that is out; NULL: none */
};

/*
 * The memory that a size takes: at least the peak that was seen, and at least what the line says, since samples miss
 * peaks.
 */
static uint64_t peak_of(const struct view *view, const struct fit_size *size)
{
    double by_line = view->line.is_known ? line_at(&view->line, size->batch) : 0;
    return size->peak_bytes == 0 ? 0 : MAX(size->peak_bytes, (uint64_t)MAX(by_line, 0.0));
}

static bool is_over(const struct view *view, const struct fit_size *size)
{
    uint64_t limit_bytes = view->fit->wish.limit_bytes;
    return limit_bytes > 0 && peak_of(view, size) > limit_bytes;
}

static struct view view_of(const struct fit *fit)
{
    struct view view = {.fit = fit, .line = fit_line_of(fit)};
    for (size_t i = 0; i < fit->n_sizes && !view.out; i++) {
        const struct fit_size *size = &fit->sizes[i];
        if (size->outcome != FIT_OK || is_over(&view, size))
            view.out = size;
        else
            view.good = size;
    }
    return view;
}

/* The best rate among the good sizes above `low` and up to `high`; 0: none is known. */
static double rate_within(const struct view *view, uint64_t low, uint64_t high)
{
    double best = 0;
    for (const struct fit_size *size = view->fit->sizes; view->good && size <= view->good; size++)
        if (size->batch > low && size->batch <= high)
            best = MAX(best, size->rate);
    return best;
}

static double best_rate(const struct view *view)
{
    return rate_within(view, 0, UINT64_MAX);
}

/*
 * Two doublings brought nothing, as far as is known by now. One would not be enough: on a machine with other work a run
 * may be slower by a third, and some sizes suit a device badly.
 */
static bool is_flat(const struct view *view)
{
    uint64_t quarter = view->good ? view->good->batch / 4 : 0;
    double before = rate_within(view, 0, quarter);
    return before > 0 &&
           rate_within(view, quarter, UINT64_MAX) < (1 + view->fit->wish.near) * before;
}

/* ---- what to try next ---- */

static uint64_t rounded_down(const struct fit *fit, uint64_t batch)
{
    return batch - batch % fit->wish.multiple;
}

static uint64_t resolution_at(const struct fit *fit, uint64_t batch)
{
    return MAX(rounded_down(fit, batch / RESOLUTION), fit->wish.multiple);
}

/* The largest size that stays below the limit by the line; UINT64_MAX: not known. */
static uint64_t guess_of(const struct view *view)
{
    double limit = (double)view->fit->wish.limit_bytes, room = limit - view->line.fixed_bytes;
    if (!view->line.is_known || view->fit->wish.limit_bytes == 0)
        return UINT64_MAX;
    if (room <= 0)
        return 0;
    double guess = room / view->line.item_bytes;
    return guess < 1e18 ? rounded_down(view->fit, (uint64_t)guess) : UINT64_MAX;
}

/*
 * Nothing is out yet: twice the size, but not more than the line and the largest size allow. 0:
 * there is none. Two sizes make a steep line if the second one has a buffer that the first did
 * not need, so then a small step is tried first.
 */
static uint64_t grown(const struct view *view)
{
    const struct fit *fit = view->fit;
    uint64_t at = view->good->batch, max = fit->wish.max, step = resolution_at(fit, at);
    uint64_t next = at > max / 2 ? max : 2 * at, guess = guess_of(view);
    if (guess >= next)
        return next > at ? next : 0;
    if (guess > at && guess - at >= step)
        return guess;
    return fit->n_sizes < LINE_SIZES ? at + step : 0;
}

/* Between the largest good size and the smallest that is out. 0: they are near enough. */
static uint64_t between(const struct view *view)
{
    const struct fit *fit = view->fit;
    uint64_t low = view->good ? view->good->batch : 0, high = view->out->batch;
    uint64_t step = resolution_at(fit, low), guess = guess_of(view);
    if (high - low <= step || view->out->outcome == FIT_TIMEOUT)
        return 0; /* a size that took too long is not worth further tries */
    /*
     * If a size is out that the line allows, the line is wrong or memory is not the reason. If
     * none is good, the line is not enough to say that none can be.
     */
    if (view->good && guess < high) {
        uint64_t near = MIN(guess, high - step);
        bool is_news = near > low && near - low >= step;
        return is_news ? near : fit->n_sizes < LINE_SIZES ? low + step : 0;
    }
    return low + MAX(rounded_down(fit, (high - low) / 2), fit->wish.multiple);
}

/* A size that was not run often enough, and whose rate differs from the fastest one by no more than noise. */
static uint64_t doubtful(const struct view *view)
{
    const struct fit_wish *wish = &view->fit->wish;
    double best = best_rate(view);
    if (view->good == view->fit->sizes)
        return 0; /* one size is not compared with any other */
    for (const struct fit_size *size = view->fit->sizes; view->good && size <= view->good; size++)
        if (size->rate > 0 && size->rate >= (1 - noise_factor * wish->near) * best &&
            size->n_runs < wish->n_repeats)
            return size->batch;
    return 0;
}

/* Of the sizes that are not faster, the largest that was not run often enough to be sure. 0: there is none. */
static uint64_t unsure(const struct view *view)
{
    /* The smaller size with which they are compared ends the loop. */
    for (const struct fit_size *size = view->good; size->batch > view->good->batch / 4; size--)
        if (size->n_runs < view->fit->wish.n_repeats)
            return size->batch;
    return 0;
}

struct fit_step fit_next(const struct fit *fit)
{
    struct view view = view_of(fit);
    const struct fit_size *first = &fit->sizes[0];
    uint64_t batch = 0;
    if (fit->n_sizes == 0)
        return (struct fit_step){FIT_TRY, fit->wish.start};
    bool has_failed = first->outcome == FIT_FAILED || first->outcome == FIT_TIMEOUT;
    if (fit->n_sizes == 1 && has_failed)
        return (struct fit_step){.kind = FIT_REFUSED};
    if (is_flat(&view))
        batch = unsure(&view);
    else if (fit->n_sizes < FIT_SIZES_MAX)
        batch = view.out ? between(&view) : grown(&view);
    if (batch == 0)
        batch = doubtful(&view);
    return batch > 0 ? (struct fit_step){FIT_TRY, batch} : (struct fit_step){.kind = FIT_END};
}

/* ---- what was found ---- */

static enum fit_bound bound_of(const struct view *view, const struct fit_size *best)
{
    static const enum fit_bound of[FIT_OUTCOMES] = {[FIT_OK] = FIT_BOUND_MEMORY,
                                                    [FIT_OOM] = FIT_BOUND_MEMORY,
                                                    [FIT_FAILED] = FIT_BOUND_FAILURE,
                                                    [FIT_TIMEOUT] = FIT_BOUND_TIME};
    if (!best)
        return FIT_BOUND_NONE;
    if (best != view->good)
        return FIT_BOUND_RATE;
    if (view->out)
        return of[view->out->outcome];
    return best->batch >= view->fit->wish.max ? FIT_BOUND_MAX : FIT_BOUND_MEMORY;
}

/* The smallest good size that is as fast as the fastest; without rates the largest one. */
static const struct fit_size *best_of(const struct view *view)
{
    double enough = (1 - view->fit->wish.near) * best_rate(view);
    if (enough <= 0)
        return view->good;
    const struct fit_size *size = view->fit->sizes;
    while (size->rate < enough) /* the fastest size ends the loop */
        size++;
    return size;
}

void fit_result(const struct fit *fit, struct fit_result *out)
{
    struct view view = view_of(fit);
    const struct fit_size *best = view.good ? best_of(&view) : NULL;
    *out = (struct fit_result){
        .bound = bound_of(&view, best), .line = view.line, .peak_falls = falls(fit)};
    if (!best)
        return;
    out->batch = best->batch;
    out->peak_bytes = peak_of(&view, best);
    out->rate = best->rate;
}
