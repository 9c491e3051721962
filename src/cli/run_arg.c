/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_arg.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio_ext.h>
#include <time.h>

#include "base/cleanup.h"
#include "store/runs.h"

int run_arg_find(const char *runs_dir, int argc, char **argv, char **dir_out, struct err *err)
{
    if (argc > 1)
        return fail(err, ERR_USAGE, "expected one run, found also '%s'", argv[1]);
    cleanup_free char *root = runs_root(runs_dir);
    return run_find(root, argc ? argv[0] : NULL, dir_out, err);
}

int stdout_put(struct str text, struct err *err)
{
    if (fwrite(text.at, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        return fail_errno(err, "write to stdout");
    return 0;
}

int stdout_put_after(struct str text, const char *done, struct err *err)
{
    int rc = stdout_put(text, NULL);
    if (rc == 0)
        return 0;
    int sys = errno;
    __fpurge(stdout); /* or main would try it again */
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
    fputs("muster: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

void pause_ms(unsigned ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}
