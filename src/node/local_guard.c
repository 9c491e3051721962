/* SPDX-License-Identifier: Apache-2.0
 *
 * Guards that wait for their next worker. Starting a guard takes as long as starting a small program: with short
 * jobs, half of the time. A guard gets another worker only after it has reported that nothing of its last worker is
 * left. A guard that gets none soon ends.
 */
#include "base/clock.h"
#include "base/xalloc.h"
#include "node/local_impl.h"

enum {
    IDLE_MAX_MS = 1000
};

int local_guard_take(struct local_worker *w, const struct spawn_opts *opts, struct err *err)
{
    struct local *local = w->node;
    while (local->idle.len > 0) {
        w->guard = local->idle.at[--local->idle.len].guard;
        if (guard_start(&w->guard, opts, NULL) == 0)
            return 0;
        guard_close(&w->guard); /* it was killed, or a limit on sockets was reached */
    }
    int rc = guard_spawn(&w->guard, opts, err);
    if (rc == 0)
        reaper_add(local->opts.reaper, w->guard.pid);
    return rc;
}

void local_guard_give(struct local_worker *w)
{
    struct local *local = w->node;
    if (!w->is_guard_idle) {
        guard_close(&w->guard);
        return;
    }
    if (local->idle.len == local->idle.cap) {
        local->idle.cap = MAX(2 * local->idle.cap, (size_t)16);
        local->idle.at = xrealloc(local->idle.at, local->idle.cap * sizeof(*local->idle.at));
    }
    local->idle.at[local->idle.len++] =
        (struct idle_guard){.guard = w->guard, .since_ms = clock_now_ms()};
    pid_t worker_pid = w->guard.worker_pid; /* for messages about its end */
    w->guard = (struct guard)GUARD_INIT;
    w->guard.worker_pid = worker_pid;
    w->is_guard_idle = false;
}

static void remove_at(struct local *local, size_t at)
{
    guard_close(&local->idle.at[at].guard);
    local->idle.len--;
    memmove(local->idle.at + at, local->idle.at + at + 1,
            (local->idle.len - at) * sizeof(*local->idle.at));
}

void local_guard_ended(struct local *local, pid_t pid)
{
    for (size_t i = local->idle.len; i-- > 0;)
        if (local->idle.at[i].guard.pid == pid)
            remove_at(local, i);
}

void local_guards_tick(struct local *local)
{
    uint64_t now_ms = clock_now_ms();
    while (local->idle.len > 0 && now_ms - local->idle.at[0].since_ms > IDLE_MAX_MS)
        remove_at(local, 0);
}

void local_guards_end(struct node *node)
{
    struct local *local = (struct local *)node;
    while (local->idle.len > 0)
        remove_at(local, local->idle.len - 1);
}
