/* SPDX-License-Identifier: Apache-2.0
 *
 * All hosts of a run: the start, ticks, the end.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "node/group.h"
#include "shell/hosts_impl.h"

enum {
    GROW_EVERY_MS = 5000,
    FETCH_MS = 10000, /* for files on their way, when the run is to end */
    QUEUE_SAID_MS = 2000
};

static size_t n_in_state(const struct hosts *hosts, enum host_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < hosts->len; i++)
        n += hosts->at[i]->state == state;
    return n;
}

/* Those that are not up yet, and are not known to have failed; without those that may wait in a queue. */
static size_t n_expected(const struct hosts *hosts)
{
    size_t n = 0;
    for (size_t i = 0; i < hosts->len; i++) {
        const struct remote_host *h = hosts->at[i];
        n += !h->host.is_job && (h->state == HOST_WAITS || h->state == HOST_STARTING);
    }
    return n;
}

/* Starts as many as may start at once. Jobs that are queued do not hold others back. */
static void waiting_connect(struct hosts *hosts)
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

/* Into the log's file; if there is none in the end, to the user. */
static void notes_log(struct hosts *hosts, enum log_level level)
{
    struct str rest = buf_str(&hosts->notes), line;
    while (rest.len > 0 && str_next(&rest, '\n', &line))
        log_add(hosts->shell->log, level, "host", "%.*s", (int)line.len, line.at);
    buf_reset(&hosts->notes);
}

/* Looks on this machine and on all others for devices that have become free. */
static void growth_look(struct hosts *hosts, uint64_t now_ms)
{
    bool is_due = hosts->wish.grows && hosts->has_begun && now_ms >= hosts->grow_at_ms;
    if (!is_due || !hosts->shell->machines.watch || hosts->shell->is_settled)
        return;
    hosts->grow_at_ms = now_ms + GROW_EVERY_MS;
    if (hosts->grow)
        grow_look(hosts->grow);
    for (size_t i = 0; i < hosts->len; i++)
        host_ask_more(hosts->at[i]);
}

/* A run that is to end waits for files that are coming, but not long, and not for a host to come back. */
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
    waiting_connect(hosts);
    hosts_arrivals_tell(hosts);
    if (hosts->shell->log->fd >= 0)
        notes_log(hosts, LOG_INFO);
}

void hosts_vacated(struct hosts *hosts, uint32_t first)
{
    struct allocation *allocation = hosts->allocation;
    uint32_t part = allocation_host_of(allocation, first);
    if (--allocation->hosts[part].n_sets_left > 0)
        return;
    for (size_t i = 0; i < hosts->len; i++)
        if (host_has_part(hosts->at[i], part))
            host_vacated(hosts->at[i]);
}

/* ---- the start ---- */

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

/* What is asked of each host. */
static int hosts_open(struct hosts *hosts, struct host_list *list, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < list->len; i++)
        if (!list->at[i].is_local)
            rc = hosts_append(hosts, &list->at[i], err);
    return rc;
}

static int local_take(struct hosts *hosts, const struct host_list *list, struct err *err)
{
    struct shell *shell = hosts->shell;
    const struct allocation_holder holder = {shell->self_path, shell->run_id, shell->log};
    struct allocation_wish *own = &hosts->local_wish;
    for (size_t i = 0; i < list->len; i++) {
        hosts->has_local = hosts->has_local || list->at[i].is_local;
        hosts->local_place = list->at[i].is_local ? (uint32_t)i : hosts->local_place;
    }
    if (!hosts->has_local) {
        allocation_begin(hosts->allocation, own, shell->self_path);
        return 0;
    }
    if (own->program && program_check(own->program, err) != 0)
        return ERR_UNAVAILABLE;
    for (size_t i = 0; i < list->len; i++)
        if (list->at[i].is_local && list->at[i].gpus)
            own->gpus = hosts->local_gpus = xstrdup(list->at[i].gpus);
    return allocation_take(hosts->allocation, own, &holder, err);
}

static bool are_enough(const struct hosts *hosts)
{
    return n_in_state(hosts, HOST_UP) + hosts->has_local >= MAX(hosts->wish.hosts_min, (uint64_t)1);
}

/* Those that failed are asked again, if the run can use them later. */
static void failures_log(const struct hosts *hosts)
{
    for (size_t i = 0; i < hosts->len; i++) {
        struct remote_host *h = hosts->at[i];
        if (h->state != HOST_FAILED)
            continue;
        host_log(h, LOG_WARN, "cannot be had: ", h->why.text);
        if (host_may_be_late(h))
            host_retry(h);
    }
}

/* The failure of the hosts that failed, if too few are left. */
static int failures_judge(const struct hosts *hosts, struct err *err)
{
    const struct remote_host *first = NULL;
    for (size_t i = 0; i < hosts->len; i++)
        if (hosts->at[i]->state == HOST_FAILED && !first)
            first = hosts->at[i];
    if (are_enough(hosts)) {
        failures_log(hosts);
        return 0;
    }
    return fail(err, ERR_UNAVAILABLE, "%zu of %zu hosts can be had%s%s%s%s",
                n_in_state(hosts, HOST_UP) + hosts->has_local, hosts->len + hosts->has_local,
                first ? "; " : "", first ? first->host.name : "", first ? ": " : "",
                first ? first->why.text : "");
}

/* Jobs that are queued are waited for only as long as there are not enough hosts. */
static bool is_to_wait(struct hosts *hosts)
{
    size_t n_starting = n_in_state(hosts, HOST_WAITS) + n_in_state(hosts, HOST_STARTING);
    if (n_expected(hosts) > 0)
        return true;
    return n_starting > 0 && !are_enough(hosts);
}

static void queue_say(struct hosts *hosts, uint64_t begin_ms)
{
    if (hosts->was_queued || n_expected(hosts) > 0 || clock_now_ms() - begin_ms < QUEUE_SAID_MS)
        return;
    hosts->was_queued = true;
    log_add(hosts->shell->log, LOG_WARN, "host",
            "waiting for Slurm to grant %s (squeue --me shows the jobs)",
            hosts->wish.hosts_min > 1 ? "the first nodes" : "the first node");
}

static int hosts_await(struct hosts *hosts)
{
    struct shell *shell = hosts->shell;
    uint64_t begin_ms = clock_now_ms();
    while (is_to_wait(hosts) && !shell_is_to_end(shell)) {
        waiting_connect(hosts);
        queue_say(hosts, begin_ms);
        node_flush(shell->node);
        shell_turn(shell);
        node_look(shell->node);
    }
    return shell->end.signal ? 128 + shell->end.signal : 0;
}

static int hosts_take(struct hosts *hosts, struct host_list *list, struct err *err)
{
    int rc = hosts_open(hosts, list, err);
    if (rc == 0)
        rc = hosts_await(hosts);
    if (rc == 0)
        rc = failures_judge(hosts, err);
    for (size_t i = 0; rc == 0 && i < hosts->len; i++)
        if (hosts->at[i]->state == HOST_UP)
            host_join(hosts->at[i]);
    hosts->has_begun = rc == 0;
    return rc;
}

static struct hosts *hosts_new(struct shell *shell, const struct allocation_wish *wish,
                               struct allocation *allocation)
{
    struct hosts *hosts = shell->machines.hosts = xcalloc(1, sizeof(*hosts));
    *hosts = (struct hosts){.shell = shell,
                            .allocation = allocation,
                            .wish = *wish,
                            .local_wish = *wish,
                            .bundles = {.self_path = shell->self_path}};
    snprintf(hosts->job_name, sizeof(hosts->job_name), "muster-%d-%llx", (int)getpid(),
             (unsigned long long)clock_wall_ms());
    job_ends_init(hosts);
    return hosts;
}

/* What the nodes of jobs have is known when they are granted, but a plan asks for none. */
static int jobs_show(const struct host_list *list, const char *args, struct err *err)
{
    cleanup_buf struct buf command = BUF_INIT;
    struct env_list words = {0};
    size_t n_jobs = 0;
    for (size_t i = 0; i < list->len; i++)
        n_jobs += list->at[i].is_job;
    int rc = n_jobs > 0 ? slurm_job_words(args, "muster", &words, err) : 0;
    for (size_t i = 0; i < words.len; i++) {
        buf_add_str(&command, STR(" "));
        buf_add_shell_word(&command, words.at[i]);
    }
    env_list_release(&words);
    if (rc || n_jobs == 0)
        return rc;
    return fail(
        err, ERR_UNAVAILABLE,
        "--dry-run asks Slurm for nothing, and what the nodes of slurm:%zu have is known only when they "
        "are granted; each would be asked for by:%s",
        n_jobs, buf_text(&command));
}

static int hosts_begin(struct shell *shell, const struct allocation_wish *wish,
                       struct allocation *allocation, struct str scratch, struct err *err)
{
    struct hosts *hosts = hosts_new(shell, wish, allocation);
    struct host_list list;
    int rc = host_list_parse(wish->hosts, &list, err);
    if (rc)
        return rc;
    hosts->job = list.job;
    list.job = (struct slurm_job){0};
    if (wish->hosts_min == HOSTS_ALL)
        hosts->wish.hosts_min = list.len;
    else if (wish->hosts_min > list.len)
        rc = fail(err, ERR_USAGE, "--hosts-min %lu is more than the %zu of --hosts",
                  wish->hosts_min, list.len);
    if (rc == 0 && wish->is_plan)
        rc = jobs_show(&list, wish->slurm_args, err);
    /* With --wait this may take long, and no agent must wait meanwhile. */
    if (rc == 0)
        rc = local_take(hosts, &list, err);
    if (rc == 0 && !shell->phase.has_loop)
        rc = shell_loop_open(shell, err);
    if (rc == 0)
        rc = shell_node_open(shell, scratch, err);
    if (rc == 0)
        rc = shell_loop_begin(shell, err);
    if (rc == 0)
        rc = hosts_take(hosts, &list, err);
    host_list_release(&list);
    return rc;
}

/* A user may take it for granted that all nodes of the job are used. */
static void other_nodes_note(struct shell *shell)
{
    const char *n_nodes = getenv("SLURM_JOB_NUM_NODES");
    if (n_nodes && strcmp(n_nodes, "1") != 0)
        log_add(shell->log, LOG_WARN, "host",
                "this Slurm job has %s nodes, and this run uses one; --hosts slurm takes them all",
                n_nodes);
}

int shell_seats_take(struct shell *shell, const struct allocation_wish *wish,
                     struct allocation *allocation, struct str scratch, struct err *err)
{
    const struct allocation_holder holder = {shell->self_path, shell->run_id, shell->log};
    int rc = allocation_wish_check(wish, err);
    if (rc)
        return rc;
    if (!wish->hosts)
        other_nodes_note(shell);
    rc = wish->hosts ? hosts_begin(shell, wish, allocation, scratch, err)
                     : allocation_take(allocation, wish, &holder, err);
    if (rc == 0)
        allocation_spare(allocation);
    if (rc || !shell->verb->takes_seats)
        return rc;
    if (!wish->hosts) { /* others may be added */
        struct hosts *hosts = hosts_new(shell, wish, allocation);
        hosts->has_local = hosts->has_begun = true;
    }
    shell->machines.hosts->grow_at_ms = clock_now_ms() + GROW_EVERY_MS;
    if (wish->grows && shell->machines.hosts->has_local)
        shell->machines.hosts->grow =
            grow_new(shell, allocation, &shell->machines.hosts->local_wish);
    return 0;
}

/* ---- for those who watch ---- */

size_t hosts_count(const struct hosts *hosts)
{
    return hosts && hosts->len > 0 ? hosts->len + hosts->has_local : 0;
}

/* "up", "away", "missing" and so on. */
static const char *state_name(const struct remote_host *h)
{
    static const char *const names[] = {
        [HOST_UP] = "up",           [HOST_DRAINING] = "draining", [HOST_LEFT] = "left",
        [HOST_FAILED] = "given up", [HOST_WAITS] = "away",        [HOST_STARTING] = "away",
        [HOST_AWAY] = "away"};
    return host_may_come(h) && h->state != HOST_DRAINING ? "missing" : names[h->state];
}

/* With the devices and seats that the machine has in the run, however often it grew. */
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
                                                     .state = "up",
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
                                                 .round_trip_ms = remote_round_trip_ms(h->node),
                                                 .n_bytes = remote_bytes(h->node),
                                                 .why = h->why.code ? h->why.text : NULL});
}

bool hosts_is_up(const struct hosts *hosts, size_t number)
{
    return number < hosts->has_local || hosts->at[number - hosts->has_local]->state == HOST_UP;
}

/* ---- the end ---- */

static bool has_transport(const struct hosts *hosts)
{
    bool has = false;
    for (size_t i = 0; i < hosts->len; i++)
        has = has || remote_has_transport(hosts->at[i]->node);
    return has;
}

/* An agent that is up ends when its input does; a transport that is still connecting would wait on. True: a Slurm job
 * may still be queued, which outlives an srun that has to be killed. */
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
    grow_free(hosts->grow);
    local_ask_release(&hosts->slurm.ask);
    free(hosts->local_gpus);
    free(hosts->at);
    free(hosts);
}
