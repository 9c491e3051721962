/* SPDX-License-Identifier: Apache-2.0
 *
 * The shell as a value: its verb makes it, asks and tells it, and frees it.
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "shell/shell_impl.h"

struct shell *shell_new(const struct shell_setup *setup)
{
    struct shell *shell = xmalloc(sizeof(*shell));
    *shell = (struct shell){.verb = setup->verb,
                            .context = setup->context,
                            .log = setup->log,
                            .self_path = setup->self_path,
                            .claim = setup->claim,
                            .display = {.is_quiet = setup->is_quiet,
                                        .has_color = setup->has_color,
                                        .is_tty = isatty(STDERR_FILENO) && !setup->is_quiet},
                            .signals = {.front_fd = -1, .more = setup->more_signals},
                            .machines = {.sample_every_ms = setup->sample_every_ms},
                            .hook = {.command = setup->on_finish},
                            .limit = {setup->limit_ms, clock_now_ms()},
                            .scratch = setup->scratch};
    return shell;
}

void shell_free(struct shell *shell)
{
    if (!shell)
        return;
    buf_release(&shell->hook.input);
    free(shell->own_scratch);
    free(shell->run_dir);
    free(shell->run_id);
    free(shell->folder.stays);
    free(shell);
}

const char *shell_verb_name(const struct shell *shell)
{
    return shell->verb->name;
}

struct log *shell_log(const struct shell *shell)
{
    return shell->log;
}

const char *shell_self_path(const struct shell *shell)
{
    return shell->self_path;
}

const char *shell_run_dir(const struct shell *shell)
{
    return shell->run_dir;
}

const char *shell_run_id(const struct shell *shell)
{
    return shell->run_id;
}

void shell_run_id_set(struct shell *shell, const char *run_id)
{
    free(shell->run_id);
    shell->run_id = xstrdup(run_id);
}

struct store *shell_store(const struct shell *shell)
{
    return shell->store;
}

struct node *shell_node(const struct shell *shell)
{
    return shell->node;
}

struct hosts *shell_hosts(const struct shell *shell)
{
    return shell->machines.hosts;
}

struct reaper *shell_reaper(const struct shell *shell)
{
    return shell->reaper;
}

uv_loop_t *shell_uv_loop(struct shell *shell)
{
    return &shell->loop;
}

struct console *shell_console(const struct shell *shell)
{
    return shell->display.console;
}

struct progress *shell_progress(const struct shell *shell)
{
    return shell->display.progress;
}

bool shell_is_quiet(const struct shell *shell)
{
    return shell->display.is_quiet;
}

void shell_hush(struct shell *shell)
{
    shell->display.is_quiet = true;
}

uint64_t shell_begin_ms(const struct shell *shell)
{
    return shell->begin_ms;
}

uint64_t shell_last_now(const struct shell *shell)
{
    return shell->now_ms;
}

const struct shell_end *shell_end(const struct shell *shell)
{
    return &shell->end;
}

void shell_end_by_signal(struct shell *shell, int signal)
{
    shell->end.signal = signal;
}

void shell_end_by_error(struct shell *shell, const struct err *why)
{
    if (shell->end.err.code == 0)
        shell->end.err = *why;
}

void shell_end_with(struct shell *shell, int status)
{
    shell->end.status = status;
}

void shell_merge_begin(struct shell *shell, struct stop stop)
{
    shell->merge_stop = stop;
}

struct stop shell_merge_stop(const struct shell *shell)
{
    return shell->merge_stop;
}

void shell_merge_end(struct shell *shell)
{
    shell->merge_stop = (struct stop){0};
}

void shell_settle(struct shell *shell)
{
    shell->is_settled = true;
}

bool shell_is_settled(const struct shell *shell)
{
    return shell->is_settled;
}

void shell_verb_leave(struct shell *shell)
{
    shell->phase.is_verb_away = true;
}

void shell_verb_return(struct shell *shell)
{
    shell->phase.is_verb_away = false;
}

bool shell_verb_is_away(const struct shell *shell)
{
    return shell->phase.is_verb_away;
}

void shell_limit_drop(struct shell *shell)
{
    shell->limit.ms = 0;
}
