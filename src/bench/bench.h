/* SPDX-License-Identifier: Apache-2.0
 *
 * muster bench does the same work in several variants, in turn, and measures them. A variant is a
 * method with a number of devices and a batch size; each run of a variant is a process of its own
 * (trial/trial.h). core/contest.h decides which variant runs next, when enough is known, and what
 * may be compared.
 *
 * If a method starts muster map, that muster map reports by --on-finish how long its workers took to load.
 * Environment variables set this option, the devices and the folder. So with `-i`, muster bench only writes a method
 * of this kind itself.
 *
 *   methods.c   from the command line to variants    command.c   words and environment of a run
 *   measure.c   the shell, one run after the other   judge.c     the result of a run
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

/* Reads numbers. ERR_USAGE for a zero, and for a number that occurs twice. */
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
    struct bench_counts devices, batches; /* empty: 1, 2, 4 … devices; no batch size */
    struct texts methods;                 /* NAME[@DEVICES]=LINE, for sh */
    const char *const *command;           /* NULL: none */
    struct texts inputs;                  /* if any, `command` is a worker of muster map */
    uint64_t limit;                       /* how many items of the inputs; 0: all */
    /* The work of one run; NULL and 0: not known. */
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

/* ERR_USAGE if options of the request contradict each other. */
MUST_CHECK int bench_check(const struct bench_request *request, struct err *err);
/*
 * Measures, and adds a table or lines of JSON to `out`, after a failure as far as it came. Returns
 * an exit status: 0; 1 if a method failed; 128 + n after a signal. ERR_TIMEOUT if not every variant
 * was run once, ERR_UNAVAILABLE, ERR_USAGE.
 */
MUST_CHECK int bench_run(const struct bench_caller *caller, const struct bench_request *request,
                         struct buf *out, struct err *err);
