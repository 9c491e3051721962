/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of this machine.
 */
#include "base/xalloc.h"
#include "launch/launch_impl.h"

void ranks_release(struct launch *launch)
{
    for (uint32_t i = 0; i < launch->n_ranks; i++)
        rank_release(&launch->ranks[i]);
    free(launch->ranks);
    launch->ranks = NULL;
    launch->n_ranks = 0;
}

void ranks_make(struct launch *launch, uint32_t n_ranks)
{
    ranks_release(launch);
    launch->ranks = xcalloc(n_ranks, sizeof(*launch->ranks));
    launch->n_ranks = n_ranks;
}

/* The run is given up before the exits are told: they would seem to be failures of ranks. */
static void start_failed(struct launch *launch, struct err *err)
{
    if (err->code == ERR_USAGE) /* a folder that cannot be made while the run lasts */
        err->code = ERR_UNAVAILABLE;
    shell_abort(&launch->shell, err);
    for (uint32_t i = 0; i < launch->own.n_ranks; i++) {
        struct rank *rank = &launch->own.ranks[i];
        rank->status = rank->process ? 0 : 1;
        if (!rank->process)
            machine_lost_rank(launch, rank);
    }
}

void machine_start(struct launch *launch, const struct rendezvous_start *part, struct rank *own)
{
    const struct launch_task *task = &launch->request->task;
    struct err err = {0};
    int rc = 0;
    launch->own.part = *part;
    launch->own.ranks = own;
    launch->own.n_alive = launch->own.n_ranks;
    for (uint32_t i = 0; i < launch->own.n_ranks; i++) {
        own[i] = (struct rank){.launch = launch,
                               .number = part->first_rank + i,
                               .local_rank = task->n_local > 0 ? task->local_rank : i};
        rc = rc ? rc : rank_start(&own[i], &err);
    }
    if (rc)
        start_failed(launch, &err);
}

void machine_end(struct launch *launch, bool at_once)
{
    for (uint32_t i = 0; launch->own.n_alive > 0 && i < launch->own.n_ranks; i++)
        if (launch->own.ranks[i].process)
            node_end(launch->own.ranks[i].process, at_once ? END_AT_ONCE : END_POLITELY);
}

void machine_lost_rank(struct launch *launch, const struct rank *rank)
{
    launch->own.n_alive--;
    if (launch->gang)
        lead_tell(launch, (struct gang_event){.kind = GEV_EXIT,
                                              .rank = rank->number,
                                              .generation = launch->own.part.generation,
                                              .status = rank->status});
    else
        follow_tell_exit(launch, rank);
}
