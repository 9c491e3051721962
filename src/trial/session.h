/* SPDX-License-Identifier: Apache-2.0
 *
 * Where one run after the other is made: the devices of this machine, locked and sampled, the loop,
 * and the signals, of which the first ends the run politely and the second at once.
 */
#pragma once

#include "trial/trial.h"

struct trial_session {
    struct shell *shell;
    struct shell_verb verb;
    struct allocation allocation; /* a seat for each device */
    struct device_watch *watch;
    struct trial_run run; /* the one that goes on, or was the last */
};

/* All is borrowed until the session is closed. */
struct trial_session_wish {
    const char *verb, *self_path;
    struct log *log;
    const struct allocation_wish *allocation;
    uint32_t n_devices; /* that are used, of those that it names; 0: all */
    uint64_t limit_ms;  /* of the session; 0: none */
    void (*ended)(void *context, const struct trial_end *end); /* of a run */
    void *context;
};

/* To be closed after a failure too. ERR_USAGE, ERR_UNAVAILABLE. */
MUST_CHECK int trial_session_open(struct trial_session *session,
                                  const struct trial_session_wish *wish, struct err *err);
void trial_session_close(struct trial_session *session);
