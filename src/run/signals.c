/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said to a run from outside: signals, and orders to stop.
 */
#include <signal.h>
#include <unistd.h>

#include "base/fs.h"
#include "proc/front.h"
#include "run/session.h"
#include "run/shard.h"
#include "store/runs.h"

void session_stop_check(struct session *s)
{
    enum stop_how how;
    if (!run_stop_asked(s->run_dir, &how))
        return;
    bool is_news = !s->stopped_by_user || (how == STOP_NOW && !s->stopped_at_once);
    if (!is_news)
        return;
    s->stopped_by_user = true;
    s->stopped_at_once = how == STOP_NOW;
    s->end_status = 75;
    log_add(s->log, LOG_INFO, "map",
            how == STOP_NOW ? "stopped; ending the workers"
                            : "stopped; finishing what is in flight");
    session_stop(s, how == STOP_NOW);
}

static void child_ended(void *context, pid_t pid, int wait_status)
{
    life_child_ended(context, pid, wait_status);
}

static void end_begin(struct session *s, int signal)
{
    s->end_signal = signal;
    log_add(s->log, LOG_WARN, "map", "SIG%s: ending the workers; once more ends them at once",
            signal == SIGINT    ? "INT"
            : signal == SIGTERM ? "TERM"
                                : "HUP");
    session_stop(s, true);
}

static void end_at_once(struct session *s)
{
    s->has_no_patience = true;
    session_stop_again(s);
    for (uint32_t p = 0; p < s->n_places; p++)
        if (s->places[p].life)
            guard_kill(&s->places[p].life->guard);
}

/* What is sent to a process group or to every process of a unit comes twice where there is a front,
 * by either way once. */
static void on_end_signal(struct session *s, int signal, enum signal_way way)
{
    unsigned n_before = MAX(s->n_end_signals[0], s->n_end_signals[1]);
    if (++s->n_end_signals[way] <= n_before)
        return;
    if (n_before == 0)
        end_begin(s, signal);
    else
        end_at_once(s);
}

static void on_signal(uv_signal_t *handle, int signal)
{
    struct session *s = handle->data;
    if (signal == SIGCHLD)
        reaper_run(s->reaper, child_ended, s);
    else if (signal == SIGUSR1)
        session_stop_check(s);
    else
        on_end_signal(s, signal, SIGNAL_DIRECT);
}

static void on_handed_on(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    uint8_t number;
    (void)status, (void)events;
    while (read(s->front_fd, &number, 1) == 1)
        if (number == SIGUSR1)
            session_stop_check(s);
        else
            on_end_signal(s, number, SIGNAL_HANDED_ON);
}

/* Without a front, or where its socket cannot be watched, signals come as such. */
static void front_watch(struct session *s)
{
    if (s->front_fd < 0 || uv_poll_init(&s->loop, &s->front_poll, s->front_fd) != 0)
        return;
    s->front_poll.data = s;
    uv_poll_start(&s->front_poll, UV_READABLE, on_handed_on);
    front_listen(s->front_fd, true);
}

int session_signals_start(struct session *s, struct err *err)
{
    static const int wanted[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < countof(wanted); i++) {
        struct sigaction old;
        sigaction(wanted[i], NULL, &old);
        if (wanted[i] == SIGHUP && old.sa_handler == SIG_IGN) /* nohup */
            continue;
        uv_signal_t *handle = &s->signals[s->n_signals++];
        int sys = -uv_signal_init(&s->loop, handle);
        handle->data = s;
        if (sys == 0)
            sys = -uv_signal_start(handle, on_signal, wanted[i]);
        if (sys)
            return fail(err, ERR_UNAVAILABLE, "signals cannot be watched: %s", errno_text(sys));
    }
    front_watch(s);
    return 0;
}

/* ---- while nothing turns the loop ---- */

static const int ending[END_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

static void end_at_write(int signal)
{
    static const char text[] = "muster: ended while it was writing; every result is safe, and "
                               "muster resume does what is left\n";
    (void)!write_patiently(STDERR_FILENO, text, sizeof(text) - 1, 0, NULL);
    _exit(128 + signal);
}

void session_signals_end(struct session *s, struct sigaction before[END_SIGNALS])
{
    struct sigaction action = {.sa_handler = end_at_write};
    for (size_t i = 0; i < END_SIGNALS; i++) {
        sigaction(ending[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
    }
    front_listen(s->front_fd, false);
}

void session_signals_restore(struct session *s, const struct sigaction before[END_SIGNALS])
{
    for (size_t i = 0; i < END_SIGNALS; i++)
        sigaction(ending[i], &before[i], NULL);
    front_listen(s->front_fd, true);
}
