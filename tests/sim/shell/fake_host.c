/* SPDX-License-Identifier: Apache-2.0
 *
 * What else muster asks of a machine. Each function stands in for the one of its name (ld --wrap).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/thread.h"
#include "base/xalloc.h"
#include "core/feed.h"
#include "device/driver_probe.h"
#include "device/probe.h"
#include "node/background.h"
#include "node/bundle.h"
#include "proc/keeper.h"
#include "shell/shell.h"
#include "sim/feed_names.h"
#include "sim/shell/fake_agent.h"

#define WALL_BEGIN_MS 1780000000000

/* ---- clocks ---- */

uint64_t __wrap_clock_now_ms(void);
uint64_t __wrap_clock_now_ns(void);
int64_t __wrap_clock_wall_ms(void);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

static int64_t ahead_ms(void)
{
    return world.place ? world.scene.hosts.links[world.place->host].clock_ahead_ms : 0;
}

uint64_t place_now_ns(void)
{
    return world.now_ns + (uint64_t)(ahead_ms() * 1000000);
}

/* To ask takes a moment: whoever waits by asking comes to an end. */
uint64_t __wrap_clock_now_ns(void)
{
    world.now_ns += 500;
    return place_now_ns();
}

uint64_t __wrap_clock_now_ms(void)
{
    return __wrap_clock_now_ns() / 1000000;
}

int64_t __wrap_clock_wall_ms(void)
{
    return WALL_BEGIN_MS + (int64_t)(__wrap_clock_now_ns() / 1000000);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    uint64_t ns = (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
    (void)left;
    if (!world.place) {
        world.now_ns += ns;
        return 0;
    }
    world.place->naps = true;
    agent_sleep(world.now_ns + ns);
    world.place->naps = false;
    return 0;
}

/* ---- processes ---- */

struct reaper;
void __wrap_reaper_spare(struct reaper *reaper, pid_t pid);
size_t __wrap_reaper_finish(struct reaper *reaper, uint64_t limit_ms);
int __wrap_keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms,
                        const int *held, size_t n_held, struct err *err);
int __wrap_front_begin(int *signals_fd, struct err *err);
int __wrap_shell_guard_find(struct shell *shell, struct err *err);
int __wrap_program_hash(char out[BUNDLE_HASH_BYTES], struct err *err);
void __wrap_background_start(struct background *background, void (*work)(void *context),
                             void (*done)(void *context));

void __wrap_reaper_spare(struct reaper *reaper, pid_t pid)
{
    (void)reaper, (void)pid;
}

size_t __wrap_reaper_finish(struct reaper *reaper, uint64_t limit_ms)
{
    (void)reaper, (void)limit_ms;
    return 0;
}

int __wrap_keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms,
                        const int *held, size_t n_held, struct err *err)
{
    (void)entry, (void)limit_ms, (void)held, (void)n_held, (void)err;
    *keeper = (struct keeper){.fd = -1};
    return 0;
}

int __wrap_front_begin(int *signals_fd, struct err *err)
{
    (void)err;
    *signals_fd = -1;
    return 0;
}

int __wrap_shell_guard_find(struct shell *shell, struct err *err)
{
    (void)err;
    shell->guard_path = xstrdup("/invented/muster-guard");
    return 0;
}

int __wrap_program_hash(char out[BUNDLE_HASH_BYTES], struct err *err)
{
    (void)err;
    snprintf(out, BUNDLE_HASH_BYTES, "invented");
    return 0;
}

int __real_store_commit(struct store *store, const struct store_batch *batch, struct err *err);
int __wrap_store_commit(struct store *store, const struct store_batch *batch, struct err *err);

int __wrap_store_commit(struct store *store, const struct store_batch *batch, struct err *err)
{
    if (world.session < 3 && chance(world.scene.rates.disk_full)) /* then somebody makes room */
        return fail(err, ERR_STOPPED, "no room is left (invented)");
    return __real_store_commit(store, batch, err);
}

struct beside {
    struct background *background;
    void (*work)(void *), (*done)(void *);
    void *context;
};

static void beside_end(void *context, uint64_t argument)
{
    struct beside *beside = context;
    (void)argument;
    beside->done(beside->context);
    free(beside);
}

static void beside_run(void *context, uint64_t argument)
{
    struct beside *beside = context;
    (void)argument;
    beside->work(beside->context);
    after_us(below(300), beside_end, beside, 0);
}

void __wrap_background_start(struct background *background, void (*work)(void *context),
                             void (*done)(void *context))
{
    struct beside *beside = xcalloc(1, sizeof(*beside));
    *beside = (struct beside){background, work, done, background->ended.data};
    background->has_thread = false;
    after_ms(chance(100) ? below(3000) : below(3), beside_run, beside, 0);
}

/* ---- the feeder, which is real, is listened to ---- */

size_t __real_feed_step(struct feed *feed, const struct feed_event *event,
                        const struct feed_action **actions);
size_t __wrap_feed_step(struct feed *feed, const struct feed_event *event,
                        const struct feed_action **actions);

size_t __wrap_feed_step(struct feed *feed, const struct feed_event *event,
                        const struct feed_action **actions)
{
    size_t n = __real_feed_step(feed, event, actions);
    if (event->kind != EV_TICK || n > 0)
        trace("  > %s %u %lu+%lu %s%d", event_names[event->kind], event->worker, event->item,
              event->count, event->flag ? "flag " : "", (int)event->death);
    for (size_t i = 0; i < n; i++)
        trace("  <   %s %d %lu+%lu %u", action_names[(*actions)[i].kind], (int)(*actions)[i].worker,
              (*actions)[i].item, (*actions)[i].count, (*actions)[i].detail);
    return n;
}
