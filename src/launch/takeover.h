/* SPDX-License-Identifier: Apache-2.0
 *
 * What `muster launch` takes over from the launcher that started it on several machines, or several times on one: srun,
 * mpirun, flux run. Each of its tasks is a muster, and they meet at the address of number 0.
 */
#pragma once

#include <stdint.h>

#include "base/env_list.h"
#include "base/err.h"

struct takeover {
    const char
        *launcher; /* for messages: "srun", "mpirun of Open MPI"; NULL: none, and all else is 0 */
    /*
     * The launcher has several tasks on a machine, so each muster is one rank. Else a muster has a machine, and as many
     * ranks as its options say.
     */
    bool is_a_task;
    uint32_t node, n_nodes; /* its number among the musters */
    /* Of a task, for the environment of its rank. n_local 0: the first two are not known. n_groups 0: the others. */
    uint32_t local_rank, n_local, group_rank, n_groups;
    char *host;    /* where number 0 can be reached; NULL: not known */
    uint16_t port; /* the same for all of this job's musters; 0: not known */
    char *run_id;  /* NULL: not known */
};

/*
 * Looks at an environment, which ends with NULL. MASTER_ADDR and MASTER_PORT, which users export, come before what the
 * launcher tells. A launcher with one task in all is none. ERR_DATA: variables are malformed, or contradict each other.
 */
MUST_CHECK int takeover_read(const char *const *envp, struct takeover *out, struct err *err);
void takeover_release(struct takeover *takeover);
/*
 * Takes out of the environment of a rank what would tell it that it is the launcher's own process: the descriptor by which
 * MPICH's launcher is asked, which it does not have; and, if this muster has several ranks, the one place that the launcher
 * gave to all of them.
 */
void takeover_environment(struct env_list *env, uint32_t n_ranks);
