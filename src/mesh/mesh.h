/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster rank-check`: a rank that `muster doctor --ranks` starts by the machinery of launch. The ranks meet at MASTER_ADDR
 * and MASTER_PORT as those of a training do, measure the links between them, and make one all-reduce. Each prints what it
 * saw (told.h); which of it is bad is judged by who started them (judge.h).
 *
 *   hub.c      rank 0: who is there, who does what when (plan.h, order.h)
 *   member.c   each rank: what it does on an order (pair.h, ring.h)
 *
 * Ranks that do not reach rank 0, or each other, say so and end with success, so that the others go on.
 */
#pragma once

#include "base/err.h"

/* In the environment that launch gives to ranks. Returns when all is done. ERR_USAGE: it is not there. */
MUST_CHECK int mesh_run(bool is_quiet, struct err *err);
