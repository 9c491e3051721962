/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a job whose work is not complete is submitted again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* id, is the job submitted again, why or why not */
#define AGAIN_VERDICTS(X)                                                                     \
    X(DONE, false, "all is done")                                                             \
    X(FAILED, false, "it failed, and would fail again")                                       \
    X(STOPPED, false, "it was stopped by muster stop")                                        \
    X(CANCELLED, false, "it was interrupted by scancel or by Slurm")                          \
    X(FORBIDDEN, false, "its time was over (--again says how often it is submitted again)")   \
    X(BOUND, false, "it was submitted again as often as --again allows")                      \
    X(NO_GAIN, false,                                                                         \
      "nothing was gained in its time: an item, or a job of a graph, takes longer than that") \
    X(GOES_ON, true, "its time was over, and work is left")

enum again_verdict {
#define X(id, is_again, why) AGAIN_##id,
    AGAIN_VERDICTS(X)
#undef X
};

/* The facts when the verb of a job has ended, or is about to be killed. */
struct again_facts {
    int status;
    bool is_killed;     /* the verb still runs, and Slurm will kill it soon: status means nothing */
    bool is_limit_near; /* Slurm said so */
    bool is_ended;      /* Slurm sent SIGTERM */
    bool is_stopped;    /* by muster stop */
    bool knows_gain;    /* a ledger tells whether something was gained */
    uint64_t n_done_before, n_done;
    uint64_t n_again, again_max;
};

enum again_verdict again_judge(const struct again_facts *facts);
bool again_goes_on(enum again_verdict verdict);
const char *again_why(enum again_verdict verdict);
