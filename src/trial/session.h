/* SPDX-License-Identifier: Apache-2.0
 *
 * A session makes one run after the other. It has the devices of this machine, which it locks and samples, the loop,
 * and the signals: the first signal ends the run politely, the second at once.
 */
#pragma once

#include "trial/trial.h"

struct trial_session {
    struct shell *shell;
    struct shell_verb verb;
    struct allocation allocation; /* a seat for each device */
    struct device_watch *watch;
    struct trial_run run; /* the present run, or else the last one */
};

/* All pointers are borrowed until the session is closed. */
struct trial_session_wish {
    const char *verb, *self_path;
    struct log *log;
    const struct allocation_wish *allocation;
    uint32_t n_devices; /* how many devices of the SPEC are used; 0: all */
    uint64_t limit_ms;  /* the time limit of the session; 0: none */
    void (*ended)(void *context, const struct trial_end *end); /* called when a run has ended */
    void *context;
};

/* Opens the session. The caller closes it after a failure too. ERR_USAGE, ERR_UNAVAILABLE. */
MUST_CHECK int trial_session_open(struct trial_session *session,
                                  const struct trial_session_wish *wish, struct err *err);
void trial_session_close(struct trial_session *session);
