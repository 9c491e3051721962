/* SPDX-License-Identifier: Apache-2.0
 *
 * Only one muster at a time may work on an output: a second one is refused before it does anything, not at
 * its end when its results cannot be put in place. The claim is the name of a socket in the kernel's abstract
 * name space, made of the identity of the output's folder and the output's name. It leaves nothing on a disk, holds
 * for all users of the machine, and ends with the process.
 */
#pragma once

#include "base/err.h"

struct output_claim {
    int *fds;
    size_t n_fds;
};

#define OUTPUT_CLAIM_INIT \
    {                     \
        0                 \
    }

/* Claims one more output. Outputs that are not replaced (stdout, devices, pipes) need no claim, and one that is claimed by
 * an ancestor of this process, or by the run in MUSTER_RUN_DIR, is free for it. ERR_UNAVAILABLE, naming the process that
 * holds the claim. */
MUST_CHECK int output_claim_add(struct output_claim *claim, const char *path, struct err *err);
/* Call it in a forked process that goes on with the work: others are told of this process from then on. */
void output_claim_renew(const struct output_claim *claim);
/* To be called every second: closes the connections of those that asked for the holder, so that others can ask. */
void output_claim_answer(const struct output_claim *claim);
void output_claim_release(struct output_claim *claim);
