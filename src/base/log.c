/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/fs.h"
#include "base/ours.h"

enum {
    PATIENCE_MS = 1000
};

static const char *const level_names[] = {"ERROR", "WARN", "INFO", "DEBUG"};

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

int log_level_parse(struct str text, enum log_level *out, struct err *err)
{
    for (size_t i = 0; i < countof(level_names); i++) {
        if (text.len == strlen(level_names[i]) &&
            strncasecmp(text.at, level_names[i], text.len) == 0) {
            *out = (enum log_level)i;
            return 0;
        }
    }
    return fail(err, ERR_USAGE, "expected a log level (error, warn, info, debug), found '%.*s'",
                (int)text.len, text.at);
}

int log_open(struct log *log, const char *path, struct err *err)
{
    return ours_open(path, O_WRONLY | O_CREAT | O_APPEND, &log->fd, err);
}

void log_close(struct log *log)
{
    fd_close(&log->fd);
}

static int say(struct log *log, struct str text, int patience_ms)
{
    int rc = write_patiently(STDERR_FILENO, text.at, text.len, patience_ms, NULL);
    if (rc == 0)
        log->n_unread_bytes += text.len;
    return rc;
}

void log_unread_add(const struct log *log, struct buf *out)
{
    if (log->n_unread_bytes > 0)
        buf_addf(out,
                 "\nmuster: %lu bytes are missing here, nobody read them; they are in the run's "
                 "logs\n",
                 log->n_unread_bytes);
}

int log_say(struct log *log, struct str text)
{
    cleanup_buf struct buf note = BUF_INIT;
    if (log->n_unread_bytes == 0)
        return say(log, text, PATIENCE_MS);
    log_unread_add(log, &note);
    int rc = write_patiently(STDERR_FILENO, note.at, note.len, 0, NULL);
    if (rc > 0)
        log->n_unread_bytes = 0;
    return rc < 0 ? rc : say(log, text, 0);
}

static void write_quietly(int fd, const struct buf *line)
{
    /* A log that cannot be written (full disk) must not end the run: the run's own writes fail too
     * and report it. */
    if (write_all(fd, line->at, line->len, NULL) != 0)
        return;
}

static void PRINTF(5, 0) add(struct log *log, enum log_level level, bool to_console,
                             const char *component, const char *fmt, va_list args)
{
    bool to_file = log->fd >= 0 && level <= log->file_level;
    if (!to_console && !to_file)
        return;
    cleanup_buf struct buf text = BUF_INIT, line = BUF_INIT;
    char stack[1024];
    int len = vsnprintf(stack, sizeof(stack), fmt, args);
    console_lines_add(&text, (struct str){stack, (size_t)MIN(MAX(len, 0), (int)sizeof(stack) - 1)});
    if (to_file) {
        char when[40];
        clock_rfc3339(when, clock_wall_ms());
        buf_addf(&line, "%s %-5s %s: %s\n", when, level_names[level], component, buf_text(&text));
        write_quietly(log->fd, &line);
    }
    if (to_console) {
        buf_reset(&line);
        buf_addf(&line, "muster: %s\n", buf_text(&text));
        if (log->console_begin)
            log->console_begin(log->context);
        if (log_say(log, buf_str(&line)) < 0)
            log->console_quiet = true;
        if (log->console_end)
            log->console_end(log->context);
    }
}

void log_add(struct log *log, enum log_level level, const char *component, const char *fmt, ...)
{
    if (!log)
        return;
    bool is_quiet = log->console_quiet && level > LOG_ERROR;
    va_list args;
    va_start(args, fmt);
    add(log, level, level <= log->console_level && !is_quiet, component, fmt, args);
    va_end(args);
}

void log_keep(struct log *log, enum log_level level, const char *component, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add(log, level, false, component, fmt, args);
    va_end(args);
}
