/* SPDX-License-Identifier: Apache-2.0
 *
 * The parent's end of the helper process (driver_probe.h): started without a fork, read without
 * blocking, ended by pid, waited for only so long, because a process in D state does not die.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct helper {
    pid_t pid; /* 0: not running */
    int out_fd;
    int hold_fd; /* its standard input: when this closes, it ends */
    bool is_eof;
    bool is_up; /* the driver has come up: it has asked for a GPU, or said something */
    struct buf pending;
    size_t used; /* bytes of pending that helper_line() has given out */
    char query[64];
    int query_number; /* what it announced last, see driver_probe.h */
};

/* nvmlInit wakes every GPU: 1.5 s without persistence mode, 25 s seen on a node with eight. */
enum {
    HELPER_START_DEADLINES = 6
};

#define HELPER_INIT                 \
    {                               \
        .out_fd = -1, .hold_fd = -1 \
    }

/* args: what follows `device-helper` on the command line, NULL-terminated. */
MUST_CHECK int helper_start(struct helper *helper, const char *self_path, char *const *args,
                            struct err *err);
/* Take in what is there. True if anything came. */
bool helper_read(struct helper *helper);
/* Wait up to timeout_ms for something to read; then as helper_read(). */
bool helper_wait(struct helper *helper, uint64_t timeout_ms);
/* How long it may be silent now, if one answer may take deadline_ms. */
uint64_t helper_patience_ms(const struct helper *helper, uint64_t deadline_ms);
/* The next whole line, without its newline; announcements are noted and skipped. */
bool helper_line(struct helper *helper, struct str *line);
/* End it now, wait at most wait_ms. Returns its pid if it is not dead yet, else 0. */
pid_t helper_stop(struct helper *helper, uint64_t wait_ms);
/* True once that process is reaped, by us or by somebody else. */
bool helper_reap(pid_t pid, uint64_t wait_ms);
