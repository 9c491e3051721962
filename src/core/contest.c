/* SPDX-License-Identifier: Apache-2.0 */
#include "core/contest.h"

#include <math.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/rng.h"

enum {
    MEDIAN_ROUNDS_LEAST = 8 /* with 8, all ratios are on one side by chance in 2 * 2^-8 = 0.8 % */
};

/* The result of a variant in one round. */
struct lap {
    double seconds; /* 0: it was not run well */
    double figure[CONTEST_FIGURES];
};

struct contest {
    struct contest_wish wish;
    uint64_t n_items;         /* that every run must do; 0: not known yet */
    bool has_work, is_piece;  /* of the first run that ended well */
    uint32_t round, position; /* of the next run: a position in `order` */
    uint32_t n_full;          /* rounds that are complete */
    enum contest_outcome outcome[CONTEST_VARIANTS_MAX];
    uint32_t n_runs[CONTEST_VARIANTS_MAX];
    uint32_t order[CONTEST_VARIANTS_MAX];
    struct lap *laps; /* [rounds_max][n_variants] */
};

/* Two-sided 99 % points of Student's t for 1 … 6 degrees of freedom. */
static const double student_t[] = {63.657, 9.925, 5.841, 4.604, 4.032, 3.707};

static const char *const outcome_names[] = {
#define X(id, name) [CONTEST_##id] = (name),
    CONTEST_OUTCOMES(X)
#undef X
};

const char *contest_outcome_name(enum contest_outcome outcome)
{
    return outcome_names[outcome];
}

/* ---- the order of the runs ---- */

static void order_make(struct contest *c)
{
    uint32_t n = c->wish.n_variants, pair = c->round / 2;
    struct rng rng = {.state = pair};
    for (uint32_t i = 0; i < n; i++)
        c->order[i] = i;
    for (uint32_t i = n; pair > 0 && i > 1; i--) {
        uint32_t other = (uint32_t)rng_below(&rng, i), variant = c->order[i - 1];
        c->order[i - 1] = c->order[other];
        c->order[other] = variant;
    }
    for (uint32_t i = 0; c->round % 2 == 1 && i < n / 2; i++) {
        uint32_t variant = c->order[i];
        c->order[i] = c->order[n - 1 - i];
        c->order[n - 1 - i] = variant;
    }
}

struct contest *contest_new(const struct contest_wish *wish)
{
    ASSERT(wish->n_variants > 0 && wish->n_variants <= CONTEST_VARIANTS_MAX);
    ASSERT(wish->rounds_max > 0 && wish->rounds_max <= CONTEST_ROUNDS_MAX);
    struct contest *c = calloc(1, sizeof(*c));
    struct lap *laps = calloc((size_t)wish->rounds_max * wish->n_variants, sizeof(*laps));
    if (!c || !laps) {
        free(laps);
        free(c);
        return NULL;
    }
    c->wish = *wish;
    c->n_items = wish->n_items;
    c->laps = laps;
    order_make(c);
    return c;
}

void contest_free(struct contest *contest)
{
    if (contest)
        free(contest->laps);
    free(contest);
}

static bool is_in(const struct contest *c, uint32_t variant)
{
    return c->outcome[variant] == CONTEST_OK;
}

/* Moves to the next variant that is in. False: the round is complete. */
static bool position_seek(struct contest *c)
{
    while (c->position < c->wish.n_variants && !is_in(c, c->order[c->position]))
        c->position++;
    return c->position < c->wish.n_variants;
}

static bool is_clear(const struct contest *c);

static enum contest_end round_end(struct contest *c)
{
    bool any_is_in = false;
    for (uint32_t i = 0; i < c->wish.n_variants; i++)
        any_is_in = any_is_in || is_in(c, i);
    if (!any_is_in)
        return CONTEST_NOTHING;
    c->n_full = c->round + 1;
    if (!c->wish.runs_all && c->n_full >= CONTEST_ROUNDS_LEAST && is_clear(c))
        return CONTEST_CLEAR;
    if (c->n_full == c->wish.rounds_max)
        return CONTEST_ROUNDS;
    c->round++;
    c->position = 0;
    order_make(c);
    return CONTEST_GOES_ON;
}

struct contest_step contest_next(struct contest *contest, double elapsed_s)
{
    while (!position_seek(contest)) {
        enum contest_end end = round_end(contest);
        if (end != CONTEST_GOES_ON)
            return (struct contest_step){.end = end};
    }
    uint32_t variant = contest->order[contest->position];
    double until_s = elapsed_s + contest_seconds(contest, variant).median;
    bool is_late = contest->wish.seconds_max > 0 && until_s >= contest->wish.seconds_max;
    return (struct contest_step){.end = is_late ? CONTEST_TIME : CONTEST_GOES_ON,
                                 .variant = variant};
}

/* Does the run do the same work as the first one? A rate of items and a rate of runs have no ratio. */
static bool does_the_work(struct contest *contest, const struct contest_run *run)
{
    if (!contest->has_work)
        contest->is_piece = run->is_piece;
    contest->has_work = true;
    if (run->is_piece != contest->is_piece)
        return false;
    if (contest->n_items == 0)
        contest->n_items = run->n_items;
    return run->n_items == 0 || run->n_items == contest->n_items;
}

void contest_took(struct contest *contest, const struct contest_run *run)
{
    ASSERT(contest->position < contest->wish.n_variants);
    uint32_t variant = contest->order[contest->position];
    struct lap *lap = &contest->laps[(size_t)contest->round * contest->wish.n_variants + variant];
    enum contest_outcome outcome = run->outcome;
    if (outcome == CONTEST_OK && !does_the_work(contest, run))
        outcome = CONTEST_OTHER_WORK;
    contest->position++;
    contest->outcome[variant] = outcome;
    if (outcome != CONTEST_OK)
        return;
    contest->n_runs[variant]++;
    lap->seconds = run->seconds;
    for (size_t i = 0; i < CONTEST_FIGURES; i++)
        lap->figure[i] =
            run->figure[i] > 0 && run->figure[i] < (double)INFINITY ? run->figure[i] : 0;
}

/* ---- what is known ---- */

enum contest_outcome contest_outcome(const struct contest *contest, uint32_t variant)
{
    return contest->outcome[variant];
}

uint64_t contest_n_items(const struct contest *contest)
{
    return contest->n_items;
}

uint32_t contest_n_runs(const struct contest *contest, uint32_t variant)
{
    return contest->n_runs[variant];
}

uint32_t contest_n_rounds(const struct contest *contest)
{
    return contest->n_full;
}

/* Values in ascending order. */
struct sorted {
    uint32_t n;
    double at[CONTEST_ROUNDS_MAX];
};

static void sorted_add(struct sorted *s, double value)
{
    uint32_t i = s->n++;
    for (; i > 0 && s->at[i - 1] > value; i--)
        s->at[i] = s->at[i - 1];
    s->at[i] = value;
}

static struct contest_spread spread_of(const struct sorted *s)
{
    if (s->n == 0)
        return (struct contest_spread){0};
    return (struct contest_spread){.n = s->n,
                                   .median = (s->at[(s->n - 1) / 2] + s->at[s->n / 2]) / 2,
                                   .min = s->at[0],
                                   .max = s->at[s->n - 1]};
}

static const struct lap *lap_at(const struct contest *c, uint32_t round, uint32_t variant)
{
    return &c->laps[(size_t)round * c->wish.n_variants + variant];
}

struct contest_spread contest_seconds(const struct contest *contest, uint32_t variant)
{
    struct sorted s = {0};
    for (uint32_t r = 0; r <= contest->round; r++)
        if (lap_at(contest, r, variant)->seconds > 0)
            sorted_add(&s, lap_at(contest, r, variant)->seconds);
    return spread_of(&s);
}

struct contest_spread contest_figure(const struct contest *contest, uint32_t variant,
                                     enum contest_figure figure)
{
    struct sorted s = {0};
    for (uint32_t r = 0; r <= contest->round; r++)
        if (lap_at(contest, r, variant)->figure[figure] > 0)
            sorted_add(&s, lap_at(contest, r, variant)->figure[figure]);
    return spread_of(&s);
}

/* The 99 % interval of the mean, by Student's t. */
static void mean_interval(const struct sorted *s, struct contest_ratio *out)
{
    double mean = 0, squares = 0;
    for (uint32_t i = 0; i < s->n; i++)
        mean += s->at[i] / s->n;
    for (uint32_t i = 0; i < s->n; i++)
        squares += (s->at[i] - mean) * (s->at[i] - mean);
    double half = student_t[s->n - 2] * sqrt(squares / (s->n - 1.0) / s->n);
    out->low = mean - half;
    out->high = mean + half;
}

/*
 * The 99 % interval of the median: the values at `cut` from either end, where at most 1 % of the
 * draws of n fair coins have `cut` heads or fewer, or as few tails. Eight values are the least.
 */
static void median_interval(const struct sorted *s, struct contest_ratio *out)
{
    double term = 1;
    uint32_t cut = 0;
    for (uint32_t i = 0; i < s->n; i++)
        term /= 2; /* the chance of no head */
    for (double below = term; 2 * below <= 0.01; cut++) {
        term *= (double)(s->n - cut) / (cut + 1);
        below += term;
    }
    cut--; /* the last step was too far */
    out->low = s->at[cut];
    out->high = s->at[s->n - 1 - cut];
}

static void interval_of(const struct sorted *s, struct contest_ratio *out)
{
    out->low = -(double)INFINITY;
    out->high = (double)INFINITY;
    if (s->n >= 2 && s->n < MEDIAN_ROUNDS_LEAST)
        mean_interval(s, out);
    else if (s->n >= MEDIAN_ROUNDS_LEAST)
        median_interval(s, out);
}

struct contest_ratio contest_ratio(const struct contest *contest, uint32_t variant, uint32_t to,
                                   enum contest_figure figure)
{
    struct contest_ratio out = {0};
    struct sorted s = {0};
    if (!is_in(contest, variant) || !is_in(contest, to))
        return out;
    for (uint32_t r = 0; r <= contest->round; r++) {
        double rate = lap_at(contest, r, variant)->figure[figure];
        double to_rate = lap_at(contest, r, to)->figure[figure];
        if (rate > 0 && to_rate > 0)
            sorted_add(&s, rate / to_rate);
    }
    out.spread = spread_of(&s);
    interval_of(&s, &out);
    return out;
}

enum contest_verdict contest_compare(const struct contest *contest, uint32_t variant, uint32_t to,
                                     enum contest_figure figure)
{
    struct contest_ratio ratio = contest_ratio(contest, variant, to, figure);
    double near = contest->wish.near;
    if (ratio.spread.n < CONTEST_ROUNDS_LEAST)
        return CONTEST_OPEN;
    /* First: a certain difference that is too small to matter counts as none. */
    if (ratio.low > 1 - near && ratio.high < 1 + near)
        return CONTEST_ALIKE;
    return ratio.low > 1 ? CONTEST_FASTER : ratio.high < 1 ? CONTEST_SLOWER : CONTEST_OPEN;
}

enum contest_figure contest_deciding(const struct contest *contest)
{
    bool any_is_in = false;
    for (uint32_t i = 0; i < contest->wish.n_variants; i++) {
        if (!is_in(contest, i) || contest->n_runs[i] == 0)
            continue;
        any_is_in = true;
        if (2 * contest_figure(contest, i, CONTEST_LOADED).n < contest->n_runs[i])
            return CONTEST_WHOLE;
    }
    return any_is_in ? CONTEST_LOADED : CONTEST_WHOLE;
}

bool contest_best(const struct contest *contest, uint32_t *variant)
{
    enum contest_figure figure = contest_deciding(contest);
    double most = 0;
    for (uint32_t i = 0; i < contest->wish.n_variants; i++) {
        double much = is_in(contest, 0) ? contest_ratio(contest, i, 0, figure).spread.median
                                        : contest_figure(contest, i, figure).median;
        if (!is_in(contest, i) || much <= most)
            continue;
        most = much;
        *variant = i;
    }
    return most > 0;
}

static bool is_settled(const struct contest *c, uint32_t variant, uint32_t to,
                       enum contest_figure figure)
{
    return variant == to || !is_in(c, variant) || !is_in(c, to) ||
           contest_compare(c, variant, to, figure) != CONTEST_OPEN;
}

static bool is_clear(const struct contest *c)
{
    enum contest_figure figure = contest_deciding(c);
    uint32_t best = 0;
    bool has_best = contest_best(c, &best);
    for (uint32_t i = 0; i < c->wish.n_variants; i++)
        if (!is_settled(c, i, 0, figure) || (has_best && !is_settled(c, i, best, figure)))
            return false;
    return true;
}
