/* SPDX-License-Identifier: Apache-2.0
 *
 * muster fit: runs the user's command at batch sizes that core/fit.h asks for, on one device, and measures its peak
 * memory and its rate. There is no run folder: only the result is remembered (memo.h).
 *
 *   search.c   the shell, the device, one trial after the other
 *   trial.c    one run of the command (trial/trial.h), and what its end means
 *   report.c   the table
 *   memo.c     what is remembered
 *   recall.c   remembered results for other verbs
 *   model.c, config.c, estimate.c   muster fit --estimate, which runs nothing
 */
#pragma once

#include "base/log.h"
#include "node/allocation.h"
#include "node/environment.h"

/* How much of a device stays free: the larger of both values, or only the one that the user gives. */
struct fit_margin {
    uint64_t bytes;
    uint32_t percent;
    bool is_given; /* only the one that is not 0 counts */
};

uint64_t fit_margin_bytes(const struct fit_margin *margin, uint64_t total_bytes);

enum {
    FIT_MAX_USUAL = 65536 /* the value of `max` if the user gives none */
};

struct fit_request {
    struct allocation_wish allocation;
    struct environment_wish environment;
    uint64_t start, multiple, n_repeats;
    uint64_t max; /* 0: not given (fit_max) */
    struct fit_margin margin;
    /* How to count the work of a run, for items per second. At most one is given; without one the rate is not known. */
    uint64_t n_items, n_steps; /* n_steps: each step is one batch; 0: not given */
    const char *rate_pattern;  /* finds the rate that the run prints; NULL: not given */
    const char *stdin_path;    /* NULL: no standard input */
    uint64_t trial_limit_ms, limit_ms, grace_ms;
    bool is_json, is_plan,
        is_fresh; /* is_plan: show what would run; is_fresh: do not look at the memo */
    const char *const *command;
};

static inline uint64_t fit_max(const struct fit_request *request)
{
    return request->max > 0 ? request->max : FIT_MAX_USUAL;
}

/* The process around it. */
struct fit_caller {
    struct log *log;
    const char *self_path;
    bool is_quiet;
};

/* ERR_USAGE if options of the request contradict each other. */
MUST_CHECK int fit_check(const struct fit_request *request, struct err *err);
/*
 * Searches, or takes a remembered result, and adds a table or lines of JSON to `out`, after a failure as far as the
 * search came. Returns an exit status: 0 if a size was found, 1 if none fits, 128 + n after a signal. ERR_FAILED if
 * the command fails at the first size, ERR_UNAVAILABLE, ERR_USAGE, ERR_TIMEOUT.
 */
MUST_CHECK int fit_search(const struct fit_caller *caller, const struct fit_request *request,
                          struct buf *out, struct err *err);
struct fit_memo;
/* Adds a remembered result: a sentence, or a line of JSON. */
void memo_report_add(const struct fit_memo *memo, bool is_json, struct buf *out);
/* ---- recall.c ---- */

/* What another verb is going to run. */
struct fit_wanted {
    const char *self_path, *gpus; /* SPEC; NULL: the default */
    const char *const *command;
    const struct environment_wish *environment;
};

/* The memory for which a result holds: that of the device. For a CPU slot, its share of the machine's memory. */
uint64_t fit_device_bytes(const struct device *device, size_t n_slots);
/* The batch size that was found for a command on such a device. ERR_USAGE if none is remembered. */
MUST_CHECK int fit_batch_on(const struct device *device, size_t n_slots, const char *const *command,
                            const struct environment_wish *environment, uint64_t *out,
                            struct err *err);
/* The batch size that is remembered for this command on these devices, the smallest if they
 * differ. ERR_USAGE, with the cure, if nothing is remembered for one of them; ERR_UNAVAILABLE. */
MUST_CHECK int fit_batch_recall(const struct fit_wanted *wanted, uint64_t *out, struct err *err);
