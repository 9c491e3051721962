/* SPDX-License-Identifier: Apache-2.0
 *
 * The standard input of a trial: a file (--stdin), which each trial reads from its beginning.
 */
#pragma once

#include "base/err.h"
#include "node/node.h"

struct trial_input {
    int fd;             /* -1: there is none, or all was given */
    struct buf pending; /* read, and not taken by the worker yet */
};

#define TRIAL_INPUT_INIT \
    {                    \
        .fd = -1         \
    }

/* ERR_USAGE: there is no such regular file. */
MUST_CHECK int trial_input_open(struct trial_input *input, const char *path, struct err *err);
/* Gives the worker what it takes now; to be called again when it takes more. */
MUST_CHECK int trial_input_pump(struct trial_input *input, struct node_worker *worker,
                                struct err *err);
void trial_input_close(struct trial_input *input);
