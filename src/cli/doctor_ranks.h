/* SPDX-License-Identifier: Apache-2.0
 *
 * muster doctor --ranks: ranks are started as launch starts the ranks of a training, and measure
 * the links between them (mesh/mesh.h).
 */
#pragma once

#include "node/allocation.h"
#include "opt/cmd.h"

struct doctor_ranks {
    uint64_t n_ranks; /* ranks on each host */
    const struct allocation_wish *wish;
    const char *master_addr; /* NULL: an address that all hosts reach */
    uint64_t master_port;    /* 0: a free port */
    bool json, strict, quiet;
};

/* Returns an exit status: 1 if anything is not well. */
MUST_CHECK int doctor_ranks_run(struct app *app, const struct doctor_ranks *opts, struct err *err);
