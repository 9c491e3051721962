/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio_ext.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/talk.h"

int stdout_put(struct str text, struct err *err)
{
    if (fwrite(text.at, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        return fail_errno(err, "write to stdout");
    return 0;
}

int objects_put(struct str text, struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    console_objects_add(&out, text);
    return stdout_put(buf_str(&out), err);
}

int stdout_put_after(struct str text, const char *done, struct err *err)
{
    int rc = stdout_put(text, NULL);
    if (rc == 0)
        return 0;
    int sys = errno;
    __fpurge(stdout); /* else main would try to write it again */
    clearerr(stdout); /* and would call it a failure */
    return sys == EPIPE
               ? 0
               : fail(err, ERR_FAILED, "%s, but stdout does not take what is told of it: %s", done,
                      errno_text(sys));
}

void say(const struct app *app, const char *fmt, ...)
{
    if (app->quiet)
        return;
    va_list args;
    va_start(args, fmt);
    talk_va(fmt, args);
    va_end(args);
}
