/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_arg.h"

#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "store/lock.h"
#include "store/order_answer.h"
#include "store/orders.h"
#include "store/runs.h"

enum {
    ANSWER_LIMIT_MS = 15000, /* a muster on another host looks once a second */
    LOOK_EVERY_MS = 50
};

int run_arg_find(const char *runs_dir, int argc, char **argv, char **dir_out, struct err *err)
{
    if (argc > 1)
        return fail(err, ERR_USAGE, "expected one run, found also '%s'", argv[1]);
    cleanup_free char *root = runs_root(runs_dir);
    return run_find(root, argc ? argv[0] : NULL, dir_out, err);
}

static int answer_await(const char *dir, const char *order, char **told, struct err *err)
{
    uint64_t begin_ms = clock_now_ms();
    cleanup_free char *refused = NULL;
    while (!order_answer_find(dir, order, &refused, told)) {
        if (!run_is_locked(dir, NULL))
            return fail(err, ERR_UNAVAILABLE, "run %s has ended", path_basename(dir));
        if (clock_now_ms() - begin_ms >= ANSWER_LIMIT_MS)
            return fail(err, ERR_TIMEOUT, "run %s has not looked at the order within %d s",
                        path_basename(dir), ANSWER_LIMIT_MS / 1000);
        pause_ms(LOOK_EVERY_MS);
    }
    return refused ? fail(err, ERR_UNAVAILABLE, "%s", refused) : 0;
}

int run_order(const char *dir, struct str text, char **told, struct err *err)
{
    char name[ORDER_NAME_MAX];
    bool was_running = false;
    int rc = run_order_give(dir, text, name, &was_running, err);
    if (rc)
        return rc;
    if (!was_running)
        return fail(err, ERR_UNAVAILABLE, "run %s is not going on", path_basename(dir));
    return answer_await(dir, name, told, err);
}

void pause_ms(unsigned ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}
