/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several variants of the same work is faster (muster bench). Pure: which variant is run
 * next, when enough is known, and what may be said of two variants, as a function of the runs so
 * far.
 *
 * A variant is a command with a number of devices and a batch size. In each round every variant is
 * run once. Rounds come in pairs: both have the same order, once forwards and once backwards, so
 * that a drift of the machine (heat, a disk that fills) is the same for all variants. The next pair
 * has another order, so that no variant always follows the same one. The first order is that of the
 * list.
 *
 * Two variants are compared round by round: a ratio is the median over the rounds in which both
 * were run, so what slows the machine down for a round slows both. Variants that were never run in
 * the same round have no ratio.
 *
 * The contest ends early when the ratios of all variants to the first variant, and to the best
 * variant, are settled. A ratio is settled if its 99 % interval does not contain 1, or lies within
 * `near` of 1: then both variants count as equally fast. With three to seven rounds it is the
 * interval of the mean, by Student's t; with more it is that of the median, by its order
 * statistics, which a few rounds that went wrong do not move. The level is 99 % because the
 * question is asked after every round: of two equal variants whose runs differ by up to 8 %, one is
 * called faster in 5 to 6 % of the contests of up to ten rounds (tests/unit/core/test_contest.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONTEST_VARIANTS_MAX = 256,
    CONTEST_ROUNDS_MAX = 1000,
    CONTEST_ROUNDS_LEAST = 3 /* before it may end early */
};

/* What is known of a run besides its time. The first two are compared. */
enum contest_figure {
    CONTEST_WHOLE,  /* items per second of the whole run */
    CONTEST_LOADED, /* items per second of the time in which its workers were loaded */
    CONTEST_LOADING_S,
    CONTEST_ITEM_J, /* energy of its devices, in joules for each item */
    CONTEST_FIGURES
};

/* OTHER_WORK: a run did not do as many items as the others. */
#define CONTEST_OUTCOMES(X) \
    X(OK, "ok")             \
    X(OOM, "oom")           \
    X(FAILED, "failed")     \
    X(LATE, "late")         \
    X(OTHER_WORK, "other work")

enum contest_outcome {
#define X(id, name) CONTEST_##id,
    CONTEST_OUTCOMES(X)
#undef X
};

const char *contest_outcome_name(enum contest_outcome outcome);

/* One run of a variant. */
struct contest_run {
    enum contest_outcome outcome;
    double seconds;
    double figure[CONTEST_FIGURES]; /* 0: not known */
    uint64_t n_items;               /* that it did; 0: not known */
    bool is_piece;                  /* its rates count runs, not items */
};

struct contest_wish {
    uint32_t n_variants, rounds_max;
    uint64_t n_items;   /* that every run must do; 0: as many as the first run that tells */
    double near;        /* a ratio within this share of 1 counts as no difference */
    double seconds_max; /* no run begins that would probably end later; 0: no limit */
    bool runs_all;      /* never ends early */
};

enum contest_end {
    CONTEST_GOES_ON,
    CONTEST_CLEAR,
    CONTEST_ROUNDS, /* rounds_max */
    CONTEST_TIME,
    CONTEST_NOTHING /* no variant is left */
};

struct contest_step {
    enum contest_end end;
    uint32_t variant; /* to run, if it goes on */
};

struct contest;
/* NULL: no memory. */
struct contest *contest_new(const struct contest_wish *wish);
void contest_free(struct contest *contest);
/*
 * elapsed_s: since the first run began. The same variant is named until contest_took() is called.
 */
struct contest_step contest_next(struct contest *contest, double elapsed_s);
/*
 * The end of the run that contest_next() asked for. A variant whose run did not end well is run no
 * more.
 */
void contest_took(struct contest *contest, const struct contest_run *run);

/* The worst outcome of the variant's runs; OK as long as the variant is in. */
enum contest_outcome contest_outcome(const struct contest *contest, uint32_t variant);
/* The number of items that every run must do: that of the first run that ended well. 0: not known. */
uint64_t contest_n_items(const struct contest *contest);
/* The number of rounds in which the variant was run well. */
uint32_t contest_n_runs(const struct contest *contest, uint32_t variant);
/* The number of rounds in which every variant that is still in was run. */
uint32_t contest_n_rounds(const struct contest *contest);

struct contest_spread {
    uint32_t n; /* rounds; 0: nothing is known */
    double median, min, max;
};

struct contest_spread contest_seconds(const struct contest *contest, uint32_t variant);
struct contest_spread contest_figure(const struct contest *contest, uint32_t variant,
                                     enum contest_figure figure);

/* How much faster a variant is than another one. */
struct contest_ratio {
    struct contest_spread spread; /* n 0: there is no ratio */
    double low, high;             /* its 99 % interval; infinite for one round */
};

struct contest_ratio contest_ratio(const struct contest *contest, uint32_t variant, uint32_t to,
                                   enum contest_figure figure);

enum contest_verdict {
    CONTEST_OPEN,
    CONTEST_FASTER,
    CONTEST_SLOWER,
    CONTEST_ALIKE
};

enum contest_verdict contest_compare(const struct contest *contest, uint32_t variant, uint32_t to,
                                     enum contest_figure figure);
/*
 * The figure that decides: LOADED if it is known in at least half of the runs of every variant that
 * is in; else WHOLE.
 */
enum contest_figure contest_deciding(const struct contest *contest);
/*
 * The variant with the highest ratio to the first one, or, if the first one is out, with the
 * highest rate. False: no variant was run well.
 */
bool contest_best(const struct contest *contest, uint32_t *variant);
