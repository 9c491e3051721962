/* SPDX-License-Identifier: Apache-2.0
 *
 * The influence of each training triple on itself: triples that are hard, rare or wrong come first.
 */
#pragma once

#include "cli/tracin_spread.h"

/*
 * The extension of --output chooses the form: .npy an array in the order of the training triples,
 * .jsonl or .ndjson one object on each line, all others a JSON array. The last two forms have the
 * largest first. spread may be NULL.
 */
MUST_CHECK int tracin_self_run(const struct tracin_request *ask, const struct kge_data *data,
                               struct kge_models *models, struct tracin_spread *spread,
                               struct err *err);
