/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster rank-check` is a rank that `muster doctor --ranks` starts, in the same way as muster launch starts ranks.
 * The ranks meet at MASTER_ADDR and MASTER_PORT, as the ranks of a training do. They measure the links between them
 * and make one all-reduce. Each rank prints a report (told.h). The process that started the ranks judges the reports
 * (judge.h).
 *
 *   hub.c      rank 0: which ranks are there, and which does what when (plan.h, order.h)
 *   member.c   each rank: carries out orders (pair.h, ring.h)
 *
 * A rank that does not reach rank 0 or another rank reports this and ends with status 0, so that the other ranks go
 * on.
 */
#pragma once

#include "base/err.h"

/* Runs this rank, and returns when all is done. ERR_USAGE if the environment is not that of a rank of muster launch. */
MUST_CHECK int mesh_run(bool is_quiet, struct err *err);
