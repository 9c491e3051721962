/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend that can wait for each operation and add up its time: where a run's time goes. What is
 * left of the run's time is the host's own. While times are taken one thread computes.
 */
#pragma once

#include "num/backend.h"

/* *be computes by *inner. */
void op_times_open(struct num_backend *be, const struct num_backend *inner);
/* From here on operations are waited for. */
void op_times_begin(void);
/* Prints rows of a table for `seconds` of n steps: milliseconds of a step. */
void op_times_end(double seconds, double n);
