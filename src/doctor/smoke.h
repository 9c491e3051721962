/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test: the real program runs a small `muster map` with two workers on every device, and
 * every byte of the result is compared. The workers are shell loops, which wait for each other and
 * then say what device they were given; no GPU is opened.
 */
#pragma once

#include "doctor/facts.h"
#include "doctor/finding.h"

struct smoke_opts {
    const char *self_path;
    const char *gpus; /* -g as typed, NULL for none: used where devices cannot be named singly */
    const char *driver_said; /* why a driver did not answer; "" if all did */
    char **environment;      /* of the runs */
    uint64_t limit_ms;       /* for one run */
};

/*
 * Adds one finding per run. All files are in one folder below TMPDIR, which is removed at the end,
 * also if SIGINT, SIGTERM or SIGHUP arrives: the signal takes effect after that. A failure of the
 * self-test itself is a finding as well.
 */
void smoke_run(const struct smoke_opts *opts, const struct device_list *devices,
               struct findings *out);
