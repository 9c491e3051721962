/* SPDX-License-Identifier: Apache-2.0
 *
 * muster bench: the same work done in several ways, in turn, measured. A way is a method with a
 * number of devices and a batch size; a run of it is a process of its own (trial/trial.h). Which
 * way is run next, when enough is known, and what may be compared is decided in core/contest.h.
 *
 * A muster map that a method starts tells by --on-finish how long its workers took to load; the
 * option is set by the environment, as are its devices and its folder. So `-i` is no more than a
 * method that this program writes itself.
 *
 *   methods.c   what is typed becomes ways       command.c   words and environment of a run
 *   measure.c   the shell, one run after the other   judge.c     what a run shows
 *   report.c    the table and what follows from it   report_json.c
 *   table.h     cells in columns, as text or Markdown   plot.h      the picture
 */
#pragma once

#include "base/log.h"
#include "base/texts.h"
#include "node/allocation.h"
#include "node/environment.h"

enum {
    BENCH_COUNTS_MAX = 32
};

/* "1,2,4" */
struct bench_counts {
    uint64_t at[BENCH_COUNTS_MAX];
    size_t len;
};

/* ERR_USAGE for zeros and for numbers that occur twice. */
MUST_CHECK int bench_counts_parse(struct str text, struct bench_counts *out, struct err *err);
void bench_counts_format(const struct bench_counts *counts, struct buf *out);

enum bench_format {
    BENCH_TABLE,
    BENCH_MARKDOWN,
    BENCH_JSON
};

struct bench_request {
    struct allocation_wish allocation;
    struct environment_wish environment;
    struct bench_counts devices, batches; /* empty: 1, 2, 4 … of the devices; no batch size */
    struct texts methods;                 /* NAME[@DEVICES]=LINE, for sh */
    const char *const *command;           /* NULL: none */
    struct texts inputs;                  /* with them, the command is a worker of muster map */
    uint64_t limit;                       /* of them; 0: all */
    /* What a run does; NULL and 0: not known. */
    uint64_t n_items;
    const char *items_pattern, *rate_pattern, *ready_pattern;
    const char *stdin_path;
    uint64_t n_rounds, time_limit_ms, trial_limit_ms, grace_ms; /* limits 0: none */
    bool runs_all, is_plan;
    enum bench_format format;
    const char *plot_path; /* NULL: none */
};

/* The process around it. */
struct bench_caller {
    struct log *log;
    const char *self_path;
    bool is_quiet;
};

/* ERR_USAGE for what contradicts itself. */
MUST_CHECK int bench_check(const struct bench_request *request, struct err *err);
/*
 * Measures, and adds a table or lines of JSON to `out`, as far as it came. Returns an exit status:
 * 0; 1 if a method failed; 128 + n after a signal. ERR_TIMEOUT if not every way was run once,
 * ERR_UNAVAILABLE, ERR_USAGE.
 */
MUST_CHECK int bench_run(const struct bench_caller *caller, const struct bench_request *request,
                         struct buf *out, struct err *err);
