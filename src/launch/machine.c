/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of a machine: this one, or a host of --hosts.
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
    watch_begin(launch);
    fold_begin(launch);
}

/* Gives the run up before the gang is told of exits, which would look like failures of ranks. */
static void start_failed(struct machine *machine, struct err *err)
{
    if (err->code == ERR_USAGE) /* such as a folder that cannot be made now */
        err->code = ERR_UNAVAILABLE;
    if (!machine->is_far || !fleet_loss_tell(machine))
        shell_abort(machine->launch->shell, err);
    /* With --restart-pause 0, an exit that is told may start the next generation. */
    uint32_t generation = machine->part.generation;
    for (uint32_t i = 0; i < machine->n_ranks && machine->part.generation == generation; i++) {
        struct rank *rank = &machine->ranks[i];
        rank->status = rank->process ? 0 : 1;
        if (!rank->process)
            machine_lost_rank(rank);
    }
}

void machine_start(struct machine *machine, const struct rendezvous_start *part, struct rank *ranks)
{
    const struct launch_task *task = &machine->launch->request->task;
    struct err err = {0};
    int rc = 0;
    machine->part = *part;
    machine->ranks = ranks;
    machine->n_alive = machine->n_ranks;
    for (uint32_t i = 0; i < machine->n_ranks; i++) {
        ranks[i] = (struct rank){.launch = machine->launch,
                                 .machine = machine,
                                 .number = part->first_rank + i,
                                 .local_rank = task->n_local > 0 ? task->local_rank : i,
                                 .host = machine->name ? xstrdup(machine->name) : NULL};
        rc = rc ? rc : rank_start(&ranks[i], &err);
    }
    if (rc)
        start_failed(machine, &err);
}

const struct seat *machine_seat(const struct machine *machine)
{
    return &machine->launch->allocation.seats[machine->seat];
}

void machine_end(const struct machine *machine, const struct rendezvous_end *how)
{
    for (uint32_t i = 0; machine->n_alive > 0 && i < machine->n_ranks; i++) {
        struct node_worker *process = machine->ranks[i].process;
        if (process && how->at_once)
            node_end(process, END_AT_ONCE);
        else if (process)
            node_end_by(process, how->signal);
    }
}

void machine_lost_rank(const struct rank *rank)
{
    struct machine *machine = rank->machine;
    struct launch *launch = rank->launch;
    machine->n_alive--;
    watch_ended(rank);
    if (machine->is_far)
        (void)fleet_loss_tell(machine); /* first: the host failed, and not the rank */
    if (launch->gang)
        lead_tell_exit(launch, rank, machine->part.generation);
    else
        follow_tell_exit(launch, rank);
}
