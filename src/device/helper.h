/* SPDX-License-Identifier: Apache-2.0
 *
 * The parent's side of the helper process (driver_probe.h). The helper is started without fork(),
 * is read without blocking, is killed by its pid, and is waited for only for a limited time,
 * because a process in D state does not die.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct helper {
    pid_t pid; /* 0: not running */
    int out_fd;
    int hold_fd; /* its standard input: when this closes, it ends */
    bool is_eof;
    bool is_up; /* the driver has come up: the helper has queried a GPU or answered */
    struct buf pending;
    size_t used; /* bytes of pending that helper_line() has given out */
    char query[64];
    int query_number; /* the device of its last announcement, see driver_probe.h */
};

/*
 * A signal that asks a watching helper for samples at once. By default it is ignored, so it may
 * come at any time.
 */
#define HELPER_HURRY SIGURG

/* How many deadlines the driver has to come up. nvmlInit wakes every GPU: that takes 1.5 s without
 * persistence mode, and took 25 s on a node with eight. */
enum {
    HELPER_START_DEADLINES = 6
};

#define HELPER_INIT                 \
    {                               \
        .out_fd = -1, .hold_fd = -1 \
    }

/*
 * self_path: the executable of muster; muster-devices is beside it. args: the arguments behind the
 * program's name, NULL-terminated.
 */
MUST_CHECK int helper_start(struct helper *helper, const char *self_path, char *const *args,
                            struct err *err);
/* Reads the bytes that are available. True if there were any. */
bool helper_read(struct helper *helper);
/* Waits up to timeout_ms for bytes, and then does what helper_read() does. */
bool helper_wait(struct helper *helper, uint64_t timeout_ms);
/* How long the helper may be silent now, if one answer may take deadline_ms. */
uint64_t helper_patience_ms(const struct helper *helper, uint64_t deadline_ms);
/* The next whole line, without its newline. Announcements are recorded and skipped. */
bool helper_line(struct helper *helper, struct str *line);
/* Kills the helper and waits at most wait_ms. Returns its pid if it is not dead yet, else 0. */
pid_t helper_stop(struct helper *helper, uint64_t wait_ms);
/* True once that process has been reaped, whether by this call or by another part of muster. */
bool helper_reap(pid_t pid, uint64_t wait_ms);
