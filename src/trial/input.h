/* SPDX-License-Identifier: Apache-2.0
 *
 * The standard input of a trial. It is a file (--stdin), which each trial reads from the beginning.
 */
#pragma once

#include "base/err.h"
#include "node/node.h"

struct trial_input {
    int fd;             /* -1: there is no file, or the worker has got all of it */
    struct buf pending; /* bytes that were read from the file and not yet taken by the worker */
};

#define TRIAL_INPUT_INIT \
    {                    \
        .fd = -1         \
    }

/* Opens the file. ERR_USAGE if there is no regular file at `path`. */
MUST_CHECK int trial_input_open(struct trial_input *input, const char *path, struct err *err);
/* Gives the worker as many bytes as it takes now. Call it again when the worker takes more. */
MUST_CHECK int trial_input_pump(struct trial_input *input, struct node_worker *worker,
                                struct err *err);
void trial_input_close(struct trial_input *input);
