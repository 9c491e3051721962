/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers of this machine: their start under a guard, orders to them, and their release.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "node/local_impl.h"

static const struct node_ops local_ops;

static struct local_worker *worker_new(struct local *node, const struct spawn_request *request)
{
    struct local_worker *w = xcalloc(1, sizeof(*w));
    uint64_t now_ms = clock_now_ms();
    *w = (struct local_worker){
        .base = {.ops = &local_ops, .handlers = request->handlers, .context = request->context},
        .node = node,
        .guard = GUARD_INIT,
        .answers = request->answers,
        .input = {.begin_ms = now_ms, .last_output_ms = now_ms}};
    for (unsigned stream = 0; stream < LOCAL_STREAMS; stream++)
        w->streams[stream].fd = -1;
    return w;
}

static void worker_free(struct local_worker *w)
{
    free(w->channel_path);
    free(w);
}

static void unlink_worker(struct local_worker *w)
{
    struct local_worker **at = &w->node->workers;
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
}

void local_handle_closed(uv_handle_t *handle)
{
    struct local_worker *w = handle->data;
    if (--w->n_handles == 0 && w->is_released)
        worker_free(w);
}

static void local_release(struct node_worker *worker)
{
    struct local_worker *w = local_of(worker);
    local_stand_forget(w);
    local_streams_close(w);
    local_guard_give(w);
    unlink_worker(w);
    w->is_released = true;
    if (w->n_handles == 0)
        worker_free(w);
}

static int guard_start_for(struct local_worker *w, const struct spawn_request *request,
                           const struct worker_ends *theirs, struct err *err)
{
    int held[LOCK_FDS_MAX];
    const struct spawn_opts opts = {.guard_path = w->node->opts.guard_path,
                                    .argv = request->argv,
                                    .envp = request->envp,
                                    .cwd = request->cwd,
                                    .cpus = &request->seat->cpus,
                                    .grace_ms =
                                        MAX(request->grace_ms, 1u), /* 0 is a guard's default */
                                    .stdin_fd = theirs->in,
                                    .stdout_fd = theirs->out,
                                    .stderr_fd = theirs->err,
                                    .channel_fd = theirs->channel,
                                    .held_fds = held,
                                    .n_held_fds = spawn_locks_fds(request, held),
                                    .guard_stays = true};
    return local_guard_take(w, &opts, err);
}

static void ends_close(struct worker_ends *theirs)
{
    fd_close(&theirs->in);
    fd_close(&theirs->out);
    fd_close(&theirs->err);
    fd_close(&theirs->channel);
}

static int local_spawn(struct node *node, const struct spawn_request *request,
                       struct node_worker **out, struct err *err)
{
    struct local *local = (struct local *)node;
    struct worker_ends theirs = {-1, -1, -1, -1};
    struct local_worker *w = worker_new(local, request);
    int rc = local_streams_open(w, request, &theirs, err);
    if (rc == 0)
        rc = guard_start_for(w, request, &theirs, err);
    ends_close(&theirs);
    if (rc) {
        local_release(&w->base);
        return rc;
    }
    w->next = local->workers;
    local->workers = w;
    w->base.guard_pid = w->guard.pid;
    w->streams[STREAM_REPORT].fd = w->guard.report_fd;
    local_report_watch(w);
    *out = &w->base;
    return 0;
}

static void local_end(struct node_worker *worker, enum worker_end how)
{
    struct guard *guard = &local_of(worker)->guard;
    if (how == END_AT_ONCE)
        guard_kill(guard);
    else
        guard_terminate_by(guard, worker->end_signal ? worker->end_signal : SIGTERM);
}

static pid_t local_pid(const struct node_worker *worker)
{
    return MAX(((const struct local_worker *)worker)->guard.worker_pid, 0);
}

static void local_hold(struct node *node, bool is_held)
{
    struct local *local = (struct local *)node;
    uint64_t now_ms = clock_now_ms();
    local->is_held = is_held;
    for (struct local_worker *w = local->workers; w; w = w->next) {
        w->input.last_output_ms = now_ms; /* muster causes its silence */
        local_streams_rewatch(w);
    }
}

static void local_oom_explained(struct node_worker *worker)
{
    oom_watch_explained(&local_of(worker)->node->oom_watch);
}

static void local_tick(struct node *node)
{
    struct local *local = (struct local *)node;
    oom_watch_look(&local->oom_watch, clock_now_ms());
    for (struct local_worker *w = local->workers; w && !local->is_held; w = w->next) {
        if (w->is_gone)
            continue;
        local_streams_tick(w);
        local_input_tick(w);
    }
    local_stands_tick(local);
    local_guards_tick(local);
}

void local_child_ended(struct node *node, pid_t pid)
{
    struct local *local = (struct local *)node;
    struct local_worker *w = local->workers;
    while (w && w->guard.pid != pid)
        w = w->next;
    if (w)
        local_report_read(w);
    else
        local_guard_ended(local, pid);
}

static void local_close(struct node *node)
{
    struct local *local = (struct local *)node;
    for (struct local_worker *w = local->workers, *next; w; w = next) {
        next = w->next;
        local_release(&w->base);
    }
    local_spies_free(local);
    local_guards_end(node);
    free(local->idle.at);
    free(local);
}

static const struct node_ops local_ops = {.spawn = local_spawn,
                                          .write = local_write,
                                          .finish = local_finish,
                                          .drop = local_drop,
                                          .is_open = local_is_open,
                                          .ask_read = local_ask_read,
                                          .ask_rest = local_ask_rest,
                                          .ask_wait = local_ask_wait,
                                          .ask_stand = local_ask_stand,
                                          .ask_where = local_ask_where,
                                          .pause = local_pause,
                                          .end = local_end,
                                          .pid = local_pid,
                                          .release = local_release,
                                          .hold = local_hold,
                                          .oom_explained = local_oom_explained,
                                          .look = local_look,
                                          .tick = local_tick,
                                          .close = local_close};

struct node *local_open(const struct local_opts *opts)
{
    struct local *local = xcalloc(1, sizeof(*local));
    *local = (struct local){.base = {&local_ops}, .opts = *opts};
    oom_watch_begin(&local->oom_watch, clock_now_ms());
    return &local->base;
}
