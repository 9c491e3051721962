/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the search share.
 */
#pragma once

#include "core/fit.h"
#include "core/verdict.h"
#include "fit/fit.h"
#include "fit/input.h"
#include "fit/memo.h"
#include "fit/output.h"
#include "shell/device_watch.h"
#include "shell/shell.h"

/*
 * The device of the search. What is measured is its memory; where it has none, that of the
 * command's largest process.
 */
struct fit_device {
    const struct device *device;
    uint32_t chosen;      /* its position among those chosen */
    uint64_t total_bytes; /* of a CPU slot: its share of the machine's; 0: not known */
    uint64_t used_bytes;  /* by others, when the search begins */
    uint64_t margin_bytes, limit_bytes;
    bool is_sampled; /* its memory is; else the process's counts */
};

/* The run of the command that goes on. */
struct trial_run {
    struct node_worker *process; /* NULL: none */
    uint64_t batch, begin_ms;
    uint64_t used_before_bytes, used_peak_bytes; /* of the device */
    struct trial_input input;
    struct output out, errors;
    double printed_rate;
    bool is_late; /* it was ended because it took too long */
};

/* A row of the table. */
struct trial_row {
    struct fit_trial trial;
    uint64_t took_ms;
    char end[160]; /* what it died of; "": nothing */
};

struct fitting {
    struct shell shell;
    struct allocation allocation;
    struct device_watch *watch;
    const struct fit_request *request;
    const struct fit_caller *caller;
    struct fit_device device;
    struct rate_pattern pattern;
    struct fit fit;
    struct trial_run trial;
    bool is_ready; /* the device has its memory back, so the next trial may start */
    struct trial_row *rows;
    size_t n_rows;
};

/* ---- trial.c ---- */

MUST_CHECK int trial_start(struct fitting *f, uint64_t batch, struct err *err);
/* To be called ten times a second. */
void trial_tick(struct fitting *f);
void trial_sampled(struct fitting *f, const struct device_sample *sample);
void trial_release(struct trial_run *trial);
/* The words of the command for this size; the list owns them. */
void trial_words(const struct fitting *f, uint64_t batch, struct env_list *out);

/* ---- report.c ---- */

/* "batch 8: 1.25 GiB, 103 items/s" */
void row_say(const struct fitting *f, const struct trial_row *row);
/* All that is known when the search has ended, in whatever way. */
void report_add(const struct fitting *f, struct buf *out);
void plan_report_add(const struct fitting *f, struct buf *out);
