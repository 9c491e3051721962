/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_launch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/executable.h"
#include "base/xalloc.h"

/*
 * Marks the processes as ranks, because they have the same words as this command, --gpus among
 * them.
 */
static const char mark[] = "MUSTER_KGE_TRAIN_RANK";

bool train_launch_is_rank(void)
{
    const char *value = getenv(mark);
    return value && *value;
}

/*
 * The ranks share the machine's cores equally. Defaults that the user has set for other ranks'
 * programs do not count here.
 */
int train_launch(const struct app *app, const char *gpus, struct err *err)
{
    static const char *const of_launch[] = {
        "MUSTER_HOSTS",       "MUSTER_NNODES",   "MUSTER_NPROC_PER_NODE",
        "MUSTER_MODULE",      "MUSTER_RUN_PATH", "PET_NNODES",
        "PET_NPROC_PER_NODE", "PET_MODULE",      "PET_RUN_PATH"};
    cleanup_free char *muster = program_find_beside(app->self_path, "muster");
    /*
     * After wrong usage, bad data or a stop, a restart would end in the same way. The pause lets
     * the loss of a device be noticed.
     */
    const char *const before[] = {"muster",      "launch",
                                  "--no-python", "--threads",
                                  "share",       "--gpus",
                                  gpus,          "--gpus-min",
                                  "1",           "--max-restarts",
                                  "3",           "--healthy-after",
                                  "10m",         "--restart-pause",
                                  "2s",          "--no-restart-after",
                                  "2,65,75",     "--shutdown-timeout",
                                  "300s",        app->quiet ? "--quiet" : NULL};
    size_t n = countof(before) - !app->quiet;
    cleanup_free const char **words = xcalloc(n + (size_t)app->argc + 1, sizeof(*words));
    for (size_t i = 0; i < countof(of_launch); i++)
        unsetenv(of_launch[i]);
    for (size_t i = 0; i < n; i++)
        words[i] = before[i];
    words[n] = app->self_path;
    for (int i = 1; i < app->argc; i++)
        words[n + (size_t)i] = app->argv[i];
    if (setenv(mark, "1", 1) != 0)
        return fail_errno(err, "set %s", mark);
    execvp(muster ? muster : words[0], (char *const *)(uintptr_t)words);
    return fail_errno_as(err, ERR_UNAVAILABLE, "run %s", muster ? muster : words[0]);
}

const char *train_launch_backend(void)
{
    static const char cuda[] = "cuda";
    const char *kind = getenv("MUSTER_DEVICE_KIND");
    return train_launch_is_rank() && kind && strcmp(kind, cuda) == 0 ? cuda : NULL;
}
