/* SPDX-License-Identifier: Apache-2.0
 *
 * --precision: in what format the large products are multiplied, and what that has changed.
 */
#pragma once

#include "cli/tracin_request.h"

/* ERR_USAGE where nothing would be rounded. */
MUST_CHECK int tracin_precision_check(const struct tracin_request *ask, struct err *err);
/* Measures it on a sample, and says it. */
void tracin_precision_report(const struct tracin_request *ask, const struct app *app,
                             const struct kge_data *data, const struct kge_models *models);
