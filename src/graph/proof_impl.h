/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the proof share.
 */
#pragma once

#include "graph/proof.h"

static inline int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Fills all but the path. `reads` false: the hash stays 0. ERR_STOPPED once *is_given_up, which may be NULL. */
MUST_CHECK int mark_take(const char *path, bool reads, const atomic_bool *is_given_up,
                         struct file_mark *mark, struct err *err);
