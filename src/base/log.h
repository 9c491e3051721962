/* SPDX-License-Identifier: Apache-2.0
 *
 * The orchestrator's log: RFC 3339 time, level, component, text, one line each. Goes to a file,
 * and from `console_level` on to stderr as "muster: text". A NULL log is silent.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum log_level {
    LOG_ERROR,
    LOG_WARN,
    LOG_INFO,
    LOG_DEBUG
};

struct log {
    int fd; /* -1: no file */
    enum log_level file_level, console_level;
    bool console_quiet; /* nothing but errors on stderr */
    /* Called before and after a console line, so that a progress display can make room. May be NULL. */
    void (*console_begin)(void *context);
    void (*console_end)(void *context);
    void *context;
    uint64_t n_unread_bytes; /* withheld from stderr, because nobody reads it */
};

#define LOG_INIT                                                    \
    {                                                               \
        .fd = -1, .file_level = LOG_INFO, .console_level = LOG_WARN \
    }

MUST_CHECK int log_open(struct log *log, const char *path, struct err *err);
void log_close(struct log *log);
/*
 * Writes text to stderr, waiting a second at most, so that a reader that has stopped does not hold
 * up the run. Once stderr is read again, it first gets a note about what was left out. Negative:
 * stderr cannot be written to any more.
 */
MUST_CHECK int log_say(struct log *log, struct str text);
/* Adds that note, if anything was left out, for a caller that writes to stderr without
 * log_say(). */
void log_unread_add(const struct log *log, struct buf *out);
/* component: "map", "device", "worker 3" … */
void log_add(struct log *log, enum log_level level, const char *component, const char *fmt, ...)
    PRINTF(4, 5);
/* To the file only: the caller tells the user by other means. */
void log_keep(struct log *log, enum log_level level, const char *component, const char *fmt, ...)
    PRINTF(4, 5);
MUST_CHECK int log_level_parse(struct str text, enum log_level *out, struct err *err);
const char *log_level_name(enum log_level level);
