/* SPDX-License-Identifier: Apache-2.0
 *
 * Which hosts and devices a job may use, by the patterns that it names. Jobs with the same patterns share a place of the
 * dag; hosts and devices that come later are judged when they come.
 */
#include <fnmatch.h>

#include "base/cleanup.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

static bool name_matches(const char *patterns, const char *name)
{
    struct str rest = str_of(patterns), piece;
    bool does = false;
    while (rest.len > 0 && !does && str_next(&rest, ',', &piece)) {
        piece = str_trim(piece);
        cleanup_free char *pattern = xstrndup(piece.at, piece.len);
        does = fnmatch(pattern, name, 0) == 0;
    }
    return does;
}

/* This machine is known by its own name as well. */
static bool host_matches(const struct graph *graph, const char *patterns, uint32_t node)
{
    char own[HOST_NAME_BYTES];
    if (name_matches(patterns, host_label(graph, node)))
        return true;
    if (node > 0)
        return name_matches(patterns, host_machine_name(graph, node));
    host_name(own);
    return name_matches(patterns, own);
}

/* Do the patterns name the device, by index, name or identity? */
static bool device_matches(const struct graph *graph, const char *names, uint32_t chosen)
{
    const struct allocation *a = &graph->allocation;
    const struct device *device = &a->devices.at[a->chosen[chosen]];
    cleanup_free char *index = xasprintf("%d", device->index);
    return name_matches(names, index) || name_matches(names, device->name) ||
           name_matches(names, device->uuid);
}

static void device_deny(struct graph *graph, uint32_t place, uint32_t chosen)
{
    const char *names = graph->fleet.places[place].device_names;
    if (names && !device_matches(graph, names, chosen))
        dag_deny_device(graph->dag, place, chosen);
}

void places_take_device(struct graph *graph, uint32_t chosen)
{
    for (uint32_t place = 1; place < graph->fleet.n_places; place++)
        device_deny(graph, place, chosen);
}

static bool has_part(const struct graph *graph, uint32_t node)
{
    bool has = false;
    for (size_t i = 0; i < graph->allocation.n_hosts; i++)
        has = has || graph->allocation.hosts[i].node == node;
    return has;
}

static bool is_denied(const struct graph_place *place, uint32_t node)
{
    return place->denied[node / 64] >> node % 64 & 1;
}

bool place_has_host(const struct graph *graph, uint32_t place, uint32_t node)
{
    const struct graph_place *of = &graph->fleet.places[place];
    return !is_denied(of, node) && (!of->patterns || host_matches(graph, of->patterns, node));
}

bool place_has_device(const struct graph *graph, uint32_t place, uint32_t chosen)
{
    const struct allocation *a = &graph->allocation;
    const char *names = graph->fleet.places[place].device_names;
    return place_has_host(graph, place, a->hosts[allocation_host_of(a, chosen)].node) &&
           (!names || device_matches(graph, names, chosen));
}

void places_take_host(struct graph *graph, uint32_t node)
{
    for (uint32_t place = 1; place < graph->fleet.n_places; place++)
        if (place_has_host(graph, place, node))
            dag_allow(graph->dag, place, node);
}

static bool is_same(const struct graph_place *a, const struct graph_place *b)
{
    return strcmp(a->patterns ? a->patterns : "", b->patterns ? b->patterns : "") == 0 &&
           strcmp(a->device_names ? a->device_names : "", b->device_names ? b->device_names : "") ==
               0 &&
           memcmp(a->denied, b->denied, sizeof(a->denied)) == 0;
}

/* Finds the place with these patterns, or adds it. False: there are too many places. */
static bool place_find(struct graph *graph, const struct graph_place *wanted, uint32_t *out)
{
    struct graph_fleet *fleet = &graph->fleet;
    *out = 0;
    while (*out < fleet->n_places && !is_same(&fleet->places[*out], wanted))
        ++*out;
    if (*out < fleet->n_places || *out == DAG_PLACES_MAX)
        return *out < fleet->n_places;
    fleet->places = xrealloc(fleet->places, (*out + 1) * sizeof(*fleet->places));
    fleet->places[fleet->n_places++] = *wanted;
    for (uint32_t node = 0; node < fleet->n_hosts; node++)
        if (has_part(graph, node) && place_has_host(graph, *out, node))
            dag_allow(graph->dag, *out, node);
    for (uint32_t i = 0; i < fleet->n_devices; i++)
        device_deny(graph, *out, i);
    return true;
}

/* A run with --hosts passes: its hosts, or hosts that come later, may have such a device. */
int job_devices_check(const struct graph *graph, const struct plan_job *job, struct err *err)
{
    const char *names = job->device_names;
    cleanup_buf struct buf there = BUF_INIT;
    bool is_there = !names || graph->request->allocation.hosts;
    for (uint32_t i = 0; i < graph->fleet.n_devices && !is_there; i++) {
        const struct allocation *a = &graph->allocation;
        is_there = device_matches(graph, names, i);
        buf_addf(&there, i > 0 ? ", %d (%s)" : "%d (%s)", a->devices.at[a->chosen[i]].index,
                 a->devices.at[a->chosen[i]].name);
    }
    return is_there ? 0
                    : fail(err, ERR_USAGE, "%s: this run has no device '%s'; it has %s", job->name,
                           names, there.len > 0 ? buf_text(&there) : "none");
}

int job_place(struct graph *graph, const struct plan_job *job, uint32_t *out, struct err *err)
{
    const struct graph_place wanted = {.patterns = job->hosts, .device_names = job->device_names};
    if (place_find(graph, &wanted, out))
        return 0;
    return fail(err, ERR_USAGE,
                "'%s': the jobs of a graph can have at most %d different lists of hosts and "
                "devices; use fewer",
                job->hosts ? job->hosts : job->device_names, DAG_PLACES_MAX - 1);
}

/* Does a host remain? This machine counts only if it takes part in the run. */
static bool any_remains(const struct graph *graph, uint32_t place)
{
    const struct graph_fleet *fleet = &graph->fleet;
    bool does = fleet->are_awaited;
    for (uint32_t node = 0; node < fleet->n_hosts && !does; node++) {
        bool is_there = fleet->hosts[node].is_up || fleet->hosts[node].is_awaited;
        does = is_there && has_part(graph, node) && host_cpus(graph, node) > 0 &&
               place_has_host(graph, place, node);
    }
    return does;
}

bool host_place_without(struct graph *graph, uint32_t place, uint32_t node, uint32_t *out)
{
    struct graph_place wanted = graph->fleet.places[place];
    wanted.denied[node / 64] |= 1ull << node % 64;
    return place_find(graph, &wanted, out) && any_remains(graph, *out);
}
