/* SPDX-License-Identifier: Apache-2.0
 *
 * The machines of a run: those that come late, are lost, return and are given back (shell/hosts.h), as the dag sees them. A
 * host of the dag is a node of the run; its devices are further ones of those chosen, and have the same numbers in the dag.
 */
#include "shell/hosts.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "node/wire_body.h"
#include "shell/host_link.h"
#include "store/status.h"

enum {
    STATUS_AGE_MS = 2000 /* a run writes status.json about once a second */
};

static uint32_t node_of(const struct graph *graph, uint32_t part)
{
    return graph->allocation.hosts[part].node;
}

/* ---- what is known of one ---- */

bool host_is_up(const struct graph *graph, uint32_t node)
{
    return node == 0 || graph->fleet.hosts[node].is_up;
}

const char *host_label(const struct graph *graph, uint32_t node)
{
    const struct allocation *a = &graph->allocation;
    for (size_t i = a->n_hosts; node > 0 && i-- > 0;)
        if (a->hosts[i].node == node)
            return a->hosts[i].name;
    return "local";
}

/* The hosts that are not this machine have the numbers from 1 on. */
static struct host_machine planned_machine(const struct planned_hosts *hosts, uint32_t node)
{
    uint32_t number = 0;
    for (size_t i = 0; i < hosts->len; i++) {
        const struct planned_host *host = &hosts->at[i];
        number += !host->is_local;
        if (node == (host->is_local ? 0 : number))
            return (struct host_machine){.name = host->name, .program = "", .n_cpus = host->n_cpus};
    }
    return (struct host_machine){.name = "local", .program = ""};
}

static struct host_machine machine_of(const struct graph *graph, uint32_t node)
{
    if (graph->fleet.planned)
        return planned_machine(graph->fleet.planned, node);
    return hosts_machine(shell_hosts(graph->shell), node);
}

const char *host_program(const struct graph *graph, uint32_t node)
{
    if (node == 0)
        return shell_self_path(graph->shell);
    const char *program = machine_of(graph, node).program;
    return program[0] ? program : AGENT_PROGRAM;
}

const char *host_machine_name(const struct graph *graph, uint32_t node)
{
    return machine_of(graph, node).name;
}

uint32_t host_cpus(const struct graph *graph, uint32_t node)
{
    bool has_hosts = graph->fleet.planned || shell_hosts(graph->shell);
    return has_hosts ? machine_of(graph, node).n_cpus : processors_allowed();
}

static uint64_t emptied_in_ms(const struct graph *graph)
{
    return host_emptied_in_ms(&graph->request->allocation, graph->request->grace_ms);
}

uint64_t host_empty_ms(struct graph *graph)
{
    return shell_now(graph->shell) + emptied_in_ms(graph);
}

/* ---- hosts that come ---- */

static bool are_held(const struct graph *graph)
{
    return graph->fleet.held_until_ms > 0;
}

static void host_tell(struct graph *graph, enum dag_event_kind kind, uint32_t node)
{
    bool is_early = kind == DEV_HOST_UP && node > 0 && are_held(graph);
    if (graph->fleet.hosts[node].is_known && !is_early)
        graph_tell(graph, (struct dag_event){.kind = kind, .device = node});
}

/* Room for what the allocation has. */
static void fleet_grow(struct graph *graph)
{
    const struct allocation *a = &graph->allocation;
    struct graph_fleet *fleet = &graph->fleet;
    uint32_t n_hosts = MAX(fleet->n_hosts, 1u);
    for (uint32_t part = 0; part < a->n_hosts; part++)
        n_hosts = MAX(n_hosts, a->hosts[part].node + 1);
    fleet->hosts = xrealloc(fleet->hosts, n_hosts * sizeof(*fleet->hosts));
    for (; fleet->n_hosts < n_hosts; fleet->n_hosts++)
        fleet->hosts[fleet->n_hosts] = (struct graph_host){0};
    fleet->parts = xrealloc(fleet->parts, a->n_hosts * sizeof(*fleet->parts));
    for (; fleet->n_parts < a->n_hosts; fleet->n_parts++)
        fleet->parts[fleet->n_parts] = (struct graph_part){0};
}

int graph_hosts_begin(struct graph *graph, struct err *err)
{
    const struct allocation *a = &graph->allocation;
    fleet_grow(graph);
    graph->fleet.places = xcalloc(1, sizeof(*graph->fleet.places));
    graph->fleet.n_places = 1;
    graph->fleet.absent = (struct name_index)NAME_INDEX_INIT;
    if (graph->fleet.n_hosts > DAG_HOSTS_MAX)
        return fail(err, ERR_USAGE, "a graph can use %d hosts at most", DAG_HOSTS_MAX - 1);
    for (size_t part = 0; part < a->n_hosts; part++)
        graph->fleet.hosts[a->hosts[part].node] =
            (struct graph_host){.is_known = true, .is_up = true};
    return 0;
}

void graph_hosts_release(struct graph *graph)
{
    free(graph->fleet.hosts);
    free(graph->fleet.parts);
    free(graph->fleet.places);
    name_index_release(&graph->fleet.absent);
}

/* The dag numbers devices in order: when one host has no room, no later host can be used. */
static bool has_room(struct graph *graph, const struct allocation_host *of)
{
    struct graph_fleet *fleet = &graph->fleet;
    fleet->is_full = fleet->is_full || of->node >= DAG_HOSTS_MAX ||
                     fleet->n_devices + of->n_chosen > fleet->n_devices_max;
    if (fleet->is_full)
        log_add(shell_log(graph->shell), LOG_WARN, "graph",
                "%s is not used: this graph has %u devices, and cannot have more", of->name,
                fleet->n_devices);
    return !fleet->is_full;
}

static void dag_host_add(struct graph *graph, const struct allocation_host *of)
{
    const struct allocation *a = &graph->allocation;
    dag_add_host(graph->dag, of->node, host_cpus(graph, of->node));
    graph->fleet.hosts[of->node].is_known = true;
    for (uint32_t i = of->first_chosen; i < of->first_chosen + of->n_chosen; i++) {
        const struct dag_device device = {.host = of->node,
                                          .mem_bytes = a->devices.at[a->chosen[i]].mem_free_bytes};
        uint32_t number = dag_add_device(graph->dag, &device, 0);
        ASSERT(number == i);
        graph->fleet.n_devices++;
        places_take_device(graph, i);
    }
    if (of->distance && !dag_near(graph->dag, of->first_chosen, of->n_chosen, of->distance))
        log_add(shell_log(graph->shell), LOG_WARN, "graph",
                "%s: which devices are near each other is not kept", of->name);
    places_take_host(graph, of->node);
}

void graph_host_came(void *context, uint32_t part)
{
    struct graph *graph = context;
    const struct allocation_host of = graph->allocation.hosts[part];
    uint32_t end = of.first_chosen + of.n_chosen;
    fleet_grow(graph);
    graph->devices = xrealloc(graph->devices, (end + 1) * sizeof(*graph->devices));
    for (uint32_t i = of.first_chosen; i < end; i++)
        graph_device_begin(graph, i);
    if (!has_room(graph, &of))
        return;
    dag_host_add(graph, &of);
    record_event(graph, "join", "host", host_label(graph, of.node), NULL);
    graph->fleet.hosts[of.node].is_up = true;
    graph->fleet.hosts[of.node].is_awaited = false;
    host_tell(graph, DEV_HOST_DOWN, of.node); /* so that jobs choose among all of its devices */
    for (uint32_t i = of.first_chosen; i < end; i++)
        graph_tell(graph, (struct dag_event){.kind = DEV_DEVICE_UP, .device = i});
    host_tell(graph, DEV_HOST_UP, of.node);
}

void graph_hosts_awaited(void *context, bool are_awaited)
{
    struct graph *graph = context;
    graph->fleet.are_awaited = are_awaited;
    graph_tell(graph, (struct dag_event){.kind = DEV_AWAIT, .flag = are_awaited});
}

static bool any_may_start(const struct graph *graph)
{
    for (uint32_t i = 0; i < graph->n_jobs; i++) {
        struct dag_job_view view = dag_job_view(graph->dag, i);
        if (view.state == DAG_READY && !view.is_held)
            return true;
    }
    return false;
}

bool graph_awaits_hosts(const struct graph *graph)
{
    const struct dag_view view = dag_view(graph->dag);
    bool are_awaited = graph->fleet.are_awaited || are_held(graph);
    for (uint32_t node = 1; node < graph->fleet.n_hosts; node++)
        are_awaited = are_awaited || graph->fleet.hosts[node].is_awaited;
    bool is_halted = graph->request->halts && view.n_of[DAG_FAILED] > 0;
    return are_awaited && !view.is_stopped && !is_halted && view.n_of[DAG_READY] > 0 &&
           any_may_start(graph);
}

/* ---- hosts that are lost, or given back ---- */

void graph_host_changed(void *context, uint32_t part, enum host_change change)
{
    struct graph *graph = context;
    uint32_t node = node_of(graph, part);
    static const char *const kinds[] = {
        [HOST_LOST] = "host-lost", [HOST_GIVEN_UP] = "host-given-up", [HOST_BACK] = "host-back"};
    record_event(graph, kinds[change], "host", host_label(graph, node), NULL);
    graph->fleet.hosts[node].is_up = change == HOST_BACK;
    graph->fleet.hosts[node].is_awaited = change == HOST_LOST;
    host_tell(graph, change == HOST_BACK ? DEV_HOST_UP : DEV_HOST_DOWN, node);
}

/* Is a part of the node not given back? A host that came back with other devices has those. */
static bool stays(const struct graph *graph, uint32_t node)
{
    bool does = false;
    for (uint32_t part = 0; part < graph->fleet.n_parts; part++)
        does = does || (node_of(graph, part) == node && !graph->fleet.parts[part].is_leaving);
    return does;
}

void graph_host_given_back(void *context, uint32_t part, bool now)
{
    struct graph *graph = context;
    const struct allocation_host of = graph->allocation.hosts[part];
    record_event(graph, "give-back", "host", host_label(graph, of.node), NULL);
    graph->fleet.parts[part].is_leaving = true;
    graph->fleet.hosts[of.node].is_awaited = false;
    for (uint32_t i = of.first_chosen; i < of.first_chosen + of.n_chosen; i++) {
        graph->devices[i].is_up_due = false;
        if (i < graph->fleet.n_devices)
            graph_tell(graph, (struct dag_event){.kind = DEV_DEVICE_DOWN, .device = i});
    }
    if (stays(graph, of.node))
        return;
    host_tell(graph, DEV_HOST_DOWN, of.node);
    for (struct process *p = graph->processes; now && p; p = p->next)
        if (p->seat.host == of.node && (p->worker || p->preparation))
            process_end(p, END_POLITELY);
}

static bool is_empty(const struct graph *graph, uint32_t part)
{
    const struct allocation_host *of = &graph->allocation.hosts[part];
    bool is = true;
    for (const struct process *p = graph->processes; p; p = p->next) {
        bool has_device = p->seat.n_devices > 0 && p->devices[0] >= of->first_chosen &&
                          p->devices[0] < of->first_chosen + of->n_chosen;
        is = is && !has_device && (p->seat.host != of->node || stays(graph, of->node));
    }
    return is;
}

void graph_hosts_hold(struct graph *graph)
{
    struct graph_fleet *fleet = &graph->fleet;
    struct run_status last = {0};
    struct err err = {0};
    char left[24];
    if (!graph->request->allocation.hosts ||
        status_read(shell_run_dir(graph->shell), &last, &err) != 0)
        return;
    bool was_killed = last.state && strcmp(last.state, "running") == 0;
    int64_t now_ms = clock_wall_ms(),
            until_ms = last.updated_wall_ms + STATUS_AGE_MS + (int64_t)emptied_in_ms(graph);
    status_release(&last);
    if (!was_killed || until_ms <= now_ms)
        return;
    fleet->held_until_ms = MIN(until_ms, now_ms + STATUS_AGE_MS + (int64_t)emptied_in_ms(graph));
    duration_format(left, (uint64_t)(fleet->held_until_ms - now_ms));
    log_add(shell_log(graph->shell), LOG_WARN, "graph",
            "jobs begin on other hosts in %s, when those of the last session must have ended there",
            left);
    for (uint32_t node = 1; node < fleet->n_hosts; node++)
        host_tell(graph, DEV_HOST_DOWN, node);
}

static void hold_end(struct graph *graph)
{
    struct graph_fleet *fleet = &graph->fleet;
    if (!are_held(graph) || clock_wall_ms() < fleet->held_until_ms)
        return;
    fleet->held_until_ms = 0;
    for (uint32_t node = 1; node < fleet->n_hosts; node++)
        if (fleet->hosts[node].is_up && stays(graph, node))
            host_tell(graph, DEV_HOST_UP, node);
}

void graph_hosts_tick(struct graph *graph)
{
    struct graph_fleet *fleet = &graph->fleet;
    hold_end(graph);
    for (uint32_t part = 0; part < fleet->n_parts; part++) {
        if (!fleet->parts[part].is_leaving || fleet->parts[part].has_left || !is_empty(graph, part))
            continue;
        fleet->parts[part].has_left = true;
        hosts_part_vacated(shell_hosts(graph->shell), part);
    }
}

uint64_t graph_finish_ms(void *context, uint32_t part)
{
    const struct graph *graph = context;
    uint64_t longest_ms = 0;
    for (const struct process *p = graph->processes; p; p = p->next) {
        uint64_t ran_ms = shell_last_now(graph->shell) - p->started_ms;
        uint64_t expected_ms = graph->jobs[p->job].expected_ms;
        /* If the time is unknown or over: as long again as it has run. */
        uint64_t left_ms = expected_ms > ran_ms ? expected_ms - ran_ms : ran_ms;
        if (p->seat.host == node_of(graph, part))
            longest_ms = MAX(longest_ms, left_ms);
    }
    return longest_ms;
}
