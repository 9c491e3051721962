/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_arg.h"

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

void pause_ms(unsigned ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}
