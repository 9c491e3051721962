/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of a run with hosts: the requests to them, how long to wait for them, and whether enough have come.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "node/environment.h"
#include "shell/hosts_impl.h"

enum {
    QUEUE_SAID_MS = 2000
};

static size_t n_in_state(const struct hosts *hosts, enum host_state state)
{
    size_t n = 0;
    for (size_t i = 0; i < hosts->len; i++)
        n += hosts->at[i]->state == state;
    return n;
}

/* The number of hosts that are not up yet and have not failed, without jobs that may wait in a queue. */
static size_t n_expected(const struct hosts *hosts)
{
    size_t n = 0;
    for (size_t i = 0; i < hosts->len; i++) {
        const struct remote_host *h = hosts->at[i];
        n += !h->host.is_job && (h->state == HOST_WAITS || h->state == HOST_STARTING);
    }
    return n;
}

/* Prepares the request to each host. */
static int hosts_open(struct hosts *hosts, struct host_list *list, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < list->len; i++)
        if (!list->at[i].is_local)
            rc = hosts_append(hosts, &list->at[i], err);
    return rc;
}

static struct allocation_holder holder_of(const struct shell *shell)
{
    return (struct allocation_holder){.self_path = shell->self_path,
                                      .run_id = shell->run_id,
                                      .log = shell->log,
                                      .limit_ms = shell->limit.ms,
                                      .limit_from_ms = shell->limit.from_ms};
}

static int local_take(struct hosts *hosts, const struct host_list *list, struct err *err)
{
    struct shell *shell = hosts->shell;
    const struct allocation_holder holder = holder_of(shell);
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

/* Logs failed hosts, which are asked again if the run can use them later. */
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

/* Fails if too few hosts are left. */
static int failures_judge(struct hosts *hosts, struct err *err)
{
    const struct remote_host *first = NULL;
    for (size_t i = 0; i < hosts->len; i++) {
        if (hosts->at[i]->state == HOST_AWAY) /* there are enough hosts without it */
            hosts->at[i]->state = HOST_FAILED;
        if (hosts->at[i]->state == HOST_FAILED && !first)
            first = hosts->at[i];
    }
    if (are_enough(hosts)) {
        failures_log(hosts);
        return 0;
    }
    return fail(err, ERR_UNAVAILABLE, "%zu of %zu hosts can be had%s%s%s%s",
                n_in_state(hosts, HOST_UP) + hosts->has_local, hosts->len + hosts->has_local,
                first ? "; " : "", first ? first->host.name : "", first ? ": " : "",
                first ? first->why.text : "");
}

/* Is the run to wait on? Queued jobs and hosts that are tried again are waited for only until there are enough hosts. */
static bool is_to_wait(struct hosts *hosts)
{
    size_t n_may_come = n_in_state(hosts, HOST_WAITS) + n_in_state(hosts, HOST_STARTING) +
                        n_in_state(hosts, HOST_AWAY);
    if (n_expected(hosts) > 0)
        return true;
    return n_may_come > 0 && !are_enough(hosts);
}

static void queue_say(struct hosts *hosts, uint64_t begin_ms)
{
    bool is_queued = n_expected(hosts) == 0 && n_in_state(hosts, HOST_STARTING) > 0;
    if (hosts->was_queued || !is_queued || clock_now_ms() - begin_ms < QUEUE_SAID_MS)
        return;
    hosts->was_queued = true;
    log_add(hosts->shell->log, LOG_WARN, "host",
            "waiting for Slurm to grant %s (squeue --me shows the jobs)",
            hosts->wish.hosts_min > 1 ? "the first nodes" : "the first node");
}

/* Waits for hosts. If the run is ended meanwhile, this fails: the verb, which has not begun, has ignored it. */
static int hosts_await(struct hosts *hosts, struct err *err)
{
    struct shell *shell = hosts->shell;
    const struct shell_end *end = &shell->end;
    uint64_t begin_ms = clock_now_ms();
    while (is_to_wait(hosts) && !shell_is_to_end(shell) && !end->is_stopped) {
        hosts_waiting_connect(hosts);
        queue_say(hosts, begin_ms);
        node_flush(shell->node);
        shell_turn(shell);
        node_look(shell->node);
    }
    if (end->signal)
        return 128 + end->signal;
    if (end->err.code)
        return fail(err, end->err.code, "%s", end->err.text);
    return end->is_stopped ? fail(err, ERR_STOPPED, "stopped while hosts were waited for") : 0;
}

static int hosts_take(struct hosts *hosts, struct host_list *list, struct err *err)
{
    int rc = hosts_open(hosts, list, err);
    if (rc == 0)
        rc = hosts_await(hosts, err);
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
                            .local_state = HOST_UP,
                            .bundles = {.self_path = shell->self_path}};
    snprintf(hosts->job_name, sizeof(hosts->job_name), "muster-%d-%llx", (int)getpid(),
             (unsigned long long)clock_wall_ms());
    job_ends_init(hosts);
    return hosts;
}

/* --dry-run asks for no job, so the devices of its nodes are not known: prints how it would ask. */
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

static bool is_sent(const struct texts *sent, const char *entry)
{
    bool is = strncmp(entry, LIBMUSTER_TOKEN "=", strlen(LIBMUSTER_TOKEN "=")) == 0;
    for (size_t i = 0; sent && i < sent->len; i++) {
        size_t len = strcspn(sent->at[i], "=");
        is = is || (strncmp(entry, sent->at[i], len) == 0 && entry[len] == '=');
    }
    return is;
}

/* A worker that misses a secret may not say so. */
void hosts_withheld_note(struct hosts *hosts, const struct host_list *list)
{
    cleanup_buf struct buf names = BUF_INIT;
    bool has_srun = false;
    for (size_t i = 0; i < list->len; i++)
        has_srun = has_srun || list->at[i].is_slurm || list->at[i].is_job;
    if (!has_srun || hosts->wish.via || hosts->has_noted_secrets)
        return;
    hosts->has_noted_secrets = true;
    for (char **at = environ; *at; at++)
        if (env_is_secret(*at) && !is_sent(hosts->wish.sent, *at))
            buf_addf(&names, " %.*s", (int)strcspn(*at, "="), *at);
    if (names.len > 0)
        buf_addf(&hosts->notes, "secrets are sent to nodes only if --env names them; here are:%s\n",
                 buf_text(&names));
}

static int hosts_begin(struct shell *shell, const struct allocation_wish *wish,
                       struct allocation *allocation, struct err *err)
{
    struct hosts *hosts = hosts_new(shell, wish, allocation);
    struct host_list list;
    int rc = host_list_parse(wish->hosts, &list, err);
    if (rc)
        return rc;
    hosts->job = list.job;
    list.job = (struct slurm_job){0};
    hosts_withheld_note(hosts, &list);
    if (wish->hosts_min == HOSTS_ALL)
        hosts->wish.hosts_min = list.len;
    else if (wish->hosts_min > list.len)
        rc = fail(err, ERR_USAGE, "--hosts-min %lu is more than the %zu of --hosts",
                  wish->hosts_min, list.len);
    if (rc == 0 && wish->is_plan)
        rc = jobs_show(&list, wish->slurm_args, err);
    /* This machine first: with --wait it may take long, and no agent must wait meanwhile. */
    if (rc == 0)
        rc = local_take(hosts, &list, err);
    if (rc == 0 && !shell->phase.has_loop)
        rc = shell_loop_open(shell, err);
    if (rc == 0)
        rc = shell_node_open(shell, err);
    if (rc == 0)
        rc = shell_loop_begin(shell, err);
    if (rc == 0)
        shell_files_allow(shell, (uint32_t)list.len);
    if (rc == 0)
        rc = hosts_take(hosts, &list, err);
    host_list_release(&list);
    return rc;
}

/*
 * Notes that the job has other nodes, which the user may expect to be used. Not under srun, which has started a
 * muster on each.
 */
static void other_nodes_note(struct shell *shell)
{
    const char *n_nodes = getenv("SLURM_JOB_NUM_NODES"), *of_step = getenv("SLURM_STEP_NUM_NODES");
    bool are_used = n_nodes && of_step && strcmp(n_nodes, of_step) == 0;
    if (n_nodes && strcmp(n_nodes, "1") != 0 && !are_used)
        log_add(shell->log, LOG_WARN, "host",
                "this Slurm job has %s nodes, and this run uses one; --hosts slurm takes them all",
                n_nodes);
}

int shell_seats_take(struct shell *shell, const struct allocation_wish *wish,
                     struct allocation *allocation, struct err *err)
{
    const struct allocation_holder holder = holder_of(shell);
    int rc = allocation_wish_check(wish, err);
    if (rc)
        return rc;
    if (!wish->hosts)
        other_nodes_note(shell);
    rc = wish->hosts ? hosts_begin(shell, wish, allocation, err)
                     : allocation_take(allocation, wish, &holder, err);
    if (rc == 0)
        allocation_spare(allocation);
    if (rc || !shell->verb->takes_seats)
        return rc;
    if (!wish->hosts) { /* hosts may be added later */
        struct hosts *hosts = hosts_new(shell, wish, allocation);
        hosts->has_local = hosts->has_begun = true;
    }
    shell->machines.hosts->grow_at_ms = clock_now_ms() + GROW_EVERY_MS;
    if (wish->grows && shell->machines.hosts->has_local)
        shell->machines.hosts->grow =
            grow_new(shell, allocation, &shell->machines.hosts->local_wish);
    return 0;
}
