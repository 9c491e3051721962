/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_ranks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "train/state.h"

enum {
    SETTINGS_BYTES_MAX = 1 << 16,
    THREADS_MAX = 256
};

/* Returns the number that a launcher set, or `otherwise`. */
static uint64_t number_of(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    uint64_t value = otherwise;
    if (text && u64_parse(str_of(text), 0, UINT32_MAX, &value, NULL) != 0)
        value = otherwise;
    return value;
}

/*
 * Shows this process entry `index` of a list of devices, if the list is long enough; without a
 * list, the device with this number.
 */
static int device_show(const char *variable, uint64_t index, struct err *err)
{
    const char *list = getenv(variable);
    struct str rest = str_of(list ? list : ""), entry = {0};
    bool is_there = true;
    if (list && !*list)
        return 0;
    for (uint64_t i = 0; list && is_there && i <= index; i++)
        is_there = rest.len > 0 && str_next(&rest, ',', &entry);
    cleanup_free char *own =
        list ? xstrndup(entry.at, entry.len) : xasprintf("%lu", (unsigned long)index);
    if (is_there && setenv(variable, own, 1) != 0)
        return fail_errno(err, "set %s", variable);
    return 0;
}

int train_ranks_device(const struct team *team, struct err *err)
{
    return team_is_alone(team)
               ? 0
               : device_show("CUDA_VISIBLE_DEVICES", number_of("LOCAL_RANK", 0), err);
}

unsigned train_ranks_threads(const struct team *team)
{
    uint64_t n = team_is_alone(team) ? 0 : number_of("OMP_NUM_THREADS", 1);
    return (unsigned)MIN(n, (uint64_t)THREADS_MAX);
}

bool train_ranks_are_restarted(void)
{
    return number_of("TORCHELASTIC_RESTART_COUNT", 0) > 0;
}

int train_ranks_compare(const struct team *team, struct str settings, struct err *err)
{
    cleanup_buf struct buf differences = BUF_INIT;
    uint64_t len = settings.len;
    if (team_is_alone(team))
        return 0;
    team_broadcast(team, &len, sizeof(len), 0);
    int rc = team_check(team, err);
    if (rc != 0)
        return rc;
    ASSERT(len <= SETTINGS_BYTES_MAX);
    cleanup_free char *first = xcalloc((size_t)len + 1, 1);
    if (team_is_leader(team))
        memcpy(first, settings.at, settings.len);
    team_broadcast(team, first, (size_t)len, 0);
    rc = team_check(team, err);
    struct str there = {first, (size_t)len};
    if (rc != 0 || str_equal(there, settings))
        return rc;
    train_settings_differ(&differences, there, settings);
    return fail(err, ERR_USAGE, "started otherwise than rank 0: %s", buf_text(&differences));
}

int train_ranks_agree(const struct team *team, bool *is_told, bool *is_due, struct err *err)
{
    int32_t news[] = {*is_told, team_is_leader(team) && *is_due};
    team_most(team, news, countof(news));
    *is_told = news[0] != 0;
    *is_due = news[1] != 0;
    return team_check(team, err);
}

int train_ranks_join(void *context, int rc, double *ranks, size_t n, struct err *err)
{
    const struct team *team = context;
    int32_t is_stopped = rc == ERR_STOPPED;
    team_most(team, &is_stopped, 1);
    if (!is_stopped)
        team_sum_doubles(team, ranks, n);
    rc = team_check(team, err);
    return rc == 0 && is_stopped ? fail(err, ERR_STOPPED, "told to stop") : rc;
}

/*
 * A launcher ends the other ranks as soon as one has ended, and takes that one for the cause. So
 * the rank that knows the reason must not be cut off while it prints it, and the others let it end
 * first.
 */
int train_ranks_close(struct team *team, int rc, const struct err *err)
{
    const struct timespec patience = {.tv_sec = 1};
    bool is_stopped = rc == ERR_STOPPED && !team_is_leader(team), is_known = false;
    if (!team_is_alone(team) && rc < 0) {
        (void)signal(SIGTERM, SIG_IGN);
        if (!is_stopped)
            rc = team_fail(team, rc, err, &is_known);
    }
    team_close(team);
    if (is_known) {
        (void)signal(SIGTERM, SIG_DFL);
        nanosleep(&patience, NULL);
    }
    return is_known || is_stopped ? err_exit_status(rc) : rc;
}
