/* SPDX-License-Identifier: Apache-2.0
 *
 * The NVIDIA GPUs of this machine, through the helper process.
 */
#pragma once

#include "device/probe.h"

enum {
    PROBE_DEADLINE_MS = 5000
};

/* Whether there is a driver to ask at all: a few access() calls, no process. */
bool gpu_driver_is_there(void);

/*
 * Every GPU and MIG instance of the machine in PCI order, with the distances between them. A GPU
 * whose queries hang is in the list as lost, with the name of the query; it costs a deadline.
 *
 * returns  0; ERR_UNAVAILABLE if the driver did not answer at all, or says that it is broken.
 */
MUST_CHECK int gpu_list(const struct probe_opts *opts, struct device_list *out, struct buf *notes,
                        struct err *err);
