/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a call failed. The code says what kind (for programs: it decides the exit status), the text
 * says what happened to what (for people). The text is built as the error climbs, outermost first,
 * and is printed once, by main or by the log.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"

/*  name, value, exit status as product contract, meaning */
#define ERR_CODES(X)                                               \
    X(SYS, -1, 1, "a system call failed")                          \
    X(FAILED, -2, 1, "some of the work failed")                    \
    X(USAGE, -3, 2, "wrong usage or configuration")                \
    X(DATA, -4, 65, "malformed data")                              \
    X(UNAVAILABLE, -5, 69, "something that is needed is not here") \
    X(STOPPED, -6, 75, "stopped, can be resumed")                  \
    X(TIMEOUT, -7, 124, "a time limit was reached")                \
    X(RECORD, -8, 65, "one record is malformed, those beside it are not")

enum err_code {
#define X(name, value, status, text) ERR_##name = (value),
    ERR_CODES(X)
#undef X
};

/* Caller-owned, usually on its stack; holds no pointers, needs no release. NULL is allowed. */
struct err {
    int code;       /* an enum err_code, 0 while nothing failed */
    int sys;        /* errno at the failure, 0 if none was involved */
    char text[512]; /* "outer: inner: cause", NUL-terminated, cut with "..." */
};

/* Each returns the code it was given, so `return fail(...)` is the whole error path. */
int fail(struct err *err, int code, const char *fmt, ...) PRINTF(3, 4);
/*
 * ERR_SYS with ": <description of errno>" added; ENOENT and EACCES keep ERR_SYS too. A full disk is
 * always ERR_STOPPED, because the work can go on once there is room.
 */
int fail_errno(struct err *err, const char *fmt, ...) PRINTF(2, 3);
/* Like fail_errno with another code, for a file the user named: `fail_errno_as(err, ERR_USAGE, …)`. */
int fail_errno_as(struct err *err, int code, const char *fmt, ...) PRINTF(3, 4);
/* Put "<fmt>: " before the text that is there. Returns rc, also when err is NULL. */
int wrap(struct err *err, int rc, const char *fmt, ...) PRINTF(3, 4);

/* The exit status that stands for an error code: 2 for ERR_USAGE and so on, 1 for anything unknown. */
int err_exit_status(int code);
/* Does this errno mean that no more can be written: no space, no quota, or a batch system's
 * RLIMIT_FSIZE? */
bool errno_means_full(int sys);
/* For an errno that errno_means_full(): a text that says what is full, and what makes room. */
const char *errno_room(int sys);
/* A description of an errno value, thread-safe, never NULL. */
const char *errno_text(int sys);
