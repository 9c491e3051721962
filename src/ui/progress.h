/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress display: on a terminal one line a worker and one total, redrawn in place; elsewhere a
 * plain line every few seconds. Draws on stderr only, and steps aside for console lines.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct progress_worker {
    const char *label; /* "gpu 0" */
    const char *state; /* "loading", "works", "waits", "gone" */
    uint64_t done;
    uint32_t in_flight;
    double items_per_s;
    uint64_t mem_used_bytes, mem_total_bytes; /* 0: unknown */
    const char *last_word;
};

struct progress_total {
    uint64_t done, aside, known;
    bool input_is_final;
    uint64_t in_flight, retries;
    uint64_t elapsed_ms;
    uint64_t correct, seen; /* as workers count them; seen 0: they do not */
    uint64_t oldest_ms;     /* age of the oldest item in flight: the tail */
    size_t n_workers;
    const struct progress_worker *workers;
};

struct progress;

struct progress_opts {
    bool is_terminal, has_color;
    uint64_t plain_every_ms; /* 0 = 5000 */
};
struct progress *progress_new(const struct progress_opts *opts);
/* Redraw if enough time has passed (10 a second on a terminal). `last`: once more, and leave it. */
void progress_show(struct progress *progress, const struct progress_total *total, uint64_t now_ms,
                   bool last);
/* Make room for other lines on stderr, and come back after them. */
/* context: the progress. */
void progress_hide(void *context);
void progress_back(void *context);
void progress_free(struct progress *progress);

/*
 * Time left in ms, or UINT64_MAX if nothing can be said yet. Knows the tail: never less than what the
 * oldest item in flight has taken beyond the average.
 */
uint64_t progress_eta_ms(const struct progress_total *total, double items_per_s);
