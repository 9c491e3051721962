/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/device_watch.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "core/memory.h"
#include "proc/guard.h"
#include "shell/shell_impl.h"

enum {
    SAMPLE_EVERY_MS = 1000,
    HURRY_EVERY_MS = 100, /* while a seat waits for memory */
    HURRY_MS = 2000,      /* after its worker's end; after that, memory seldom comes back soon */
    HURRY_ELSEWHERE_MS = 500,
    ROW_EVERY_MS = 750 /* between recorded samples, at least: a second is not kept exactly */
};

/* The present state of one of the machine's devices. */
struct watched {
    struct device_sample sample; /* the latest */
    bool is_lost;                /* by the latest sample, or because it is taken */
    bool is_taken;               /* by another run, because its lock was deleted */
    bool is_away;                /* with its host */
    bool is_missed;              /* the first of a set that was lost and is not back yet */
    uint64_t row_ms;             /* of the last recorded sample */
};

/* Devices of this machine that were taken together. */
struct own_part {
    struct device_watch *watch;
    struct monitor *monitor;
    uv_poll_t poll;
    uint32_t number;     /* its index in the allocation's hosts */
    uint64_t hurried_ms; /* when a sample was last asked for */
    struct own_part *next;
};

struct device_watch {
    struct shell *shell;
    struct allocation *allocation;
    const struct device_handlers *handlers;
    void *context;
    struct own_part *parts;  /* watched by this process */
    struct watched *devices; /* [allocation->devices.len] */
    bool are_awaited;        /* whether further seats may come, as told last */
    struct memory *memory;   /* of those devices */
    pid_t *guards;           /* of workers, by seat; 0: none, or not known */
    uint64_t hurry_until_ms; /* samples are asked for until then, since the head waits */
};

static void seats_note(struct device_watch *watch, uint32_t begin, uint32_t end)
{
    for (uint32_t p = begin; p < end; p++)
        for (size_t i = 0; i < watch->allocation->seats[p].n_devices; i++)
            memory_seat_uses(watch->memory, p, (uint32_t)watch->allocation->seats[p].devices[i]);
}

struct device_watch *device_watch_new(struct shell *shell, struct allocation *allocation,
                                      const struct device_handlers *handlers, void *context)
{
    struct device_watch *watch = xcalloc(1, sizeof(*watch));
    size_t n_devices = allocation->devices.len;
    uint32_t n_seats = MAX(allocation->n_seats_max, allocation->n_seats);
    *watch = (struct device_watch){
        .shell = shell,
        .allocation = allocation,
        .handlers = handlers,
        .context = context,
        .devices = xcalloc(n_devices, sizeof(*watch->devices)),
        .guards = xcalloc(MAX(n_seats, 1u), sizeof(*watch->guards)),
        .memory = xalloc_checked(
            memory_new(n_seats, MAX(allocation->n_devices_max, (uint32_t)n_devices)), n_devices)};
    seats_note(watch, 0, allocation->n_seats);
    return watch;
}

void device_watch_end(struct device_watch *watch)
{
    for (struct own_part *part = watch ? watch->parts : NULL; part; part = part->next)
        monitor_close(steal_ptr(&part->monitor));
}

void device_watch_leave(struct device_watch *watch)
{
    for (struct own_part *part = watch->parts; part; part = part->next)
        if (part->poll.data)
            uv_poll_stop(&part->poll);
    device_watch_end(watch);
}

void device_watch_free(struct device_watch *watch)
{
    if (!watch)
        return;
    watch->shell->machines.watch = NULL;
    while (watch->parts) {
        struct own_part *part = watch->parts;
        watch->parts = part->next;
        free(part);
    }
    free(watch->devices);
    free(watch->guards);
    memory_free(watch->memory);
    free(watch);
}

/* ---- what is known ---- */

bool device_watch_seat_has_lost(const struct device_watch *watch, uint32_t p)
{
    const struct seat *seat = &watch->allocation->seats[p];
    bool is_lost = false;
    for (size_t i = 0; i < seat->n_devices; i++)
        is_lost = is_lost || watch->devices[seat->devices[i]].is_lost;
    return is_lost;
}

bool device_watch_seat_is_away(const struct device_watch *watch, uint32_t p)
{
    return watch->devices[watch->allocation->seats[p].devices[0]].is_away;
}

uint64_t device_watch_own(const struct device_watch *watch, size_t device, pid_t guard_pid,
                          bool are_alone)
{
    const struct device_sample *sample = &watch->devices[device].sample;
    uint64_t bytes = 0;
    for (size_t i = 0; guard_pid > 0 && i < sample->n_uses; i++)
        if (sample->uses[i].guard_pid == guard_pid)
            bytes = sample->uses[i].mem_bytes;
    if (bytes > 0)
        return bytes;
    return are_alone ? memory_beyond_idle(watch->memory, (uint32_t)device) : 0;
}

struct seat_memory device_watch_memory(const struct device_watch *watch, uint32_t number)
{
    const struct seat *seat = &watch->allocation->seats[number];
    struct seat_memory sum = {0};
    for (size_t i = 0; i < seat->n_devices; i++) {
        const struct device_sample *sample = &watch->devices[seat->devices[i]].sample;
        if (sample->mem_total_bytes == 0)
            continue;
        bool is_alone = memory_is_alone(watch->memory, number, (uint32_t)seat->devices[i]);
        sum.used_bytes +=
            device_watch_own(watch, seat->devices[i], watch->guards[number], is_alone);
        sum.total_bytes += sample->mem_total_bytes;
    }
    return sum;
}

const struct device_sample *device_watch_sample(const struct device_watch *watch, size_t device)
{
    return &watch->devices[device].sample;
}

/* Adds the lost devices of a set: " (gpu 4)". */
static void lost_add(const struct device_watch *watch, const struct seat *seat, struct buf *out)
{
    const char *before = " (";
    for (size_t i = 0; i < seat->n_devices; i++) {
        char label[24];
        if (!watch->devices[seat->devices[i]].is_lost)
            continue;
        device_label(&watch->allocation->devices.at[seat->devices[i]], label);
        buf_addf(out, "%s%s", before, label);
        before = ", ";
    }
    buf_add_text(out, before[0] == ',' ? ")" : "");
}

void device_watch_name_set(const struct device_watch *watch, uint32_t first, struct buf *name,
                           struct buf *lost)
{
    const struct allocation *allocation = watch->allocation;
    const struct seat *seat = &allocation->seats[allocation_seat_of(allocation, first)];
    allocation_label_add(allocation, first, name);
    for (size_t i = 1; i < seat->n_devices; i++)
        buf_addf(name, "+%d", allocation->devices.at[seat->devices[i]].index);
    if (seat->n_devices > 1)
        lost_add(watch, seat, lost);
}

static void seats_log(const struct device_watch *watch, uint32_t begin, uint32_t end)
{
    const struct allocation *allocation = watch->allocation;
    for (uint32_t p = begin; p < end; p++) {
        const struct seat *seat = &allocation->seats[p];
        for (size_t i = 0; i < seat->n_devices; i++) {
            const struct device *device = &allocation->devices.at[seat->devices[i]];
            bool has_memory = device->mem_total_bytes > 0;
            char total[16], available[16];
            size_format(total, device->mem_total_bytes);
            size_format(available, device->mem_free_bytes);
            log_add(watch->shell->log, LOG_INFO, "device", "%s: %s, %s%s%s%s%s", seat->label,
                    device->name, device->uuid, has_memory ? ", " : "", has_memory ? available : "",
                    has_memory ? " free of " : "", has_memory ? total : "");
        }
    }
}

void device_watch_log(const struct device_watch *watch)
{
    seats_log(watch, 0, watch->allocation->n_seats);
}

/* ---- samples ---- */

static struct watched *chosen_at(struct device_watch *watch, uint32_t chosen)
{
    return &watch->devices[watch->allocation->chosen[chosen]];
}

static void loss_tell(struct device_watch *watch, uint32_t chosen, bool is_awaited)
{
    device_watch_miss(watch, watch->allocation->first_of[chosen]);
    if (watch->handlers->lost)
        watch->handlers->lost(watch->context, chosen, is_awaited);
}

/* Tells that the set is back, if none of its devices is lost any more. */
static void return_tell(struct device_watch *watch, uint32_t first)
{
    const struct allocation *allocation = watch->allocation;
    if (!chosen_at(watch, first)->is_missed)
        return;
    for (uint32_t chosen = 0; chosen < allocation->n_chosen; chosen++)
        if (allocation->first_of[chosen] == first && chosen_at(watch, chosen)->is_lost)
            return;
    chosen_at(watch, first)->is_missed = false;
    if (watch->handlers->back)
        watch->handlers->back(watch->context, first);
}

void device_watch_miss(struct device_watch *watch, uint32_t first)
{
    chosen_at(watch, first)->is_missed = true;
}

static void sample_take(struct device_watch *watch, const struct device_sample *sample)
{
    size_t d = watch->allocation->chosen[sample->device];
    struct watched *device = &watch->devices[d];
    bool is_news = sample->is_lost && !device->is_lost;
    device->sample = *sample;
    device->is_lost = device->is_taken || device->is_away || sample->is_lost;
    if (!sample->is_lost) /* a lost device tells nothing of its memory */
        memory_sampled(watch->memory, (uint32_t)d, sample->mem_used_bytes, sample->mem_total_bytes,
                       shell_now(watch->shell));
    struct device_sample told = *sample;
    told.is_lost = device->is_lost;
    if (watch->handlers->sampled)
        watch->handlers->sampled(watch->context, &told);
    if (is_news)
        loss_tell(watch, (uint32_t)sample->device, device->is_away);
    else
        return_tell(watch, watch->allocation->first_of[sample->device]);
}

void device_watch_sampled(struct device_watch *watch, uint32_t host,
                          const struct device_sample *sample)
{
    struct device_sample of_run = *sample;
    of_run.device += watch->allocation->hosts[host].first_chosen;
    sample_take(watch, &of_run);
}

static void host_tell(struct device_watch *watch, uint32_t host, enum host_change change)
{
    if (watch->handlers->host_changed)
        watch->handlers->host_changed(watch->context, host, change);
}

void device_watch_host(struct device_watch *watch, uint32_t host, enum host_change change)
{
    const struct allocation_host *of = &watch->allocation->hosts[host];
    uint32_t end = of->first_chosen + of->n_chosen;
    for (uint32_t i = of->first_chosen; i < end; i++) {
        struct watched *device = chosen_at(watch, i);
        device->is_away = change != HOST_BACK;
        device->is_lost = device->is_taken || device->is_away;
    }
    for (uint32_t p = of->first_seat; p < of->first_seat + of->n_seats; p++)
        memory_away(watch->memory, p, change != HOST_BACK, shell_now(watch->shell));
    if (change != HOST_BACK)
        host_tell(watch, host, change);
    for (uint32_t i = of->first_chosen; i < end; i++)
        if (change == HOST_BACK)
            return_tell(watch, watch->allocation->first_of[i]);
        else
            loss_tell(watch, i, change == HOST_LOST);
    if (change == HOST_BACK)
        host_tell(watch, host, change);
}

/* Spares the monitor's helper, which may be a new one, because the last one hung or died. */
static void monitor_spare(const struct own_part *part)
{
    if (monitor_pid(part->monitor) > 0)
        reaper_spare(part->watch->shell->reaper, monitor_pid(part->monitor));
}

static void on_monitor(uv_poll_t *poll, int status, int events)
{
    const struct own_part *part = poll->data;
    struct device_sample samples[16];
    size_t n;
    (void)status, (void)events;
    while ((n = monitor_read(part->monitor, samples, countof(samples))) > 0)
        for (size_t i = 0; i < n; i++)
            device_watch_sampled(part->watch, part->number, &samples[i]);
    monitor_spare(part);
}

/* Begins to follow the memory of these devices, of which samples will come. */
static void memory_begin(struct device_watch *watch, size_t begin, size_t end)
{
    for (size_t d = begin; d < end; d++) {
        const struct device *device = &watch->allocation->devices.at[d];
        uint64_t total_bytes = device->mem_total_bytes;
        memory_idle(watch->memory, (uint32_t)d,
                    total_bytes - MIN(device->mem_free_bytes, total_bytes), total_bytes);
    }
}

static int monitor_begin(struct own_part *part, struct err *err)
{
    const struct allocation *allocation = part->watch->allocation;
    const struct allocation_host *of = &allocation->hosts[part->number];
    struct device_list chosen =
        device_list_pick(&allocation->devices, allocation->chosen + of->first_chosen, of->n_chosen);
    const struct shell *shell = part->watch->shell;
    uint64_t every_ms = shell->machines.sample_every_ms;
    int rc = monitor_open(&part->monitor, &(struct probe_opts){.self_path = shell->self_path},
                          &chosen, every_ms > 0 ? every_ms : SAMPLE_EVERY_MS, err);
    device_list_release(&chosen);
    if (rc)
        return rc;
    monitor_spare(part);
    if (monitor_fd(part->monitor) < 0)
        return 0;
    int sys = -uv_poll_init(&part->watch->shell->loop, &part->poll, monitor_fd(part->monitor));
    if (sys)
        return fail(err, ERR_SYS, "%s", errno_text(sys));
    part->poll.data = part;
    uv_poll_start(&part->poll, UV_READABLE, on_monitor);
    return 0;
}

/* Watches the devices of hosts[number] if they are of this machine; agents watch those of other hosts. */
static void part_watch(struct device_watch *watch, uint32_t number)
{
    struct err err = {0};
    struct own_part *part = xcalloc(1, sizeof(*part));
    *part = (struct own_part){.watch = watch, .number = number, .next = watch->parts};
    watch->parts = part;
    if (monitor_begin(part, &err) != 0)
        log_add(watch->shell->log, LOG_WARN, "device", "devices are not watched: %s", err.text);
}

void device_watch_begin(struct device_watch *watch)
{
    watch->shell->machines.watch = watch;
    size_t n_own = watch->allocation->n_own_devices;
    memory_begin(watch, n_own, watch->allocation->devices.len); /* their agents watch them */
    part_watch(watch, 0);
    if (watch->parts->monitor && monitor_fd(watch->parts->monitor) >= 0)
        memory_begin(watch, 0, n_own);
}

/* ---- devices that come and go ---- */

void device_watch_came(struct device_watch *watch, uint32_t host)
{
    const struct allocation *allocation = watch->allocation;
    const struct allocation_host *of = &allocation->hosts[host];
    size_t n_devices = allocation->devices.len;
    watch->devices = xrealloc(watch->devices, n_devices * sizeof(*watch->devices));
    for (uint32_t i = of->first_chosen; i < of->first_chosen + of->n_chosen; i++)
        *chosen_at(watch, i) = (struct watched){0};
    seats_note(watch, of->first_seat, of->first_seat + of->n_seats);
    memory_begin(watch, allocation->chosen[of->first_chosen], n_devices);
    if (of->node == 0)
        part_watch(watch, host);
    seats_log(watch, of->first_seat, of->first_seat + of->n_seats);
    if (watch->handlers->came)
        watch->handlers->came(watch->context, host);
}

void device_watch_give_back(struct device_watch *watch, uint32_t host, bool now)
{
    const struct allocation *allocation = watch->allocation;
    uint32_t begin = allocation->hosts[host].first_chosen,
             end = begin + allocation->hosts[host].n_chosen;
    if (watch->handlers->host_given_back)
        watch->handlers->host_given_back(watch->context, host, now);
    for (uint32_t i = begin; i < end; i++)
        if (allocation->first_of[i] == i && watch->handlers->given_back)
            watch->handlers->given_back(watch->context, i, now);
}

void device_watch_await(struct device_watch *watch, bool are_awaited)
{
    if (watch->are_awaited == are_awaited)
        return;
    watch->are_awaited = are_awaited;
    if (watch->handlers->awaited)
        watch->handlers->awaited(watch->context, are_awaited);
}

/* ---- memory of the dead ---- */

void device_watch_started(struct device_watch *watch, uint32_t seat)
{
    memory_taken(watch->memory, seat, shell_now(watch->shell));
}

void device_watch_guarded(struct device_watch *watch, uint32_t seat, pid_t guard_pid)
{
    watch->guards[seat] = guard_pid;
}

void device_watch_ended(struct device_watch *watch, uint32_t seat)
{
    memory_ended(watch->memory, seat, watch->shell->now_ms);
}

void device_watch_left(struct device_watch *watch, uint32_t seat)
{
    memory_left(watch->memory, seat, watch->shell->now_ms);
    watch->guards[seat] = 0;
}

void device_watch_vacated(struct device_watch *watch, uint32_t host)
{
    const struct allocation_host *of = &watch->allocation->hosts[host];
    for (uint32_t p = of->first_seat; p < of->first_seat + of->n_seats; p++)
        memory_away(watch->memory, p, true, shell_now(watch->shell));
}

/* Asks for samples now, so that the next worker need not wait for the sample of the next second. */
static void samples_hurry(struct device_watch *watch)
{
    uint64_t now_ms = watch->shell->now_ms;
    if (now_ms >= watch->hurry_until_ms &&
        !memory_is_awaited(watch->memory, now_ms - MIN(now_ms, (uint64_t)HURRY_MS)))
        return;
    for (struct own_part *part = watch->parts; part; part = part->next)
        if (part->monitor && now_ms - part->hurried_ms >= HURRY_EVERY_MS) {
            part->hurried_ms = now_ms;
            monitor_hurry(part->monitor);
        }
}

void device_watch_hurry(struct device_watch *watch)
{
    watch->hurry_until_ms = watch->shell->now_ms + HURRY_ELSEWHERE_MS;
}

bool device_watch_row_is_due(struct device_watch *watch, size_t device)
{
    struct watched *of = &watch->devices[watch->allocation->chosen[device]];
    uint64_t now_ms = shell_now(watch->shell);
    bool is_due = of->row_ms == 0 || now_ms - of->row_ms >= ROW_EVERY_MS;
    of->row_ms = is_due ? now_ms : of->row_ms;
    return is_due;
}

void device_watch_check(struct device_watch *watch)
{
    uint32_t seat;
    bool is_overdue;
    while (memory_back(watch->memory, watch->shell->now_ms, &seat, &is_overdue)) {
        if (is_overdue && !device_watch_seat_has_lost(watch, seat))
            log_add(watch->shell->log, LOG_WARN, "device",
                    "%s: the dead worker's device memory was not freed within %d s; starting the "
                    "next worker anyway",
                    watch->allocation->seats[seat].label, MEMORY_PATIENCE_MS / 1000);
        if (watch->handlers->memory_back)
            watch->handlers->memory_back(watch->context, seat);
    }
    samples_hurry(watch);
}

/* ---- locks ---- */

void device_watch_renew(struct device_watch *watch)
{
    struct allocation *allocation = watch->allocation;
    cleanup_buf struct buf holder = BUF_INIT;
    char label[24];
    const struct device_lock *lock =
        device_locks_renew(&allocation->locks, watch->shell->run_id, &holder);
    if (!lock)
        return;
    device_label(&allocation->devices.at[lock->device], label);
    log_add(watch->shell->log, LOG_ERROR, "device",
            "%s: the lock file was deleted and the device was taken by %s; this run gives the "
            "device up",
            label, buf_text(&holder));
    struct watched *device = &watch->devices[lock->device];
    device->is_taken = device->is_lost = true;
    loss_tell(watch, allocation_position(allocation, lock->device), false);
}
