/* SPDX-License-Identifier: Apache-2.0
 *
 * A log of finished jobs in the columns of GNU parallel's --joblog, for the tools that read it:
 * Seq, Host, Starttime, JobRuntime, Send, Receive, Exitval, Signal, Command. Separated by tabs, one
 * line a job, in the order in which they end. A line is appended at once and whole, so several
 * writers do not mix theirs.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct joblog {
    char *path;
    int fd;
    struct buf line;
};

#define JOBLOG_INIT \
    {               \
        .fd = -1    \
    }

struct joblog_row {
    uint64_t seq;
    const char *host; /* NULL: this one, ":" */
    int64_t start_ms; /* since 1970 */
    uint64_t runtime_ms;
    uint64_t sent_bytes, received_bytes;
    int exit_status, signal; /* one of them is 0 */
    const char *command; /* tabs, newlines and other control characters become blanks in the log */
};

/*
 * Opens the log, and writes the header if it is empty. With is_resumed it goes on behind the lines
 * that are there; otherwise it is emptied. ERR_USAGE for what is not ours; ERR_DATA for what is no
 * regular file, and for a file that is not empty and does not begin with the header: it is not
 * touched.
 */
MUST_CHECK int joblog_open(struct joblog *log, const char *path, bool is_resumed, struct err *err);
/* Adds a command as that column has it: the text that sh runs, or words as a shell would read
 * them. */
void joblog_command_add(struct buf *out, const char *const *argv);
MUST_CHECK int joblog_add(struct joblog *log, const struct joblog_row *row, struct err *err);
void joblog_close(struct joblog *log);
