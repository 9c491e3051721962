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
 * The device of the search. Its memory is measured; for a device without own memory, the memory of the command's
 * largest process.
 */
struct fit_device {
    const struct device *device;
    uint64_t total_bytes; /* for a CPU slot, its share of the machine's memory; 0: not known */
    uint64_t used_bytes;  /* in use by others when the search begins */
    uint64_t margin_bytes, limit_bytes;
};

/* A row of the table. */
struct trial_row {
    struct fit_trial trial;
    uint64_t took_ms;
    char end[160]; /* why the trial failed; "": it did not */
};

struct fitting {
    struct trial_session session;
    const struct fit_request *request;
    const struct fit_caller *caller;
    struct fit_device device;
    struct output_pattern pattern; /* finds the rate */
    struct fit fit;
    uint64_t batch; /* of the present run, or else the last one */
    struct trial_row *rows;
    size_t n_rows;
};

/* ---- trial.c ---- */

/* Starts a run with this batch size. */
MUST_CHECK int fit_try(struct fitting *f, uint64_t batch, struct err *err);
/* Makes a row of the table from the end of a run. The run calls it. */
void fit_tried(void *context, const struct trial_end *end);
/* The words of the command for this size; the list owns them. */
void trial_words(const struct fitting *f, uint64_t batch, struct env_list *out);

/* ---- report.c ---- */

/* "batch 8: 1.25 GiB, 103 items/s" */
void row_say(const struct fitting *f, const struct trial_row *row);
/*
 * True if no measured value depends on the batch size and the user gave no largest size: then the largest size is no
 * answer.
 */
bool is_unmoved(const struct fitting *f);
/* Adds all that is known after the search, however it ended. */
void report_add(const struct fitting *f, struct buf *out);
void plan_report_add(const struct fitting *f, struct buf *out);
