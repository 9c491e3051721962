/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices by the numbers that the dag uses: their positions among the chosen ones. In the allocation each device has
 * a seat of its own; the seat of a process combines those of its devices.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

static const struct device *device_at(const struct graph *graph, uint32_t chosen)
{
    return &graph->allocation.devices.at[graph->allocation.chosen[chosen]];
}

/* The matrix of distances of the chosen devices, those of one host in a row; NULL: all are equally near. */
static uint8_t *distances_new(const struct graph *graph)
{
    const struct allocation *a = &graph->allocation;
    size_t n = a->n_chosen;
    bool any_is_known = false;
    for (size_t h = 0; h < a->n_hosts; h++)
        any_is_known = any_is_known || a->hosts[h].distance;
    if (!any_is_known)
        return NULL;
    uint8_t *out = xmalloc(n * n + 1);
    memset(out, UINT8_MAX, n * n);
    for (const struct allocation_host *of = a->hosts; of < a->hosts + a->n_hosts; of++)
        for (size_t i = 0; of->distance && i < of->n_chosen; i++)
            memcpy(out + (of->first_chosen + i) * n + of->first_chosen,
                   of->distance + i * of->n_chosen, of->n_chosen);
    return out;
}

uint64_t graph_memory_max(const struct graph *graph)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < graph->fleet.n_devices; i++)
        most = MAX(most, device_at(graph, i)->mem_free_bytes);
    return most;
}

void graph_device_begin(struct graph *graph, uint32_t chosen)
{
    const struct device *device = device_at(graph, chosen);
    graph->has_memory = graph->has_memory || device->mem_free_bytes > 0;
    graph->devices[chosen] =
        (struct graph_device){.begun_bytes = device->mem_total_bytes - device->mem_free_bytes,
                              .used_bytes = device->mem_total_bytes - device->mem_free_bytes,
                              .total_bytes = device->mem_total_bytes};
}

static struct dag_device *dag_devices_new(struct graph *graph)
{
    const struct allocation *a = &graph->allocation;
    struct dag_device *devices = xcalloc(a->n_chosen + 1, sizeof(*devices));
    graph->devices = xcalloc(a->n_chosen + 1, sizeof(*graph->devices));
    for (uint32_t i = 0; i < a->n_chosen; i++) {
        /* Only memory that is free now: the rest belongs to other users. */
        devices[i] = (struct dag_device){.host = a->hosts[allocation_host_of(a, i)].node,
                                         .mem_bytes = device_at(graph, i)->mem_free_bytes,
                                         .is_up = true};
        graph_device_begin(graph, i);
    }
    return devices;
}

int graph_dag_make(struct graph *graph, struct err *err)
{
    const struct allocation *a = &graph->allocation;
    int rc = graph_hosts_begin(graph, err);
    if (rc)
        return rc;
    uint32_t n_hosts = graph->fleet.n_hosts, n_devices = (uint32_t)a->n_chosen;
    cleanup_free uint8_t *distance = distances_new(graph);
    cleanup_free uint32_t *cpus = xcalloc(n_hosts, sizeof(*cpus));
    if (n_devices > DAG_DEVICES_MAX)
        return fail(err, ERR_USAGE, "a graph can use %d devices, and these are %u; -g names some",
                    DAG_DEVICES_MAX, n_devices);
    cleanup_free struct dag_device *devices = dag_devices_new(graph);
    for (uint32_t i = 0; i < n_hosts; i++)
        cpus[i] = host_cpus(graph, i);
    graph->fleet.n_devices = n_devices;
    graph->fleet.n_devices_max = MAX(n_devices, MIN(a->n_devices_max, (uint32_t)DAG_DEVICES_MAX));
    graph->dag = dag_new(&(struct dag_config){
        .devices = devices,
        .n_devices = n_devices,
        .n_devices_max = graph->fleet.n_devices_max,
        .distance = distance,
        .host_cpus = cpus,
        .n_hosts = n_hosts,
        .n_running_max = (uint32_t)MIN(graph->request->n_running_max, (uint64_t)UINT32_MAX),
        .keeps_going = !graph->request->halts,
    });
    return graph->dag ? 0 : fail(err, ERR_STOPPED, "out of memory");
}

/* ---- the seat of a process ---- */

static uint32_t seat_number(const struct graph *graph, uint32_t chosen)
{
    return allocation_seat_of(&graph->allocation, graph->allocation.first_of[chosen]);
}

static void label_make(struct process *process)
{
    cleanup_buf struct buf label = BUF_INIT;
    process_devices_add(process, &label);
    for (char *at = label.at; at && *at; at++)
        *at = *at == ' ' ? '_' : *at;
    snprintf(process->seat.label, sizeof(process->seat.label), "%.120s",
             label.len > 0 ? buf_text(&label) : "none");
}

void process_seat_take(struct process *process, const struct dag_placement *placement)
{
    struct graph *graph = process->graph;
    struct seat *seat = &process->seat;
    *seat = (struct seat){.host = placement->host};
    process->is_alone = placement->n_devices > 0;
    for (uint32_t i = 0; i < placement->n_devices; i++) {
        uint32_t chosen = placement->devices[i];
        const struct seat *own = &graph->allocation.seats[seat_number(graph, chosen)];
        struct graph_device *device = &graph->devices[chosen];
        process->devices[i] = chosen;
        seat_join(seat, own);
        process->is_alone = process->is_alone && device->n_processes == 0;
        if (device->n_processes++ == 0)
            device_watch_started(graph->watch, (uint32_t)(own - graph->allocation.seats));
    }
    seat->threads = MAX(seat->threads, 1u);
    label_make(process);
}

void process_devices_add(const struct process *process, struct buf *out)
{
    const struct graph *graph = process->graph;
    if (process->seat.n_devices == 0 && process->seat.host > 0)
        buf_add_text(out, host_label(graph, process->seat.host));
    for (size_t i = 0; i < process->seat.n_devices; i++)
        if (i == 0)
            allocation_label_add(&graph->allocation, process->devices[i], out);
        else
            buf_addf(out, "+%d", device_at(graph, process->devices[i])->index);
}

void process_seat_ended(struct process *process)
{
    struct graph *graph = process->graph;
    for (size_t i = 0; i < process->seat.n_devices; i++) {
        struct graph_device *device = &graph->devices[process->devices[i]];
        uint32_t seat = seat_number(graph, process->devices[i]);
        if (--device->n_processes > 0)
            continue;
        device->awaits_memory = true;
        device_watch_ended(graph->watch, seat);
        device_watch_left(graph->watch, seat);
    }
    device_watch_check(graph->watch);
}

uint32_t process_seats_list(const struct process *process, uint32_t out[SEAT_DEVICES_MAX])
{
    const struct graph *graph = process->graph;
    for (size_t i = 0; i < process->seat.n_devices; i++)
        out[i] = graph->allocation.seats[seat_number(graph, process->devices[i])].number;
    return (uint32_t)process->seat.n_devices;
}

/* The memory of a lost host is not known. It need not be: its devices are not used before the host is back. */
bool process_may_settle(const struct process *process)
{
    const struct graph *graph = process->graph;
    bool is_back = true;
    if (shell_last_now(graph->shell) < process->not_before_ms)
        return false;
    if (!host_is_up(graph, process->seat.host))
        return true;
    for (size_t i = 0; i < process->seat.n_devices; i++)
        is_back = is_back && !graph->devices[process->devices[i]].awaits_memory;
    return is_back;
}

/* ---- samples ---- */

static void device_event(struct graph *graph, enum dag_event_kind kind, uint32_t chosen)
{
    graph->devices[chosen].is_up_due = false;
    if (chosen < graph->fleet.n_devices)
        graph_tell(graph, (struct dag_event){.kind = kind, .device = chosen});
}

static void on_memory_back(void *context, uint32_t seat)
{
    struct graph *graph = context;
    uint32_t chosen = graph->allocation.device_of[seat];
    struct graph_device *device = &graph->devices[chosen];
    if (graph->allocation.seats[seat].n_devices == 0)
        return;
    device->awaits_memory = false;
    if (device->is_up_due)
        device_event(graph, DEV_DEVICE_UP, chosen);
}

static void peaks_take(struct graph *graph, const struct device_sample *sample)
{
    size_t device = graph->allocation.chosen[sample->device];
    for (struct process *p = graph->processes; p; p = p->next) {
        pid_t guard_pid = p->worker ? p->worker->guard_pid : 0;
        uint64_t own = device_watch_own(graph->watch, device, guard_pid, p->is_alone);
        for (size_t i = 0; !p->is_gone && i < p->seat.n_devices; i++)
            if (p->devices[i] == sample->device)
                p->mem_peak_bytes = MAX(p->mem_peak_bytes, own);
    }
}

static void on_sampled(void *context, const struct device_sample *sample)
{
    struct graph *graph = context;
    uint32_t chosen = (uint32_t)sample->device;
    struct graph_device *device = &graph->devices[chosen];
    uint64_t now_ms = shell_now(graph->shell);
    uint64_t since_ms = device->sampled_ms > 0 ? now_ms - device->sampled_ms : 0;
    device->sampled_ms = now_ms;
    if (!sample->is_lost) { /* a lost device says nothing of its memory */
        device->used_bytes = sample->mem_used_bytes;
        device->total_bytes = sample->mem_total_bytes;
    }
    device->seen_ms += since_ms;
    device->mem_peak_bytes = MAX(device->mem_peak_bytes, sample->mem_used_bytes);
    device->busy_percent_ms += (double)MAX(sample->busy_percent, 0) * (double)since_ms;
    device->joules += MAX(sample->power_w, 0.0) * (double)since_ms / 1000.0;
    peaks_take(graph, sample);
    if (device_watch_row_is_due(graph->watch, sample->device))
        record_sample(graph, sample);
}

static bool has_host(const struct graph *graph, uint32_t chosen)
{
    const struct allocation *a = &graph->allocation;
    return host_is_up(graph, a->hosts[allocation_host_of(a, chosen)].node);
}

static void on_lost(void *context, uint32_t chosen, bool is_awaited)
{
    struct graph *graph = context;
    (void)is_awaited;
    device_event(graph, DEV_DEVICE_DOWN, chosen);
    if (!has_host(graph, chosen))
        return; /* the end of its jobs will be told */
    record_device_event(graph, "lost", chosen);
    for (struct process *p = graph->processes; p; p = p->next)
        for (size_t i = 0; i < p->seat.n_devices; i++)
            if (p->devices[i] == chosen && p->worker)
                node_end(p->worker, END_POLITELY);
}

/* A job that was lost with the device may still hold memory of it. */
static void on_back(void *context, uint32_t first)
{
    struct graph *graph = context;
    if (has_host(graph, first)) /* else it comes back with its host */
        record_device_event(graph, "return", first);
    graph->devices[first].is_up_due = graph->devices[first].awaits_memory;
    if (!graph->devices[first].awaits_memory)
        device_event(graph, DEV_DEVICE_UP, first);
}

void graph_devices_watch(struct graph *graph)
{
    static const struct device_handlers handlers = {.sampled = on_sampled,
                                                    .lost = on_lost,
                                                    .back = on_back,
                                                    .memory_back = on_memory_back,
                                                    .came = graph_host_came,
                                                    .host_changed = graph_host_changed,
                                                    .host_given_back = graph_host_given_back,
                                                    .awaited = graph_hosts_awaited};
    graph->watch = device_watch_new(graph->shell, &graph->allocation, &handlers, graph);
}
