/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test: a small `muster map` with two workers on every device, by the real program, and
 * a look at every byte of its result. The workers are shell loops, which wait for each other and
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
 * One finding a run. What is made is in one folder below TMPDIR, which is removed, also when
 * SIGINT, SIGTERM or SIGHUP comes in between: it then takes effect at the end. What goes wrong with
 * the self-test itself is a finding as well.
 */
void smoke_run(const struct smoke_opts *opts, const struct device_list *devices,
               struct findings *out);
