/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/hosts.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "node/group.h"
#include "node/host_list.h"
#include "node/launcher.h"
#include "node/remote.h"
#include "shell/device_watch.h"
#include "shell/shell.h"
#include "version.h"

enum {
    STARTING_MAX = 8,    /* at once: more are refused by sshd's default MaxStartups */
    RETRY_MIN_MS = 1000, /* the pauses double */
    RETRY_MAX_MS = 60000,
    TRIES_MAX = 15,    /* in a row, without success: about ten minutes */
    SAID_MAX = 200,    /* lines of a transport that are logged */
    STEADY_MS = 60000, /* after so long a connection, the pauses begin anew */
    LEAVE_MS = 5000
};

enum host_state {
    HOST_WAITS,    /* to be connected */
    HOST_STARTING, /* its agent has not answered */
    HOST_UP,
    HOST_AWAY,  /* it was up, and is asked again */
    HOST_FAILED /* it could not be had at the start, or for too long, and is not asked again */
};

struct remote_host {
    struct hosts *hosts;
    const struct host *host;
    struct env_list command, environment; /* of its transport */
    struct node *node;
    enum host_state state;
    uint32_t position; /* among the allocation's hosts */
    struct err why;    /* it failed or was lost */
    uint64_t up_at_ms, retry_at_ms, retry_pause_ms;
    unsigned n_tries; /* since it was up */
    unsigned n_said;
    struct device_list devices; /* as the agent took them first */
    struct seat *seats;
    size_t n_seats;
};

struct hosts {
    struct shell *shell;
    struct host_list list;
    struct remote_host *at; /* of the list, without the local one */
    size_t len;
    bool has_local, is_leaving;
};

static void host_log(const struct remote_host *h, enum log_level level, const char *before,
                     const char *text)
{
    log_add(h->hosts->shell->log, level, "host", "%s: %s%s", h->host->name, before, text);
}

/* ---- what a host tells ---- */

static void devices_keep(struct remote_host *h, const struct wire_taken *taken)
{
    h->devices = (struct device_list){xcalloc(taken->n_devices + 1, sizeof(struct device)),
                                      taken->n_devices};
    memcpy(h->devices.at, taken->devices, taken->n_devices * sizeof(struct device));
    h->seats = xcalloc(taken->n_seats + 1, sizeof(*h->seats));
    memcpy(h->seats, taken->seats, taken->n_seats * sizeof(*h->seats));
    h->n_seats = taken->n_seats;
}

/* A host that returns must have the devices that it had: the run's seats are made of them. */
static bool has_same_devices(const struct remote_host *h, const struct wire_taken *taken)
{
    bool is_same = taken->n_devices == h->devices.len && taken->n_seats == h->n_seats;
    for (size_t i = 0; is_same && i < h->devices.len; i++)
        is_same = strcmp(taken->devices[i].uuid, h->devices.at[i].uuid) == 0;
    return is_same;
}

static void devices_tell(const struct remote_host *h, enum host_change change)
{
    if (h->hosts->shell->machines.watch && h->position > 0)
        device_watch_host(h->hosts->shell->machines.watch, h->position, change);
}

static void give_up(struct remote_host *h, const char *why)
{
    h->state = HOST_FAILED;
    host_log(h, LOG_WARN, "given up: ", why);
    devices_tell(h, HOST_GIVEN_UP);
}

static void on_taken(void *context, const struct wire_taken *taken)
{
    struct remote_host *h = context;
    if (h->devices.len == 0) {
        devices_keep(h, taken);
        h->state = HOST_UP;
        h->up_at_ms = clock_now_ms();
        return;
    }
    if (!has_same_devices(h, taken)) {
        give_up(h, "it is back with other devices");
        remote_leave(h->node);
        return;
    }
    h->state = HOST_UP;
    h->up_at_ms = clock_now_ms();
    h->n_tries = 0;
    host_log(h, LOG_WARN, "", "it is connected again");
    devices_tell(h, HOST_BACK);
}

static void retry_plan(struct remote_host *h)
{
    uint64_t now_ms = clock_now_ms();
    if (h->up_at_ms > 0 && now_ms - h->up_at_ms >= STEADY_MS)
        h->retry_pause_ms = 0;
    h->up_at_ms = 0;
    h->retry_pause_ms =
        MIN(MAX(2 * h->retry_pause_ms, (uint64_t)RETRY_MIN_MS), (uint64_t)RETRY_MAX_MS);
    h->retry_at_ms = now_ms + h->retry_pause_ms;
}

static void on_lost(void *context, const struct err *why)
{
    struct remote_host *h = context;
    bool was_up = h->state == HOST_UP;
    if (h->hosts->is_leaving || h->state == HOST_FAILED)
        return;
    h->why = *why;
    if (h->devices.len == 0) {
        h->state = HOST_FAILED;
        return;
    }
    if (!was_up && ++h->n_tries >= TRIES_MAX) {
        give_up(h, why->text);
        return;
    }
    h->state = HOST_AWAY;
    retry_plan(h);
    if (!was_up)
        return;
    host_log(h, LOG_WARN, "lost; what it had not answered runs elsewhere: ", why->text);
    devices_tell(h, HOST_LOST);
}

static void on_sampled(void *context, const struct device_sample *sample)
{
    const struct remote_host *h = context;
    struct device_sample of_run = *sample;
    if (!h->hosts->shell->machines.watch || sample->device >= h->devices.len)
        return;
    device_watch_sampled(h->hosts->shell->machines.watch, h->position, &of_run);
}

static void on_said(void *context, struct str line)
{
    struct remote_host *h = context;
    cleanup_free char *text = xstrndup(line.at, line.len);
    if (++h->n_said > SAID_MAX)
        return;
    if (h->n_said == SAID_MAX)
        host_log(h, LOG_WARN, "", "it says more, which is left out");
    host_log(h, h->state == HOST_UP ? LOG_WARN : LOG_INFO, "", text);
}

static const struct remote_handlers handlers = {
    .taken = on_taken, .lost = on_lost, .sampled = on_sampled, .said = on_said};

/* ---- connecting ---- */

static void host_connect(struct remote_host *h)
{
    struct err err = {0};
    h->state = HOST_STARTING;
    if (remote_connect(h->node, &err) != 0)
        on_lost(h, &err);
}

static size_t n_in_state(const struct hosts *hosts, enum host_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < hosts->len; i++)
        n += hosts->at[i].state == state;
    return n;
}

/* Starts as many as may start at once. */
static void waiting_connect(struct hosts *hosts)
{
    size_t n_starting = n_in_state(hosts, HOST_STARTING);
    for (size_t i = 0; i < hosts->len && n_starting < STARTING_MAX; i++) {
        if (hosts->at[i].state != HOST_WAITS)
            continue;
        host_connect(&hosts->at[i]);
        n_starting++;
    }
}

void hosts_tick(struct hosts *hosts)
{
    uint64_t now_ms = clock_now_ms();
    for (size_t i = 0; i < hosts->len; i++) {
        struct remote_host *h = &hosts->at[i];
        if (h->node && h->position == 0) /* it is not among the nodes that the shell ticks */
            node_tick(h->node);
        bool is_due = h->state == HOST_AWAY && now_ms >= h->retry_at_ms;
        if (is_due && !hosts->is_leaving && !remote_has_transport(h->node))
            h->state = HOST_WAITS;
    }
    if (!hosts->is_leaving)
        waiting_connect(hosts);
}

static int host_open(struct remote_host *h, const struct allocation_wish *wish, struct err *err)
{
    struct shell *shell = h->hosts->shell;
    const struct launcher_opts launcher = {.via = wish->via,
                                           .job = &h->hosts->list.job,
                                           .agent_path = wish->agent_path ? wish->agent_path
                                                                          : shell->self_path};
    const char *gpus = h->host->gpus ? h->host->gpus : wish->gpus;
    int rc = launcher_command(&launcher, h->host, &h->command, &h->environment, err);
    if (rc)
        return rc;
    struct remote_opts opts = {.local = shell->node,
                               .argv = (const char *const *)h->command.at,
                               .envp = (const char *const *)h->environment.at,
                               .version = MUSTER_VERSION,
                               .take = {.gpus_per_worker = wish->gpus_per_worker,
                                        .workers_per_gpu = wish->workers_per_gpu,
                                        .wait_ms = wish->wait_ms,
                                        .visible = (uint8_t)wish->visible},
                               .silence_limit_ms =
                                   wish->host_timeout_ms ? wish->host_timeout_ms : HOST_TIMEOUT_MS,
                               .handlers = &handlers,
                               .context = h};
    cleanup_free char *cwd = path_cwd();
    snprintf(opts.take.cwd, sizeof(opts.take.cwd), "%s", cwd ? cwd : "");
    snprintf(opts.take.program, sizeof(opts.take.program), "%s",
             wish->program ? wish->program : "");
    if (snprintf(opts.take.gpus, sizeof(opts.take.gpus), "%s", gpus ? gpus : "") >=
        (int)sizeof(opts.take.gpus))
        return fail(err, ERR_USAGE, "the list of devices is longer than %zu bytes",
                    sizeof(opts.take.gpus) - 1);
    snprintf(opts.take.run_id, sizeof(opts.take.run_id), "%s", shell->run_id ? shell->run_id : "");
    h->node = remote_open(&opts);
    return 0;
}

/* What is asked of each host. */
static int hosts_open(struct hosts *hosts, const struct allocation_wish *wish, struct err *err)
{
    int rc = 0;
    hosts->at = xcalloc(hosts->list.len + 1, sizeof(*hosts->at));
    for (size_t i = 0; rc == 0 && i < hosts->list.len; i++) {
        const struct host *host = &hosts->list.at[i];
        if (host->is_local)
            continue;
        struct remote_host *h = &hosts->at[hosts->len++];
        *h = (struct remote_host){.hosts = hosts, .host = host};
        rc = host_open(h, wish, err);
    }
    return rc;
}

/* ---- one allocation ---- */

static int local_take(struct hosts *hosts, const struct allocation_wish *wish,
                      struct allocation *allocation, struct err *err)
{
    struct shell *shell = hosts->shell;
    const struct allocation_holder holder = {shell->self_path, shell->run_id, shell->log};
    struct allocation_wish own = *wish;
    for (size_t i = 0; i < hosts->list.len; i++)
        hosts->has_local = hosts->has_local || hosts->list.at[i].is_local;
    if (!hosts->has_local) {
        allocation_begin(allocation, wish, shell->self_path);
        return 0;
    }
    if (wish->program && program_check(wish->program, err) != 0)
        return ERR_UNAVAILABLE;
    for (size_t i = 0; i < hosts->list.len; i++)
        if (hosts->list.at[i].is_local && hosts->list.at[i].gpus)
            own.gpus = hosts->list.at[i].gpus;
    return allocation_take(allocation, &own, &holder, err);
}

/* The failure of the hosts that failed, if too few are left. */
static int failures_judge(const struct hosts *hosts, const struct allocation_wish *wish,
                          struct err *err)
{
    size_t n_up = n_in_state(hosts, HOST_UP) + hosts->has_local;
    const struct remote_host *first = NULL;
    for (size_t i = 0; i < hosts->len; i++)
        if (hosts->at[i].state == HOST_FAILED && !first)
            first = &hosts->at[i];
    if (n_up >= MAX(wish->hosts_min, (uint64_t)1)) {
        for (size_t i = 0; i < hosts->len; i++)
            if (hosts->at[i].state == HOST_FAILED)
                host_log(&hosts->at[i], LOG_WARN, "cannot be had: ", hosts->at[i].why.text);
        return 0;
    }
    return fail(err, ERR_UNAVAILABLE, "%zu of %zu hosts can be had%s%s%s%s", n_up,
                hosts->len + hosts->has_local, first ? "; " : "", first ? first->host->name : "",
                first ? ": " : "", first ? first->why.text : "");
}

/* All nodes as one, in the order of the allocation's hosts; this machine is the first. */
static void nodes_join(struct hosts *hosts, struct allocation *allocation)
{
    struct node **nodes = xcalloc(hosts->len + 1, sizeof(struct node *));
    size_t n_nodes = 1;
    nodes[0] = hosts->shell->node;
    for (size_t i = 0; i < hosts->len; i++) {
        struct remote_host *h = &hosts->at[i];
        if (h->state != HOST_UP)
            continue;
        h->position = (uint32_t)n_nodes;
        nodes[n_nodes++] = h->node;
        allocation_add_host(allocation, h->host->label, &h->devices, h->seats, h->n_seats);
        allocation->hosts[h->position].round_trip_ms = remote_round_trip_ms(h->node);
    }
    hosts->shell->node = group_open(nodes, n_nodes);
    free(nodes);
}

static int hosts_await(struct hosts *hosts)
{
    struct shell *shell = hosts->shell;
    while (n_in_state(hosts, HOST_WAITS) + n_in_state(hosts, HOST_STARTING) > 0 &&
           !shell_is_to_end(shell)) {
        waiting_connect(hosts);
        for (size_t i = 0; i < hosts->len; i++)
            node_flush(hosts->at[i].node);
        shell_turn(shell);
        for (size_t i = 0; i < hosts->len; i++)
            node_look(hosts->at[i].node);
    }
    for (size_t i = 0; i < hosts->len;
         i++) /* lost again before the run has begun: it has no seats */
        if (hosts->at[i].state == HOST_AWAY)
            hosts->at[i].state = HOST_FAILED;
    return shell->end.signal ? 128 + shell->end.signal : 0;
}

static int hosts_take(struct hosts *hosts, const struct allocation_wish *wish,
                      struct allocation *allocation, struct err *err)
{
    int rc = hosts_open(hosts, wish, err);
    if (rc == 0)
        rc = hosts_await(hosts);
    if (rc == 0)
        rc = failures_judge(hosts, wish, err);
    if (rc == 0)
        nodes_join(hosts, allocation);
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
    if (!wish->hosts) {
        other_nodes_note(shell);
        return allocation_take(allocation, wish, &holder, err);
    }
    struct hosts *hosts = shell->machines.hosts = xcalloc(1, sizeof(*hosts));
    hosts->shell = shell;
    int rc = host_list_parse(wish->hosts, &hosts->list, err);
    if (rc == 0) /* with --wait this may take long, and no agent must wait meanwhile */
        rc = local_take(hosts, wish, allocation, err);
    if (rc == 0 && !shell->phase.has_loop)
        rc = shell_loop_open(shell, err);
    if (rc == 0)
        rc = shell_node_open(shell, scratch, err);
    if (rc == 0)
        rc = shell_loop_begin(shell, err);
    return rc ? rc : hosts_take(hosts, wish, allocation, err);
}

/* ---- the end ---- */

static bool has_transport(const struct hosts *hosts)
{
    bool has = false;
    for (size_t i = 0; i < hosts->len; i++)
        has = has || (hosts->at[i].node && remote_has_transport(hosts->at[i].node));
    return has;
}

void hosts_leave(struct hosts *hosts)
{
    uint64_t deadline_ms = clock_now_ms() + LEAVE_MS;
    bool was_ended = false;
    hosts->is_leaving = true;
    for (size_t i = 0; i < hosts->len; i++)
        if (hosts->at[i].node)
            remote_leave(hosts->at[i].node);
    while (has_transport(hosts)) {
        shell_turn(hosts->shell);
        if (was_ended || clock_now_ms() < deadline_ms)
            continue;
        was_ended = true;
        for (size_t i = 0; i < hosts->len; i++)
            if (hosts->at[i].node)
                remote_end_transport(hosts->at[i].node, END_AT_ONCE);
    }
}

void hosts_free(struct hosts *hosts)
{
    if (!hosts)
        return;
    for (size_t i = 0; i < hosts->len; i++) {
        struct remote_host *h = &hosts->at[i];
        if (h->node && h->position == 0) /* else it was closed with the group */
            node_close(h->node);
        env_list_release(&h->command);
        env_list_release(&h->environment);
        device_list_release(&h->devices);
        free(h->seats);
    }
    host_list_release(&hosts->list);
    free(hosts->at);
    free(hosts);
}
