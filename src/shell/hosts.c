/* SPDX-License-Identifier: Apache-2.0
 *
 * All hosts of a run: ticks, seats that are given back, views, the end.
 */
#include "base/clock.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "node/group.h"
#include "shell/hosts_impl.h"

enum {
    FETCH_MS = 10000 /* for files that are being fetched when the run is to end */
};

void hosts_waiting_connect(struct hosts *hosts)
{
    size_t n_starting = 0;
    for (size_t i = 0; i < hosts->len; i++)
        n_starting += !hosts->at[i]->host.is_job && hosts->at[i]->state == HOST_STARTING;
    for (size_t i = 0; i < hosts->len; i++) {
        struct remote_host *h = hosts->at[i];
        if (h->state != HOST_WAITS || (!h->host.is_job && n_starting >= HOSTS_STARTING_MAX))
            continue;
        host_connect(h);
        n_starting += !h->host.is_job;
    }
}

void hosts_arrivals_tell(const struct hosts *hosts)
{
    bool any = false;
    for (size_t i = 0; i < hosts->len; i++)
        any = any || host_may_come(hosts->at[i]);
    if (hosts->shell->machines.watch && hosts->has_begun)
        device_watch_await(hosts->shell->machines.watch, any);
}

/* Logs the notes; if there is no log file in the end, they go to the user. */
static void notes_log(struct hosts *hosts, enum log_level level)
{
    struct str rest = buf_str(&hosts->notes), line;
    while (rest.len > 0 && str_next(&rest, '\n', &line))
        log_add(hosts->shell->log, level, "host", "%.*s", (int)line.len, line.at);
    rest = buf_str(&hosts->shown);
    while (rest.len > 0 && str_next(&rest, '\n', &line))
        log_keep(hosts->shell->log, LOG_WARN, "host", "%.*s", (int)line.len, line.at);
    buf_reset(&hosts->notes);
    buf_reset(&hosts->shown);
}

/* Looks on this machine and on all others for devices that have become free. */
static void growth_look(struct hosts *hosts, uint64_t now_ms)
{
    bool is_due = hosts->wish.grows && hosts->has_begun && now_ms >= hosts->grow_at_ms;
    if (!is_due || !hosts->shell->machines.watch || hosts->shell->is_settled)
        return;
    hosts->grow_at_ms = now_ms + GROW_EVERY_MS;
    if (hosts->grow && hosts->local_state == HOST_UP)
        grow_look(hosts->grow);
    for (size_t i = 0; i < hosts->len; i++)
        host_ask_more(hosts->at[i]);
}

/* Limits how long a run that is to end waits for files that are being fetched: not long, and not for a lost host. */
static void fetches_limit(struct hosts *hosts, uint64_t now_ms)
{
    if (!shell_is_to_end(hosts->shell))
        return;
    if (hosts->end_at_ms == 0)
        hosts->end_at_ms = now_ms;
    for (size_t i = 0; i < hosts->len; i++) {
        enum host_state state = hosts->at[i]->state;
        bool is_up = state == HOST_UP || state == HOST_DRAINING;
        if (!is_up || now_ms - hosts->end_at_ms >= FETCH_MS)
            remote_give_up(hosts->at[i]->node);
    }
}

void hosts_losses_tell(struct hosts *hosts)
{
    for (size_t i = 0; i < hosts->len; i++)
        if (hosts->at[i]->state != HOST_UP)
            host_loss_tell(hosts->at[i]);
}

void hosts_say_alive(struct hosts *hosts)
{
    for (size_t i = 0; i < hosts->len; i++)
        remote_say_alive(hosts->at[i]->node);
}

void hosts_tick(struct hosts *hosts)
{
    uint64_t now_ms = clock_now_ms();
    if (hosts->is_leaving || hosts->shell->is_settled)
        return;
    growth_look(hosts, now_ms);
    fetches_limit(hosts, now_ms);
    job_ends_check(hosts, now_ms);
    for (size_t i = 0; i < hosts->len; i++) {
        struct remote_host *h = hosts->at[i];
        host_left_check(h, now_ms);
        if (h->state == HOST_AWAY && now_ms >= h->retry_at_ms && !remote_has_transport(h->node))
            h->state = HOST_WAITS;
    }
    hosts_waiting_connect(hosts);
    hosts_arrivals_tell(hosts);
    if (hosts->shell->log->fd >= 0)
        notes_log(hosts, LOG_INFO);
}

/* ---- this machine ---- */

void hosts_local_give_back(struct hosts *hosts, bool now)
{
    const struct allocation *allocation = hosts->allocation;
    hosts->local_state = HOST_DRAINING;
    for (uint32_t part = 0; part < allocation->n_hosts; part++)
        if (allocation->hosts[part].node == 0 &&
            (allocation->hosts[part].n_sets_left > 0 || allocation->hosts[part].n_chosen == 0))
            device_watch_give_back(hosts->shell->machines.watch, part, now);
}

/* Frees this machine's devices, for other runs, and for this one if the machine is added again. */
static void local_vacated(struct hosts *hosts)
{
    struct allocation *allocation = hosts->allocation;
    for (size_t i = 0; i < allocation->n_hosts; i++)
        if (allocation->hosts[i].node == 0 && allocation->hosts[i].n_sets_left > 0)
            return;
    if (hosts->local_state != HOST_DRAINING)
        return;
    hosts->local_state = HOST_LEFT;
    log_add(hosts->shell->log, LOG_WARN, "host", "local: it has left the run");
    device_watch_leave(hosts->shell->machines.watch);
    device_locks_release(&allocation->locks);
    shell_keeper_renew(hosts->shell, allocation);
}

/* ---- seats that are empty ---- */

void hosts_part_vacated(struct hosts *hosts, uint32_t part)
{
    struct allocation_host *of = &hosts->allocation->hosts[part];
    of->n_sets_left = 0;
    device_watch_vacated(hosts->shell->machines.watch, part);
    if (of->node == 0)
        local_vacated(hosts);
    for (size_t i = 0; i < hosts->len; i++)
        if (host_has_part(hosts->at[i], part))
            host_vacated(hosts->at[i]);
}

void hosts_vacated(struct hosts *hosts, uint32_t first)
{
    uint32_t part = allocation_host_of(hosts->allocation, first);
    if (--hosts->allocation->hosts[part].n_sets_left == 0)
        hosts_part_vacated(hosts, part);
}

/* ---- one more ---- */

int hosts_append(struct hosts *hosts, struct host *taken, struct err *err)
{
    struct shell *shell = hosts->shell;
    if (shell->node == shell->machines.local)
        shell->node = group_open(shell->node);
    struct remote_host *h = host_new(hosts, taken, err);
    if (!h)
        return err->code;
    hosts->at = xrealloc(hosts->at, (hosts->len + 1) * sizeof(*hosts->at));
    hosts->at[hosts->len++] = h;
    return 0;
}

/* ---- for those who watch ---- */

size_t hosts_count(const struct hosts *hosts)
{
    return hosts && hosts->len > 0 ? hosts->len + hosts->has_local : 0;
}

/* "up", "away", "missing" and so on. */
static const char *const state_names[] = {
    [HOST_UP] = "up",           [HOST_DRAINING] = "draining", [HOST_LEFT] = "left",
    [HOST_FAILED] = "given up", [HOST_WAITS] = "away",        [HOST_STARTING] = "away",
    [HOST_AWAY] = "away"};

static const char *state_name(const struct remote_host *h)
{
    return host_may_come(h) && h->state != HOST_DRAINING ? "missing" : state_names[h->state];
}

/* Adds up the devices and seats that the machine has in the run, with those of --grow. */
static struct host_view parts_count(const struct hosts *hosts, struct host_view view)
{
    const struct allocation *allocation = hosts->allocation;
    for (size_t i = 0; i < allocation->n_hosts; i++) {
        const struct allocation_host *part = &allocation->hosts[i];
        if (part->node != view.node || part->n_sets_left == 0)
            continue;
        view.n_devices += part->n_chosen;
        view.n_seats += part->n_seats;
    }
    return view;
}

struct host_view hosts_view(const struct hosts *hosts, size_t number)
{
    if (number < hosts->has_local)
        return parts_count(hosts, (struct host_view){.name = "local",
                                                     .state = state_names[hosts->local_state],
                                                     .place = hosts->local_place,
                                                     .gpus = hosts->local_gpus});
    const struct remote_host *h = hosts->at[number - hosts->has_local];
    uint32_t place = (uint32_t)(number - hosts->has_local);
    place += hosts->has_local && place >= hosts->local_place;
    uint64_t away_ms = h->lost_at_ms > 0 ? clock_now_ms() - h->lost_at_ms : 0;
    return parts_count(hosts, (struct host_view){.name = h->host.name,
                                                 .state = state_name(h),
                                                 .node = h->position,
                                                 .place = place,
                                                 .gpus = h->host.gpus,
                                                 .away_ms = away_ms,
                                                 .lost_ms = h->lost_ms + away_ms,
                                                 .is_empty = h->is_empty,
                                                 .round_trip_ms = remote_round_trip_ms(h->node),
                                                 .n_bytes = remote_bytes(h->node),
                                                 .why = h->why.code ? h->why.text : NULL});
}

struct host_machine hosts_machine(const struct hosts *hosts, uint32_t node)
{
    const struct shell *shell = hosts->shell;
    for (size_t i = 0; i < hosts->len; i++)
        if (node > 0 && hosts->at[i]->position == node)
            return (struct host_machine){hosts->at[i]->host.name,
                                         hosts->at[i]->program ? hosts->at[i]->program : "",
                                         hosts->at[i]->n_cpus};
    return (struct host_machine){"local", shell->self_path,
                                 hosts->has_local ? processors_allowed() : 0};
}

bool hosts_is_up(const struct hosts *hosts, size_t number)
{
    return number < hosts->has_local ? hosts->local_state == HOST_UP
                                     : hosts->at[number - hosts->has_local]->state == HOST_UP;
}

/* ---- the end ---- */

static bool has_transport(const struct hosts *hosts)
{
    bool has = false;
    for (size_t i = 0; i < hosts->len; i++)
        has = has || remote_has_transport(hosts->at[i]->node);
    return has;
}

/*
 * Leaves all hosts. An agent that is up ends when its input ends; a transport that is still connecting is ended.
 * True: a Slurm job may still be queued, which would outlive a killed srun.
 */
static bool all_leave(struct hosts *hosts)
{
    bool is_queued = false;
    for (size_t i = 0; i < hosts->len; i++) {
        bool is_connecting = hosts->at[i]->state == HOST_STARTING;
        remote_leave(hosts->at[i]->node);
        if (is_connecting)
            remote_end_transport(hosts->at[i]->node, END_POLITELY);
        is_queued = is_queued || (is_connecting && hosts->at[i]->host.is_job);
    }
    return is_queued;
}

void hosts_leave(struct hosts *hosts)
{
    uint64_t deadline_ms = clock_now_ms() + HOST_LEAVE_MS;
    bool was_ended = false;
    hosts->is_leaving = true;
    notes_log(hosts, hosts->shell->log->fd >= 0 ? LOG_INFO : LOG_WARN);
    grow_end(hosts->grow);
    local_ask_end(&hosts->slurm.ask);
    bool is_queued = all_leave(hosts);
    while (has_transport(hosts)) {
        shell_turn(hosts->shell);
        if (was_ended || clock_now_ms() < deadline_ms)
            continue;
        was_ended = true;
        for (size_t i = 0; i < hosts->len; i++)
            remote_end_transport(hosts->at[i]->node, END_AT_ONCE);
    }
    if (is_queued)
        slurm_jobs_cancel(hosts->job_name);
}

void hosts_free(struct hosts *hosts)
{
    if (!hosts)
        return;
    for (size_t i = 0; i < hosts->len; i++)
        host_free(hosts->at[i]);
    slurm_job_release(&hosts->job);
    bundles_release(&hosts->bundles);
    buf_release(&hosts->notes);
    buf_release(&hosts->shown);
    grow_free(hosts->grow);
    local_ask_release(&hosts->slurm.ask);
    free(hosts->local_gpus);
    free(hosts->at);
    free(hosts);
}
