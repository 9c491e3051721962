/* SPDX-License-Identifier: Apache-2.0
 *
 * The orders of a leader on another machine. This machine starts the ranks of a new generation only when its ranks of
 * the generation before have ended: a leader that had lost this machine has given those ranks up, and they may still
 * be ending. It waits for them as long as they may take, or until this machine, which is back, says that they have ended.
 */
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"

enum {
    WAIT_SAID_MS = 3000, /* the pauses double */
    WAIT_SAID_MAX_MS = 300000
};

static const struct rendezvous_end politely = {.signal = SIGTERM}, at_once = {.at_once = true};

static void wait_begin(struct launch *launch)
{
    launch->orders.waits = true;
    launch->orders.say_pause_ms = WAIT_SAID_MS;
    launch->orders.say_at_ms = shell_now(launch->shell) + WAIT_SAID_MS;
}

void follow_begin(struct launch *launch)
{
    shell_limit_drop(launch->shell); /* the leader watches the limit, for all machines */
    wait_begin(launch);
}

static void wait_say(const struct launch *launch)
{
    const struct launch_meeting *meeting = &launch->request->meeting;
    struct log *log = shell_log(launch->shell);
    if (launch->orders.is_welcome)
        log_add(
            log, LOG_WARN, "launch",
            "waiting: the machine that leads, %s, has not started the ranks; it says who is missing",
            meeting->host);
    else if (meeting->is_typed)
        log_add(
            log, LOG_WARN, "launch",
            "waiting for the machine that leads, at %s, port %u: the one with --node-rank 0; this is "
            "machine %u",
            meeting->host, meeting->port, meeting->node);
    else
        log_add(
            log, LOG_WARN, "launch",
            "waiting for the machine that leads, at %s, port %u: it must have this address, and the "
            "same command must be started there",
            meeting->host, meeting->port);
}

void follow_tick(struct launch *launch)
{
    uint64_t now_ms = shell_now(launch->shell);
    if (!launch->orders.waits || launch->is_over || now_ms < launch->orders.say_at_ms)
        return;
    wait_say(launch);
    launch->orders.say_at_ms = now_ms + launch->orders.say_pause_ms;
    launch->orders.say_pause_ms = MIN(2 * launch->orders.say_pause_ms, (uint64_t)WAIT_SAID_MAX_MS);
}

void follow_on_welcomed(void *context, uint32_t node)
{
    struct launch *launch = context;
    launch->orders.is_welcome = true;
    log_add(shell_log(launch->shell), LOG_INFO, "launch", "this is machine %u; %s leads", node,
            launch->request->meeting.host);
    if (launch->own.n_alive == 0)
        rendezvous_tell_empty(launch->rendezvous);
}

static void next_start(struct launch *launch)
{
    struct rendezvous_start *next = &launch->orders.next;
    if (!launch->orders.has_next || launch->own.n_alive > 0)
        return;
    launch->orders.has_next = launch->orders.are_orphans = false;
    if (next->generation > 0)
        logs_forget(launch, next->generation - 1);
    ranks_make(launch, launch->own.n_ranks);
    machine_start(&launch->own, next, launch->ranks);
}

void follow_on_start(void *context, const struct rendezvous_start *start)
{
    struct launch *launch = context;
    if (shell_is_to_end(launch->shell))
        return;
    launch->orders.next = *start;
    launch->orders.waits = false;
    launch->orders.has_next = true;
    launch->orders.are_orphans = launch->own.n_alive > 0;
    machine_end(&launch->own, &at_once); /* ranks of an earlier generation must end */
    next_start(launch);
}

static void ranks_end(struct launch *launch, const struct rendezvous_end *how)
{
    launch->orders.has_next = false;
    machine_end(&launch->own, how);
}

/* Ranks that still wait for those before them never start, but the leader awaits their ends. */
static void next_tell_ended(const struct launch *launch)
{
    struct rendezvous_exit exit = {.generation = launch->orders.next.generation,
                                   .status = 128 + SIGTERM,
                                   .exit_signal = SIGTERM};
    for (; exit.local_rank < launch->own.n_ranks; exit.local_rank++)
        rendezvous_tell_exit(launch->rendezvous, &exit);
}

void follow_on_end(void *context, const struct rendezvous_end *how)
{
    struct launch *launch = context;
    if (launch->orders.has_next)
        next_tell_ended(launch);
    ranks_end(launch, how);
}

/* Asks where a rank's threads stand; watch_where() gets the answer. */
void follow_on_asked(void *context, uint32_t local_rank)
{
    struct launch *launch = context;
    if (local_rank < launch->n_ranks && launch->ranks[local_rank].process)
        node_ask_where(launch->ranks[local_rank].process);
}

/*
 * Does this muster print messages for its machine? Of several tasks of a launcher, which share a terminal, only the
 * first on each machine does.
 */
static bool speaks_for_machine(const struct launch *launch)
{
    return launch->request->task.n_local == 0 || launch->request->task.local_rank == 0;
}

static void words_say(struct launch *launch, struct str text)
{
    struct str line;
    bool has_words = text.len > 0;
    buf_reset(&launch->report);
    for (size_t i = 0; text.len > 0 && str_next(&text, '\n', &line); i++) {
        buf_add_text(&launch->report, i > 0 ? "\n" : "");
        console_text_add(&launch->report, line, false);
    }
    if (has_words && speaks_for_machine(launch))
        report_print(launch);
}

void follow_on_retry(void *context, uint64_t pause_ms, struct str why)
{
    struct launch *launch = context;
    char pause[24];
    duration_format(pause, pause_ms);
    words_say(launch, why);
    log_add(shell_log(launch->shell), speaks_for_machine(launch) ? LOG_WARN : LOG_INFO, "launch",
            "all ranks start again in %s", pause);
    wait_begin(launch);
}

void follow_on_over(void *context, const struct rendezvous_over *over)
{
    struct launch *launch = context;
    words_say(launch, over->text);
    launch->orders.status = over->status;
    launch->orders.is_of_rank = over->is_of_rank;
    launch->orders.has_next = false;
    launch->is_over = true;
    machine_end(&launch->own, &at_once);
}

void follow_on_lost(void *context, const struct err *why)
{
    struct launch *launch = context;
    log_add(shell_log(launch->shell), LOG_WARN, "launch", "the leader is lost: %s; asking again",
            why->text);
    launch->orders.are_orphans = launch->own.n_alive > 0;
    launch->orders.is_welcome = false;
    wait_begin(launch);
    ranks_end(launch, &politely);
}

void follow_on_failed(void *context, const struct err *why)
{
    struct launch *launch = context;
    struct err err = *why;
    if (err.code == ERR_TIMEOUT) /* it is not the one of --time-limit */
        err.code = ERR_UNAVAILABLE;
    shell_abort(launch->shell, &err);
}

void follow_stop(struct launch *launch, bool is_at_once)
{
    const struct rendezvous_end how = launch_end(launch, is_at_once);
    const struct shell_end *end = shell_end(launch->shell);
    const char *why = end->signal     ? strsignal(end->signal)
                      : end->err.code ? end->err.text
                                      : "it was stopped";
    if (!launch->is_over)
        rendezvous_leave(launch->rendezvous, str_of(why));
    rendezvous_flush(launch->rendezvous, shell_now(launch->shell)); /* perhaps for the last time */
    launch->is_over = true;
    ranks_end(launch, &how);
}

void follow_tell_exit(struct launch *launch, const struct rank *rank)
{
    uint64_t now_s = (uint64_t)clock_wall_ms() / 1000, recorded_s = rank->recorded_ms / 1000;
    const struct rendezvous_exit exit = {.generation = launch->own.part.generation,
                                         .local_rank = rank->number - launch->own.part.first_rank,
                                         .pid = (uint32_t)rank->pid,
                                         .status = rank->status,
                                         .exit_signal = rank->exit_signal,
                                         .recorded_ago_s = now_s - MIN(recorded_s, now_s),
                                         .message = rank->message ? str_of(rank->message) : STR(""),
                                         .tail =
                                             rank->status != 0 ? buf_str(&rank->tail) : STR("")};
    if (!launch->is_over && !launch->orders.are_orphans)
        rendezvous_tell_exit(launch->rendezvous, &exit);
    if (launch->orders.are_orphans && launch->own.n_alive == 0)
        rendezvous_tell_empty(launch->rendezvous);
    next_start(launch);
}
