/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress display: on a terminal one line per worker and one total, redrawn in place;
 * elsewhere a plain line every few seconds. It draws on stderr only, and makes room for console
 * lines.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct progress_worker {
    const char *label; /* "gpu 0" */
    const char *state; /* "loading", "works", "waits", "benched" … */
    uint64_t done;
    uint32_t in_flight;
    double items_per_s;
    uint64_t mem_used_bytes, mem_total_bytes; /* 0: unknown */
    const char *last_word;
};

struct progress_total {
    uint64_t done, aside, known;
    uint64_t answered; /* items among `done` that are not committed yet, and would run again */
    bool input_is_final;
    uint64_t in_flight, retries;
    uint64_t elapsed_ms;
    double items_per_s;   /* in the last seconds; 0: not known */
    double correct, seen; /* the accuracy is correct / seen; seen 0: not known */
    uint64_t oldest_ms;   /* age of the oldest item in flight */
    size_t n_workers;
    const struct progress_worker *workers;
};

struct progress;

struct progress_opts {
    bool is_terminal, has_color;
    uint64_t plain_every_ms; /* 0 = 5000 */
};
struct progress *progress_new(const struct progress_opts *opts);
/*
 * Redraws the display if enough time has passed (10 times a second on a terminal). `last`: removes the display from a
 * terminal, and prints nothing elsewhere.
 */
void progress_show(struct progress *progress, const struct progress_total *total, uint64_t now_ms,
                   bool last);
/*
 * Removes the display, to make room for other lines on stderr; progress_back() draws it again after them. context:
 * the struct progress, which may be NULL.
 */
void progress_hide(void *context);
void progress_back(void *context);
void progress_free(struct progress *progress);

/* Adds `before`, and then "accuracy 0.7500". */
void accuracy_add(struct buf *out, const char *before, double correct, double seen);

/*
 * Time left in ms, or UINT64_MAX if it cannot be estimated yet. If the oldest item in flight is
 * overdue (twice the average), the estimate is at least the time by which it exceeds the average.
 */
uint64_t progress_eta_ms(const struct progress_total *total);
