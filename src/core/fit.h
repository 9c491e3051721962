/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the batch size that fills a device without overflowing it (muster fit). Pure:
 * what to try next is a function of the trials so far, which are the only state, and nothing is
 * allocated.
 *
 * From the start size the batch is doubled until a size is out, the largest size is reached, or two further doublings
 * bring no more items per second. A size is out if a trial of it ran out of memory, failed or took too long, or if
 * its peak is above the device's memory less the margin. The gap between the largest good size and the smallest one
 * that is out is then narrowed: by the line through batch sizes and peaks if there is one, whose answers are tried;
 * else by halves.
 *
 * The best size is the smallest one whose rate is within a few percent of the best rate, so
 * memory is not spent on nothing. Rates are noisy, and whatever else a machine does only lowers
 * them: so the fastest of a size's runs counts, and sizes between which noise could decide are
 * run again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FIT_SIZES_MAX = 64 /* different sizes that are tried; a search needs about 15 */
};

enum fit_outcome {
    FIT_OK,
    FIT_OOM,
    FIT_FAILED,
    FIT_TIMEOUT,
    FIT_OUTCOMES
};

struct fit_wish {
    uint64_t start, max,
        multiple;         /* sizes; multiple 0: 1. start is rounded up to a multiple, max down */
    uint64_t limit_bytes; /* no peak may be above it; 0: not known */
    uint32_t n_repeats;   /* runs of a size whose rate decides; 0: 1 */
    double near; /* a rate within this share below the best is as good; a doubling must gain more */
};

struct fit_trial {
    uint64_t batch; /* the one that was asked for */
    enum fit_outcome outcome;
    uint64_t peak_bytes; /* 0: not known */
    double rate;         /* items per second; anything but a positive number: not known */
};

/* All trials of one size. */
struct fit_size {
    uint64_t batch;
    enum fit_outcome outcome; /* the worst of its runs */
    uint32_t n_runs;
    uint64_t peak_bytes; /* the highest of those that ended well */
    double rate;         /* the fastest of them */
};

struct fit {
    struct fit_wish wish;
    struct fit_size sizes[FIT_SIZES_MAX]; /* ascending */
    size_t n_sizes;
    bool is_unsteady; /* a size ended well in one run, and not in another */
};

enum fit_step_kind {
    FIT_TRY,    /* `batch` */
    FIT_END,    /* fit_result() has what was found */
    FIT_REFUSED /* the first size failed, or took too long: there is nothing to search */
};

struct fit_step {
    enum fit_step_kind kind;
    uint64_t batch;
};

/* peak = fixed_bytes + item_bytes * batch */
struct fit_line {
    bool is_known;
    double fixed_bytes, item_bytes;
};

/* Why no larger size was chosen. */
enum fit_bound {
    FIT_BOUND_MEMORY, /* a larger size is out of memory, or would be by the line */
    FIT_BOUND_FAILURE,
    FIT_BOUND_TIME,
    FIT_BOUND_RATE, /* a larger size would not be faster */
    FIT_BOUND_MAX,  /* the largest size that was asked for */
    FIT_BOUND_NONE  /* no size is good */
};

struct fit_result {
    uint64_t batch;      /* 0: none */
    uint64_t peak_bytes; /* the higher of what was measured and what the line says; 0: not known */
    double rate;         /* 0: not known */
    enum fit_bound bound;
    struct fit_line line;
    bool peak_falls; /* a larger batch took clearly less memory: there is no line */
};

/* The sizes of the wish become multiples; start is at most max, and at least one multiple. */
void fit_begin(struct fit *fit, const struct fit_wish *wish);
struct fit_step fit_next(const struct fit *fit);
/* The end of a trial of the size that fit_next() asked for. */
void fit_took(struct fit *fit, const struct fit_trial *trial);
/* The result so far; may be called at any time. */
void fit_result(const struct fit *fit, struct fit_result *out);
/* The line through the sizes that ended well: the slope is the median of those of all pairs,
 * weighted by their distance (Theil 1950, Sen 1968), so that a few odd peaks do not tilt it. */
struct fit_line fit_line_of(const struct fit *fit);
