/* SPDX-License-Identifier: Apache-2.0
 *
 * An output has one muster at work on it: the second of the same moment is refused before it does anything,
 * and not when its results cannot be put in place. The claim is the name of a socket in the kernel's abstract
 * name space, made of the identity of the output's folder and the output's name: it leaves nothing on a disk, holds
 * for all users of the machine, and goes with the process, however that ends.
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

/* One more output. What has no place of its own (stdout, devices, pipes) needs none. ERR_UNAVAILABLE naming the
 * process that has it. */
MUST_CHECK int output_claim_add(struct output_claim *claim, const char *path, struct err *err);
/* In a process that was forked off and goes on with the work: from now on that is who is named. */
void output_claim_renew(const struct output_claim *claim);
/* To be called every second: who has asked for the holder's name is let go, so that others can ask. */
void output_claim_answer(const struct output_claim *claim);
void output_claim_release(struct output_claim *claim);
