/* SPDX-License-Identifier: Apache-2.0
 *
 * How much each training triple moves the loss on itself: what is hard, rare or wrong comes first.
 */
#pragma once

#include "cli/tracin_spread.h"

/*
 * By the extension of --output: .npy an array in the order of the training triples; .jsonl an object a line, and
 * else a JSON array, both from the largest to the smallest.
; spread may be NULL.
 */
MUST_CHECK int tracin_self_run(const struct tracin_request *ask, const struct kge_data *data,
                               struct kge_models *models, struct tracin_spread *spread,
                               struct err *err);
