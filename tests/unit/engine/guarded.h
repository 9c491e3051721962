/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that is played over another backend. Its memory cannot be touched but while an
 * operation runs; a thread's operations are put off until it waits, uploads or downloads, as they
 * may be on a device, their descriptors being copied; and there is only so much memory. Closing it
 * finds what was not released.
 */
#pragma once

#include "num/backend.h"

struct guarded_opts {
    uint64_t limit_bytes; /* 0: none */
    uint64_t told_bytes;  /* what memory_free() says; 0: a GiB */
};

/* `inner` is closed with it. */
void guarded_open(struct num_backend *be, const struct num_backend *inner,
                  const struct guarded_opts *opts);
