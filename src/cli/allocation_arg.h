/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of devices, for every verb that starts workers. `at` is the offset of struct
 * allocation_wish in the request.
 */
#pragma once

#include "node/allocation.h"

/* clang-format off */
#define ALLOCATION_OPTS(at)                                                                                            \
    {OPT_TEXT, 'g', "gpus", "SPEC", "devices: ids as 0,2,5-7; any:4; all; free; free:20GiB; a UUID; cpu:N (default: free, or CPU slots where there is no GPU)", (at) + offsetof(struct allocation_wish, gpus)}, \
    {OPT_U64, 0, "gpus-per-worker", "N", "give each worker N devices that are near each other (default 1)", (at) + offsetof(struct allocation_wish, gpus_per_worker), 1, 64}, \
    {OPT_U64, 0, "workers-per-gpu", "N", "run N workers on each device (default 1)", (at) + offsetof(struct allocation_wish, workers_per_gpu), 1, 64}, \
    {OPT_DURATION, 0, "wait", "DURATION", "longest time to wait for devices to become free (default: no wait)", (at) + offsetof(struct allocation_wish, wait_ms)}
/* clang-format on */
