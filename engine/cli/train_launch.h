/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge train --gpus: muster launch starts the same command again, once for each rank.
 */
#pragma once

#include "opt/cmd.h"

/* True if train_launch() has started this process. */
bool train_launch_is_rank(void);
/* Becomes muster launch. Returns only if that failed. */
MUST_CHECK int train_launch(const struct app *app, const char *gpus, struct err *err);
/* For a rank: the backend of the device that it was given; NULL: any backend of processors. */
const char *train_launch_backend(void);
