/* SPDX-License-Identifier: Apache-2.0
 *
 * What `muster launch` takes over from the launcher that started it on several machines, or several times on one:
 * srun, mpirun, flux run. Each task of the launcher is a muster, and they meet at the address of muster number 0.
 */
#pragma once

#include <stdint.h>

#include "base/env_list.h"
#include "base/err.h"

struct takeover {
    const char
        *launcher; /* for messages: "srun", "mpirun of Open MPI"; NULL: none, all else is 0 */
    /*
     * True: the launcher has several tasks on a machine, so each muster starts one rank. False: a muster has a
     * machine for itself, and as many ranks as its options say.
     */
    bool is_a_task;
    uint32_t node, n_nodes; /* its number among the musters */
    /*
     * Of a task, for the environment of its rank. n_local 0: local_rank and n_local are not known. n_groups 0: the
     * other two are not.
     */
    uint32_t local_rank, n_local, group_rank, n_groups;
    char *host;    /* where number 0 can be reached; NULL: not known */
    uint16_t port; /* the same for all of this job's musters; 0: not known */
    char *run_id;  /* NULL: not known */
};

/*
 * Looks at an environment, which ends with NULL. MASTER_ADDR and MASTER_PORT, which users export, come before what
 * the launcher tells. A launcher that has started one task only counts as none. ERR_DATA: variables are malformed, or
 * contradict each other.
 */
MUST_CHECK int takeover_read(const char *const *envp, struct takeover *out, struct err *err);
void takeover_release(struct takeover *takeover);
/*
 * Removes the variables by which a rank would take itself for the launcher's own process: the descriptor of MPICH's
 * launcher, which the rank does not have, and, if this muster has several ranks, the place that the launcher gave to
 * this muster alone.
 */
void takeover_environment(struct env_list *env, uint32_t n_ranks);
