/* SPDX-License-Identifier: Apache-2.0
 *
 * muster kge train --gpus: the same command, started again by muster launch as the ranks.
 */
#pragma once

#include "opt/cmd.h"

/* Whether train_launch() has started this process. */
bool train_launch_is_rank(void);
/* Becomes muster launch; returns only if that failed. */
MUST_CHECK int train_launch(const struct app *app, const char *gpus, struct err *err);
/* Of such a rank: the backend of the device that it was given; NULL: any of processors. */
const char *train_launch_backend(void);
