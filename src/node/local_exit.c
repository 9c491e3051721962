/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a local worker, as its guard reports it.
 */
#include <signal.h>

#include "node/local_impl.h"

static void report_take(struct local_worker *w, const struct guard_report *report)
{
    struct worker_exit *exit = &w->exit;
    exit->rss_peak_bytes = (uint64_t)MAX(report->rss_peak_bytes, (int64_t)0);
    switch ((enum guard_report_kind)report->kind) {
    case GUARD_STARTED:
        if (w->base.handlers->started)
            w->base.handlers->started(w->base.context);
        return;
    case GUARD_EXEC_FAILED: /* nothing follows this report */
        exit->was_refused = true;
        exit->exec_errno = report->value;
        w->is_gone = w->is_guard_idle = true;
        return;
    case GUARD_EXITED:
        exit->has_exited = true;
        exit->exit_code = report->exit_code;
        exit->exit_signal = report->exit_signal;
        if (exit->exit_signal == SIGKILL) {
            exit->oom_kills = oom_watch_kills(&w->node->oom_watch);
            exit->memory_bytes = oom_memory_bytes();
        }
        return;
    case GUARD_GONE:
        exit->n_left_behind = report->value;
        w->is_gone = w->is_guard_idle = true;
        return;
    case GUARD_STUCK:
        exit->stuck_pid = report->value;
        w->is_gone = true;
        return;
    }
}

/* The last call of the owner's handlers. */
static void end_tell(struct local_worker *w)
{
    local_streams_drain(w);
    for (unsigned stream = 0; stream < LOCAL_STREAMS; stream++)
        local_stream_close(w, stream);
    if (w->is_guard_idle)
        local_guard_give(w);
    w->base.handlers->gone(w->base.context, &w->exit);
}

void local_report_read(struct local_worker *w)
{
    struct guard_report report;
    struct err err = {0};
    int rc;
    bool was_started = w->guard.worker_pid > 0;
    if (w->is_gone)
        return;
    while (!w->is_gone && (rc = guard_read(&w->guard, &report, &err)) != 0) {
        if (rc < 0) {
            w->is_gone = true;
            /*
             * The guard was killed, and its worker with it. In case the guard lives and is only not heard: its worker
             * must not go on beside the next one.
             */
            guard_kill(&w->guard);
        } else
            report_take(w, &report);
    }
    if (w->is_gone)
        end_tell(w);
    else if (!was_started && w->guard.worker_pid > 0)
        local_streams_watch(w);
}
