/* SPDX-License-Identifier: Apache-2.0
 *
 * What the results of `muster kge tracin` depend on besides the triples: options, and checkpoints.
 */
#pragma once

#include "cli/tracin_request.h"

/*
 * Adds words that end with a NUL: every option that may change a result, with paths made absolute;
 * then "--"; then the size and time of each checkpoint. Leaves out the n_besides options `besides`.
 */
MUST_CHECK int tracin_settings_add(const struct tracin_request *ask, const char *const *besides,
                                   size_t n_besides, struct buf *out, struct err *err);
