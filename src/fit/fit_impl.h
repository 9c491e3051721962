/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the search share.
 */
#pragma once

#include "core/fit.h"
#include "fit/fit.h"
#include "fit/memo.h"
#include "trial/session.h"

/*
 * The device of the search. What is measured is its memory; where it has none, that of the
 * command's largest process.
 */
struct fit_device {
    const struct device *device;
    uint64_t total_bytes; /* of a CPU slot: its share of the machine's; 0: not known */
    uint64_t used_bytes;  /* by others, when the search begins */
    uint64_t margin_bytes, limit_bytes;
};

/* A row of the table. */
struct trial_row {
    struct fit_trial trial;
    uint64_t took_ms;
    char end[160]; /* what it died of; "": nothing */
};

struct fitting {
    struct trial_session session;
    const struct fit_request *request;
    const struct fit_caller *caller;
    struct fit_device device;
    struct output_pattern pattern; /* of the rate */
    struct fit fit;
    uint64_t batch; /* of the run that goes on, or was the last */
    struct trial_row *rows;
    size_t n_rows;
};

/* ---- trial.c ---- */

/* Starts the run of a size. */
MUST_CHECK int fit_try(struct fitting *f, uint64_t batch, struct err *err);
/* Its end becomes a row of the table; to be called back by the run. */
void fit_tried(void *context, const struct trial_end *end);
/* The words of the command for this size; the list owns them. */
void trial_words(const struct fitting *f, uint64_t batch, struct env_list *out);

/* ---- report.c ---- */

/* "batch 8: 1.25 GiB, 103 items/s" */
void row_say(const struct fitting *f, const struct trial_row *row);
/* Nothing was measured that depends on the size, which nobody limited: the largest is no answer. */
bool is_unmoved(const struct fitting *f);
/* All that is known when the search has ended, in whatever way. */
void report_add(const struct fitting *f, struct buf *out);
void plan_report_add(const struct fitting *f, struct buf *out);
