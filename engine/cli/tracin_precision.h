/* SPDX-License-Identifier: Apache-2.0
 *
 * --precision: the format in which the large products are multiplied, and the error it causes.
 */
#pragma once

#include "cli/tracin_request.h"

/* ERR_USAGE if --precision is given, but nothing would be rounded. */
MUST_CHECK int tracin_precision_check(const struct tracin_request *ask, struct err *err);
/* Measures the error on a sample, and prints it. */
void tracin_precision_report(const struct tracin_request *ask, const struct app *app,
                             const struct kge_data *data, const struct kge_models *models);
