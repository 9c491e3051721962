/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/clock.h"
#include "base/parse.h"
#include "proc/front.h"
#include "proc/logfile.h"
#include "shell/hosts.h"
#include "shell/shell_impl.h"

enum {
    TICK_MS = 100,
    TICKS_IN_A_SECOND = 10
};

uint64_t shell_now(struct shell *shell)
{
    /* Never goes back; not libuv's cached time, which may lag behind. */
    shell->now_ms = MAX(shell->now_ms, clock_now_ms());
    return shell->now_ms;
}

void shell_stop(struct shell *shell, enum shell_stop how)
{
    if (!shell->phase.is_verb_away)
        shell->verb->stop(shell->context, how);
}

void shell_abort(struct shell *shell, const struct err *why)
{
    shell_end_by_error(shell, why);
    log_keep(shell->log, LOG_ERROR, shell->verb->name, "%s", why->text); /* the summary prints it */
    shell_stop(shell, STOP_WORKERS);
}

bool shell_is_mute(const struct shell *shell)
{
    return shell->display.is_lost;
}

void shell_output_lost(struct shell *shell, const struct err *why)
{
    shell->display.is_lost = true;
    if (why->sys != EPIPE) {
        shell_abort(shell, why);
        return;
    }
    shell_end_by_signal(shell, SIGPIPE);
    shell_stop(shell, STOP_NEW);
}

bool shell_is_to_end(const struct shell *shell)
{
    return shell->end.signal || shell->end.is_at_once || shell->end.err.code;
}

int shell_outcome(const struct shell *shell, struct err *err)
{
    const struct shell_end *end = &shell->end;
    if (end->signal)
        return 128 + end->signal;
    if (end->err.code)
        *err = end->err;
    return end->err.code;
}

static void limit_check(struct shell *shell)
{
    if (shell->limit.ms == 0 || shell->now_ms - shell->limit.from_ms < shell->limit.ms ||
        shell->end.err.code != 0)
        return;
    char limit[24];
    duration_format(limit, shell->limit.ms);
    fail(&shell->end.err, ERR_TIMEOUT, "the limit of %s on the whole run was reached", limit);
    shell_stop(shell, STOP_WORKERS);
}

static void on_tick(uv_timer_t *timer)
{
    struct shell *shell = timer->data;
    shell_now(shell);
    if (shell->verb->tick && !shell->phase.is_verb_away)
        shell->verb->tick(shell->context);
    node_tick(shell->node);
    if (shell->machines.hosts)
        hosts_tick(shell->machines.hosts);
    if (!shell->is_settled)
        limit_check(shell);
    if (shell->display.console)
        console_flush(shell->display.console, shell->now_ms, false);
    if (shell->now_ms / TICK_MS % TICKS_IN_A_SECOND != 0)
        return;
    shell_orders_check(shell);
    if (shell->claim)
        output_claim_answer(shell->claim);
    if (shell->verb->each_second && !shell->phase.is_verb_away)
        shell->verb->each_second(shell->context);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct shell *shell = prepare->data;
    if (shell->verb->before_sleep && !shell->phase.is_verb_away)
        shell->verb->before_sleep(shell->context);
    node_flush(shell->node);
}

static void nothing_do(int number)
{
    (void)number;
}

int shell_loop_open(struct shell *shell, struct err *err)
{
    /*
     * SIGUSR1 announces an order. It may come when the run has its lock and the loop does not handle signals yet: it
     * must not kill this process, and the order is found in its file later. A handler is set, since workers would
     * inherit SIG_IGN.
     */
    const struct sigaction order = {.sa_handler = nothing_do, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &order, NULL);
    int sys = -uv_loop_init(&shell->loop);
    if (sys) {
        errno = sys;
        return fail_errno(err, "make an event loop");
    }
    shell->phase.has_loop = true;
    return 0;
}

void shell_front_take(struct shell *shell, int front_fd)
{
    shell->signals.front_fd = front_fd;
}

int shell_front_begin(struct shell *shell, struct err *err)
{
    if (shell->signals.front_fd >= 0)
        return 0;
    return front_begin(&shell->signals.front_fd, &shell->signals.more, err);
}

int shell_begin_bare(struct shell *shell, struct err *err)
{
    int rc = shell_files_check(err);
    if (rc == 0)
        rc = shell_guard_find(shell, err);
    if (rc == 0)
        rc = shell_front_begin(shell, err);
    if (rc == 0)
        rc = shell_loop_open(shell, err);
    return rc ? rc : shell_node_open(shell, err);
}

int shell_loop_begin(struct shell *shell, struct err *err)
{
    if (shell->phase.has_begun)
        return 0;
    int rc = shell_signals_begin(shell, err);
    if (rc)
        return rc;
    shell->phase.has_begun = true;
    uv_timer_init(&shell->loop, &shell->tick_timer);
    uv_prepare_init(&shell->loop, &shell->prepare);
    shell->tick_timer.data = shell->prepare.data = shell;
    uv_prepare_start(&shell->prepare, on_prepare);
    uv_timer_start(&shell->tick_timer, on_tick, TICK_MS, TICK_MS);
    shell->begin_ms = shell_now(shell);
    return 0;
}

void shell_say_alive(struct shell *shell)
{
    if (shell->machines.hosts)
        hosts_say_alive(shell->machines.hosts);
    if (shell->verb->say_alive)
        shell->verb->say_alive(shell->context);
}

void shell_turn(struct shell *shell)
{
    uv_run(&shell->loop, UV_RUN_ONCE);
}

static void close_quietly(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void shell_loop_close(struct shell *shell)
{
    sigset_t orders;
    if (!shell->phase.has_loop)
        return;
    /*
     * An order may still come before the lock is released. It is not read any more, and its signal must not kill this
     * process.
     */
    sigemptyset(&orders);
    sigaddset(&orders, SIGUSR1);
    sigprocmask(SIG_BLOCK, &orders, NULL);
    uv_walk(&shell->loop, close_quietly, NULL);
    uv_run(&shell->loop, UV_RUN_DEFAULT);
    uv_loop_close(&shell->loop);
    shell->phase.has_loop = false;
}
