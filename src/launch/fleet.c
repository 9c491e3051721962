/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of --hosts: each is a node of the gang, in the order of the list, and its ranks are workers of its agent.
 * The gang is told of the loss of a host before the exits of its ranks, which the loss caused.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"
#include "shell/host_link.h"
#include "shell/hosts.h"

struct fleet_host {
    struct machine machine; /* first: a pointer to it is one to the host */
    size_t number;          /* in hosts_view() */
    bool is_up;             /* as the gang was told */
    bool may_live;          /* the ranks that it had when it was lost may still run */
    bool is_unfit;          /* it cannot have the wanted ranks */
    struct {
        bool is_wanted;
        struct rendezvous_start part;
        struct rank *ranks;
    } next; /* to be started once the place where ranks meet is known */
};

struct fleet {
    struct fleet_host
        *at; /* [n], in the order of the list; a host without ranks has not come yet */
    uint32_t n;
    struct meet *meet;
};

/* ---- the start ---- */

/* The seat of the node; n_seats: none, since the host has not come yet. */
static uint32_t seat_of(const struct allocation *allocation, uint32_t node)
{
    uint32_t seat = 0;
    while (seat < allocation->n_seats && allocation->seats[seat].host != node)
        seat++;
    return seat;
}

/*
 * Sets how many ranks the host has: by --nproc-per-node, or else one for each device that was asked for, or for each
 * GPU.
 */
static int ranks_of_host(struct launch *launch, const struct host_view *view,
                         struct machine *machine, struct err *err)
{
    const struct seat *seat = machine_seat(machine);
    cleanup_free char *where = xasprintf("on %s", view->name);
    struct host_counts counts = {.where = where, .n_processors = MAX(seat->threads, 1u)};
    for (size_t i = 0; i < seat->n_devices; i++)
        counts.n_gpus += launch->allocation.devices.at[seat->devices[i]].kind != DEVICE_CPU;
    bool is_asked = view->gpus || launch->request->allocation.gpus;
    counts.n_usual = MAX(is_asked ? (uint32_t)seat->n_devices : counts.n_gpus, 1u);
    int rc = ranks_count(launch->request, &counts, &machine->n_ranks, err);
    return rc ? rc : machine_cpus_find(machine, err);
}

static struct host_view view_of(const struct fleet_host *host)
{
    return hosts_view(shell_hosts(host->machine.launch->shell), host->number);
}

/* Sets the host's seat and ranks, if it has come. */
static int host_open(struct fleet_host *host, struct err *err)
{
    struct machine *machine = &host->machine;
    const struct host_view view = view_of(host);
    machine->name = view.name;
    machine->is_far = view.node > 0;
    machine->seat = seat_of(&machine->launch->allocation, view.node);
    return machine->seat < machine->launch->allocation.n_seats
               ? ranks_of_host(machine->launch, &view, machine, err)
               : 0;
}

int fleet_open(struct launch *launch, struct launch_meeting *meeting, struct err *err)
{
    const struct hosts *hosts = shell_hosts(launch->shell);
    uint64_t n_min = launch->request->allocation.hosts_min;
    uint32_t n_places = (uint32_t)MAX(hosts_count(hosts), (size_t)1); /* `local` alone is none */
    struct fleet *fleet = launch->fleet = xcalloc(1, sizeof(*fleet));
    int rc = 0;
    fleet->at = xcalloc(n_places + 1, sizeof(*fleet->at));
    fleet->n = n_places;
    for (uint32_t i = 0; i < n_places; i++)
        fleet->at[hosts_view(hosts, i).place] =
            (struct fleet_host){.machine = {.launch = launch}, .number = i};
    meeting->n_nodes_awaited = 0;
    for (uint32_t i = 0; rc == 0 && i < n_places; i++) {
        rc = host_open(&fleet->at[i], err);
        meeting->n_nodes_awaited += fleet->at[i].machine.n_ranks > 0;
    }
    fleet->meet = meet_new(launch, n_places);
    meeting->n_nodes_max = n_places;
    meeting->n_nodes_min = n_min > 0 ? (uint32_t)n_min : n_places;
    return rc;
}

/* ---- which are there ---- */

static uint32_t node_of(const struct fleet_host *host)
{
    return (uint32_t)(host - host->machine.launch->fleet->at);
}

/* Has the host ranks? A host that has come late gets them here. */
static bool has_ranks(struct fleet_host *host)
{
    struct err err = {0};
    if (host->machine.n_ranks == 0 && !host->is_unfit && host_open(host, &err) != 0) {
        host->is_unfit = true;
        log_add(shell_log(host->machine.launch->shell), LOG_WARN, "launch", "%s is not used: %s",
                host->machine.name, err.text);
    }
    return host->machine.n_ranks > 0;
}

/* Tells the gang once that nothing is left of what the host had when it was lost. */
static void emptiness_look(struct fleet_host *host)
{
    struct launch *launch = host->machine.launch;
    if (!host->is_up || !host->may_live || !view_of(host).is_empty)
        return;
    host->may_live = false;
    log_add(shell_log(launch->shell), LOG_WARN, "launch", "%s: its old ranks have ended",
            host->machine.name);
    lead_tell(launch, (struct gang_event){.kind = GEV_NODE_EMPTY, .node = node_of(host)});
}

static void host_look(struct fleet_host *host)
{
    struct launch *launch = host->machine.launch;
    bool is_up = hosts_is_up(shell_hosts(launch->shell), host->number) && has_ranks(host);
    uint32_t node = node_of(host);
    if (is_up == host->is_up) {
        emptiness_look(host);
        return;
    }
    const char *why = view_of(host).why;
    host->is_up = is_up;
    host->may_live |= !is_up && lead_awaits(launch, node);
    host->next.is_wanted = false;
    launch->others.nodes[node].is_here = is_up;
    if (!is_up) {
        free(launch->others.nodes[node].left);
        launch->others.nodes[node].left = xstrdup(why ? why : "it is gone");
    }
    const struct launch_request *request = launch->request;
    uint64_t empty_ms = host_emptied_in_ms(&request->allocation, request->grace_ms);
    lead_tell(launch, (struct gang_event){.kind = is_up ? GEV_NODE_UP : GEV_NODE_GONE,
                                          .node = node,
                                          .count = host->machine.n_ranks,
                                          .gone_ms = shell_now(launch->shell) + empty_ms});
}

bool fleet_loss_tell(struct machine *machine)
{
    struct fleet_host *host = (struct fleet_host *)machine;
    if (host->is_up)
        host_look(host);
    return !host->is_up;
}

void fleet_begin(struct launch *launch)
{
    struct fleet *fleet = launch->fleet;
    for (uint32_t i = 0; i < fleet->n; i++)
        launch->others.nodes[i].host = xstrdup(fleet->at[i].machine.name);
    fleet_tick(launch);
}

/* Gives the run up if too few hosts remain that may still come. */
static void rest_check(struct launch *launch)
{
    const struct launch_meeting *meeting = &launch->request->meeting;
    uint32_t n_left = launch->fleet->n;
    struct err err = {0};
    if (gang_view(launch->gang).state != GANG_GATHERS || shell_is_to_end(launch->shell))
        return;
    for (uint32_t i = 0; i < launch->fleet->n; i++)
        n_left -= launch->fleet->at[i].is_unfit ||
                  strcmp(view_of(&launch->fleet->at[i]).state, "given up") == 0;
    if (n_left >= meeting->n_nodes_min)
        return;
    fail(&err, ERR_UNAVAILABLE, "%u of %u hosts can still be had", n_left, meeting->n_nodes_min);
    shell_abort(launch->shell, &err);
}

void fleet_tick(struct launch *launch)
{
    for (uint32_t i = 0; i < launch->fleet->n; i++)
        host_look(&launch->fleet->at[i]);
    rest_check(launch);
}

/* ---- ranks ---- */

static void next_start(struct fleet_host *host)
{
    struct launch *launch = host->machine.launch;
    host->next.is_wanted = false;
    host->next.part.master_port = meet_port(launch->fleet->meet);
    launch->master_addr = meet_address(launch->fleet->meet);
    machine_start(&host->machine, &host->next.part, host->next.ranks);
}

void fleet_meet(struct launch *launch)
{
    struct fleet *fleet = launch->fleet;
    for (uint32_t i = 0; i < fleet->n; i++)
        if (fleet->at[i].next.is_wanted)
            next_start(&fleet->at[i]);
}

bool fleet_waits(const struct fleet *fleet)
{
    bool any = false;
    for (uint32_t i = 0; i < fleet->n; i++)
        any = any || fleet->at[i].next.is_wanted;
    return any;
}

static void place_seek(struct launch *launch)
{
    struct fleet *fleet = launch->fleet;
    struct gang_member member;
    cleanup_free struct machine **members = xcalloc(fleet->n, sizeof(struct machine *));
    uint32_t n_members = 0;
    for (uint32_t i = 0; i < fleet->n; i++)
        if (gang_member(launch->gang, i, &member))
            members[n_members++] = &fleet->at[i].machine;
    meet_seek(fleet->meet, members, n_members);
}

void fleet_start(struct launch *launch, uint32_t node, const struct rendezvous_start *part,
                 struct rank *ranks)
{
    struct fleet_host *host = &launch->fleet->at[node];
    host->next.is_wanted = true;
    host->next.part = *part;
    host->next.ranks = ranks;
    if (part->group_rank == 0)
        place_seek(launch);
    if (meet_is_held(launch->fleet->meet))
        next_start(host);
}

void fleet_end(struct launch *launch, uint32_t node, const struct rendezvous_end *how)
{
    struct fleet_host *host = &launch->fleet->at[node];
    if (!host->next.is_wanted) {
        machine_end(&host->machine, how);
        return;
    }
    host->next.is_wanted = false;
    for (uint32_t i = 0; i < host->machine.n_ranks; i++)
        lead_tell(launch, (struct gang_event){.kind = GEV_EXIT,
                                              .rank = host->next.part.first_rank + i,
                                              .generation = host->next.part.generation,
                                              .status = 128 + SIGTERM});
}

/* ---- the end ---- */

void fleet_close(struct launch *launch)
{
    if (launch->fleet)
        meet_close(launch->fleet->meet);
}

void fleet_free(struct fleet *fleet)
{
    if (!fleet)
        return;
    meet_free(fleet->meet);
    for (uint32_t i = 0; i < fleet->n; i++)
        free(fleet->at[i].machine.shares);
    free(fleet->at);
    free(fleet);
}

uint32_t fleet_len(const struct fleet *fleet)
{
    return fleet->n;
}

struct machine *fleet_machine(const struct fleet *fleet, uint32_t number)
{
    return &fleet->at[number].machine;
}
