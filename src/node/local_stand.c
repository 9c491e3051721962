/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker's processes do, and where its threads stand: by py-spy, which shows the lines of a Python program, or
 * else by the kernel's files. py-spy is a worker of this node like any other, so nothing is left of it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "node/local_impl.h"

enum {
    SPY_GRACE_MS = 500,
    REASON_MAX_BYTES = 512
};

struct spy {
    struct local *node;
    struct local_worker *of; /* NULL: the worker is gone */
    struct node_worker *process;
    struct buf out, errors;
    uint64_t until_ms;
    bool is_late;
    struct spy *next;
};

/* ---- what it does ---- */

void local_ask_stand(struct node_worker *worker, uint64_t every_ms)
{
    struct local_worker *w = local_of(worker);
    w->stand.every_ms = every_ms;
    w->stand.look_ms = 0;
}

static bool is_due(const struct local_worker *w, uint64_t now_ms)
{
    return w->stand.every_ms > 0 && now_ms >= w->stand.look_ms && !w->is_gone &&
           w->guard.worker_pid > 0 && w->base.handlers->stands;
}

/* Looks at all due workers together, since most of the work is the same for each. */
static void stands_look(struct local *local, size_t n, uint64_t now_ms)
{
    cleanup_free struct local_worker **due = xcalloc(n, sizeof(struct local_worker *));
    cleanup_free pid_t *pids = xcalloc(n, sizeof(*pids));
    cleanup_free struct proc_stand *stands = xcalloc(n, sizeof(*stands));
    size_t at = 0;
    for (struct local_worker *w = local->workers; w && at < n; w = w->next)
        if (is_due(w, now_ms)) {
            w->stand.look_ms = now_ms + w->stand.every_ms;
            pids[at] = w->guard.worker_pid;
            due[at++] = w;
        }
    proc_stands_read(pids, at, stands);
    for (size_t i = 0; i < at; i++)
        if (stands[i].state)
            due[i]->base.handlers->stands(due[i]->base.context, &stands[i]);
}

/* ---- where it stands ---- */

static void where_tell(struct local_worker *w, const struct buf *text)
{
    struct str told = {text->at, MIN(text->len, (size_t)NODE_WHERE_BYTES)};
    if (w->base.handlers->where && !w->is_gone)
        w->base.handlers->where(w->base.context, text->len > 0 ? told : STR(""));
}

static void spy_unlink(struct spy *spy)
{
    struct spy **at = &spy->node->spies;
    while (*at != spy)
        at = &(*at)->next;
    *at = spy->next;
}

static void spy_free(struct spy *spy)
{
    buf_release(&spy->out);
    buf_release(&spy->errors);
    free(spy);
}

/* Tells what the kernel shows, and why there is no answer of py-spy. */
static void threads_tell(struct local_worker *w, struct str why)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (why.len > 0)
        buf_addf(&text, "py-spy: %.*s\n", (int)MIN(why.len, (size_t)REASON_MAX_BYTES), why.at);
    proc_threads_add(&text, w->guard.worker_pid, NODE_WHERE_BYTES - text.len);
    where_tell(w, &text);
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct spy *spy = context;
    struct buf *to = stream == STREAM_ERR ? &spy->errors : &spy->out;
    size_t max = stream == STREAM_ERR ? REASON_MAX_BYTES : NODE_WHERE_BYTES;
    buf_add(to, bytes.at, MIN(bytes.len, max - MIN(to->len, max)));
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct spy *spy = context;
    struct local_worker *w = spy->of;
    struct str why = str_trim(buf_str(&spy->errors));
    node_release(steal_ptr(&spy->process));
    spy_unlink(spy);
    if (w) {
        w->spy = NULL;
        if (worker_exit_status(exit) == 0 && spy->out.len > 0)
            where_tell(w, &spy->out);
        else
            threads_tell(w, spy->is_late ? STR("it did not answer in time") : why);
    }
    spy_free(spy);
}

static void on_trouble(void *context, const char *text)
{
    (void)context, (void)text;
}

static void on_failed(void *context, const struct err *why)
{
    (void)context, (void)why;
}

static bool spy_start(struct local_worker *w, struct spy *spy)
{
    static const struct worker_handlers handlers = {
        .output = on_output, .gone = on_gone, .warned = on_trouble, .failed = on_failed};
    static const struct seat anywhere = {.label = "py-spy"};
    struct proc_stand stand;
    char pid[16];
    proc_stands_read(&w->guard.worker_pid, 1, &stand);
    snprintf(pid, sizeof(pid), "%d", (int)stand.pid);
    const char *const argv[] = {"py-spy", "dump", "--pid", pid, NULL};
    const struct spawn_request request = {.argv = argv,
                                          .envp = (const char *const *)environ,
                                          .seat = &anywhere,
                                          .grace_ms = SPY_GRACE_MS,
                                          .handlers = &handlers,
                                          .context = spy};
    struct err err = {0};
    return stand.state && node_spawn(&w->node->base, &request, &spy->process, &err) == 0;
}

void local_ask_where(struct node_worker *worker)
{
    struct local_worker *w = local_of(worker);
    const char *path = getenv("PATH");
    if (w->spy || w->is_gone || w->guard.worker_pid <= 0)
        return;
    struct spy *spy = xcalloc(1, sizeof(*spy));
    *spy = (struct spy){.node = w->node,
                        .of = w,
                        .until_ms = clock_now_ms() + NODE_WHERE_MS / 2,
                        .next = w->node->spies};
    w->spy = w->node->spies = spy;
    /* Without py-spy, the next tick tells the threads, since handlers must not be called from here. */
    if (path && path_finds(path, "py-spy"))
        (void)!spy_start(w, spy);
}

static void spies_tick(struct local *local, uint64_t now_ms)
{
    for (struct spy *spy = local->spies, *next; spy; spy = next) {
        struct local_worker *w = spy->of;
        next = spy->next;
        if (spy->process && now_ms >= spy->until_ms && !spy->is_late) {
            spy->is_late = true;
            node_end(spy->process, END_AT_ONCE);
        }
        if (spy->process)
            continue;
        spy_unlink(spy);
        if (w) {
            w->spy = NULL;
            threads_tell(w, STR(""));
        }
        spy_free(spy);
    }
}

void local_stands_tick(struct local *local)
{
    uint64_t now_ms = clock_now_ms();
    size_t n_due = 0;
    for (struct local_worker *w = local->workers; w; w = w->next)
        n_due += is_due(w, now_ms);
    if (n_due > 0)
        stands_look(local, n_due, now_ms);
    spies_tick(local, now_ms);
}

/* ---- the end ---- */

void local_stand_forget(struct local_worker *w)
{
    if (w->spy)
        w->spy->of = NULL;
    w->spy = NULL;
}

void local_spies_free(struct local *local)
{
    while (local->spies) {
        struct spy *spy = local->spies;
        local->spies = spy->next;
        spy_free(spy);
    }
}
