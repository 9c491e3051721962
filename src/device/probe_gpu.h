/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the GPUs of one vendor on this machine, through the helper process.
 */
#pragma once

#include "device/probe.h"
#include "device/vendor.h"

enum {
    PROBE_DEADLINE_MS = 5000
};

/*
 * Every GPU and MIG instance of the vendor in physical order, with the distances between them. A
 * GPU whose queries hang is in the list as lost, with the name of the query; it costs up to two
 * deadlines, or a quarter of the time that is left if that is less. If there is no GPU, `notes`
 * says why.
 *
 * returns  0; ERR_UNAVAILABLE if the driver did not answer at all, or says that it is broken.
 */
MUST_CHECK int gpu_list(const struct vendor *vendor, const struct probe_opts *opts,
                        struct device_list *out, struct buf *notes, struct err *err);
