/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals.
 */
#include <signal.h>
#include <unistd.h>

#include "base/end_signals.h"
#include "base/fs.h"
#include "node/local.h"
#include "proc/front.h"
#include "proc/guard.h"
#include "shell/shell_impl.h"

void shell_end_stopped(struct shell *shell, bool now)
{
    shell->end.is_stopped = true;
    shell->end.is_at_once = now;
    shell->end.status = 75;
    log_add(shell->log, LOG_INFO, shell->verb->name,
            now ? "stopped; ending the workers" : "stopped; finishing what is in flight");
    shell_stop(shell, now ? STOP_WORKERS : STOP_NEW);
}

static void child_ended(void *context, pid_t pid, int wait_status)
{
    struct shell *shell = context;
    (void)wait_status;
    local_child_ended(shell->machines.local, pid);
}

static void end_begin(struct shell *shell, int signal)
{
    const char *name = end_signal_name(signal);
    shell->end.signal = signal;
    if (shell->merge_stop.is_asked)
        log_add(shell->log, LOG_WARN, shell->verb->name, "%s: ending the merge", name);
    else
        log_add(shell->log, shell->verb->says_why_it_ends ? LOG_INFO : LOG_WARN, shell->verb->name,
                "%s: ending the workers; once more ends them at once", name);
    shell_stop(shell, STOP_WORKERS);
}

/*
 * A signal that is sent to a process group, or to every process of a systemd unit, comes twice if there is a front:
 * directly, and forwarded by the front. The larger of the two counts is the number of signals.
 */
static void on_end_signal(struct shell *shell, int signal, enum signal_source source)
{
    unsigned n_before = MAX(shell->signals.n_ends[0], shell->signals.n_ends[1]);
    if (++shell->signals.n_ends[source] <= n_before)
        return;
    if (n_before == 0)
        end_begin(shell, signal);
    else
        shell_stop(shell, STOP_KILL);
}

static void signal_take(struct shell *shell, int signal, enum signal_source source)
{
    bool (*ends_by)(void *, int) = shell->verb->ends_by;
    bool is_usual = signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
    if (is_usual || (ends_by && ends_by(shell->context, signal)))
        on_end_signal(shell, signal, source);
    else if (signal == SIGUSR1)
        shell_orders_check(shell);
}

static void on_signal(uv_signal_t *handle, int signal)
{
    struct shell *shell = handle->data;
    if (signal == SIGCHLD)
        reaper_run(shell->reaper, child_ended, shell);
    else
        signal_take(shell, signal, SIGNAL_DIRECT);
}

static void on_handed_on(uv_poll_t *poll, int status, int events)
{
    struct shell *shell = poll->data;
    uint8_t number;
    (void)status, (void)events;
    while (read(shell->signals.front_fd, &number, 1) == 1)
        signal_take(shell, number, SIGNAL_FORWARDED);
}

/* Without a front, or if its socket cannot be watched, signals come directly. */
static void front_watch(struct shell *shell)
{
    if (shell->signals.front_fd < 0 ||
        uv_poll_init(&shell->loop, &shell->signals.front_poll, shell->signals.front_fd) != 0)
        return;
    shell->signals.front_poll.data = shell;
    uv_poll_start(&shell->signals.front_poll, UV_READABLE, on_handed_on);
    front_listen(shell->signals.front_fd, true);
}

static int watch(struct shell *shell, int number, struct err *err)
{
    ASSERT(shell->signals.n_handles < countof(shell->signals.handles));
    uv_signal_t *handle = &shell->signals.handles[shell->signals.n_handles++];
    int sys = -uv_signal_init(&shell->loop, handle);
    handle->data = shell;
    if (sys == 0)
        sys = -uv_signal_start(handle, on_signal, number);
    return sys ? fail(err, ERR_UNAVAILABLE, "signals cannot be watched: %s", errno_text(sys)) : 0;
}

int shell_signals_begin(struct shell *shell, struct err *err)
{
    static const int wanted[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(wanted); i++) {
        struct sigaction old;
        sigaction(wanted[i], NULL, &old);
        if (wanted[i] != SIGHUP || old.sa_handler != SIG_IGN) /* nohup */
            rc = watch(shell, wanted[i], err);
    }
    for (int number = 1; rc == 0 && number < NSIG; number++)
        if (sigismember(&shell->signals.more, number) == 1)
            rc = watch(shell, number, err);
    if (rc == 0)
        front_watch(shell);
    return rc;
}

/* ---- while nothing turns the loop ---- */

static const int ending[END_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

static void end_at_write(int signal)
{
    static const char text[] = "muster: ended while it was reading or writing; every result is "
                               "safe, and muster resume, or the same command, does what is left\n";
    (void)!write_patiently(STDERR_FILENO, text, sizeof(text) - 1, 0, NULL);
    _exit(128 + signal);
}

/* A run without a folder cannot be resumed. */
static void end_now(int signal)
{
    _exit(128 + signal);
}

void shell_signals_end(struct shell *shell, struct sigaction before[END_SIGNALS])
{
    struct sigaction action = {.sa_handler = shell->run_dir ? end_at_write : end_now};
    for (size_t i = 0; i < END_SIGNALS; i++) {
        sigaction(ending[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
    }
    front_listen(shell->signals.front_fd, false);
}

void shell_signals_restore(struct shell *shell, const struct sigaction before[END_SIGNALS])
{
    for (size_t i = 0; i < END_SIGNALS; i++)
        sigaction(ending[i], &before[i], NULL);
    front_listen(shell->signals.front_fd, true);
}
