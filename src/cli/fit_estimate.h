/* SPDX-License-Identifier: Apache-2.0
 *
 * muster fit --estimate: the devices that are asked about, and the answer on stdout.
 */
#pragma once

#include "fit/fit.h"
#include "model/estimate.h"
#include "opt/cmd.h"

struct estimate_request {
    const char *model;       /* a path; NULL: no model is asked about */
    struct estimate_wish of; /* context 0: that of the model, at most 4096; batch 0: 1 */
    uint64_t device_bytes;   /* memory of one further device; 0: none */
    const char *gpus;        /* SPEC; NULL: no devices of this machine */
    struct fit_margin margin;
    bool is_json;
};

MUST_CHECK int fit_estimate(const struct app *app, const struct estimate_request *request,
                            struct err *err);
