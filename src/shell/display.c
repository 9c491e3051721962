/* SPDX-License-Identifier: Apache-2.0
 *
 * The terminal during a run: lines of workers and of the log, and below them the progress display, which is
 * cleared while a line is printed.
 */
#include "proc/logfile.h"
#include "shell/shell_impl.h"
#include "ui/progress.h"

static void lines_show(void *context, struct str lines)
{
    struct shell *shell = context;
    struct log *log = shell->log;
    if (shell->display.is_quiet)
        return;
    if (log->console_begin)
        log->console_begin(log->context);
    if (log_say(log, lines) < 0)
        shell->display.is_quiet = true; /* the terminal is gone; the log files have all lines */
    if (log->console_end)
        log->console_end(log->context);
}

void shell_display_open(struct shell *shell)
{
    shell->display.console =
        console_new(&(struct console_opts){.emit = lines_show, .context = shell});
    if (shell->display.is_quiet)
        return;
    shell->display.progress = progress_new(&(struct progress_opts){
        .is_terminal = shell->display.is_tty, .has_color = shell->display.has_color});
    shell->log->console_begin = progress_hide;
    shell->log->console_end = progress_back;
    shell->log->context = shell->display.progress;
}

void shell_progress_end(struct shell *shell)
{
    shell->log->context = shell->log->console_begin = shell->log->console_end = NULL;
    progress_free(shell->display.progress);
    shell->display.progress = NULL;
}

void shell_display_close(struct shell *shell)
{
    console_free(shell->display.console);
    shell->display.console = NULL;
    shell_progress_end(shell);
}
