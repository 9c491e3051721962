/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static void PRINTF(2, 0) text_set(struct err *err, const char *fmt, va_list args)
{
    int len = vsnprintf(err->text, sizeof(err->text), fmt, args);
    if (len >= (int)sizeof(err->text))
        memcpy(err->text + sizeof(err->text) - 4, "...", 4);
}

static void text_append(struct err *err, const char *tail)
{
    size_t len = strlen(err->text);
    int more = snprintf(err->text + len, sizeof(err->text) - len, "%s", tail);
    if (more >= (int)(sizeof(err->text) - len))
        memcpy(err->text + sizeof(err->text) - 4, "...", 4);
}

const char *errno_text(int sys)
{
    const char *text = sys == EFBIG ? "the limit on the size of files is reached (ulimit -f)"
                                    : strerrordesc_np(sys);
    return text ? text : "unknown error";
}

bool errno_means_full(int sys)
{
    return sys == ENOSPC || sys == EDQUOT || sys == EFBIG;
}

const char *errno_room(int sys)
{
    if (sys == EFBIG)
        return "the limit on the size of files is reached (ulimit -f); raise it";
    return sys == EDQUOT ? "the quota on this disk is used up; free some of it"
                         : "no space is left on this disk; free some";
}

int fail(struct err *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, fmt);
    text_set(err, fmt, args);
    va_end(args);
    err->code = code;
    err->sys = 0;
    return code;
}

static int PRINTF(4, 0)
    fail_errno_va(struct err *err, int code, int sys, const char *fmt, va_list args)
{
    if (errno_means_full(sys))
        code = ERR_STOPPED;
    if (!err)
        return code;
    text_set(err, fmt, args);
    text_append(err, ": ");
    text_append(err, errno_text(sys));
    err->code = code;
    err->sys = sys;
    return code;
}

int fail_errno(struct err *err, const char *fmt, ...)
{
    int sys = errno;
    va_list args;
    va_start(args, fmt);
    int rc = fail_errno_va(err, ERR_SYS, sys, fmt, args);
    va_end(args);
    return rc;
}

int fail_errno_as(struct err *err, int code, const char *fmt, ...)
{
    int sys = errno;
    va_list args;
    va_start(args, fmt);
    int rc = fail_errno_va(err, code, sys, fmt, args);
    va_end(args);
    return rc;
}

int wrap(struct err *err, int rc, const char *fmt, ...)
{
    if (!err)
        return rc;
    char inner[sizeof(err->text)];
    memcpy(inner, err->text, sizeof(inner));
    va_list args;
    va_start(args, fmt);
    text_set(err, fmt, args);
    va_end(args);
    text_append(err, ": ");
    text_append(err, inner);
    return rc;
}

int err_exit_status(int code)
{
    /* NOLINTBEGIN(bugprone-branch-clone): two kinds may have one status */
    switch (code) {
    case 0:
        return 0;
#define X(name, value, status, text) \
    case value:                      \
        return status;
        ERR_CODES(X)
#undef X
    default:
        return 1;
    }
    /* NOLINTEND(bugprone-branch-clone) */
}
