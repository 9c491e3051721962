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
#include "shell/shell_impl.h"
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
void __wrap_local_guards_end(struct node *node);
int __wrap_keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms,
                        const int *held, size_t n_held, struct err *err);
int __wrap_front_begin(int *signals_fd, const sigset_t *more, struct err *err);
int __wrap_shell_guard_find(struct shell *shell, struct err *err);
int __wrap_program_hash(char out[BUNDLE_HASH_BYTES], struct err *err);
void __wrap_background_start(struct background *background, void (*work)(void *context),
                             void (*done)(void *context));
void __real_background_close(struct background *background, uv_close_cb closed);
void __wrap_background_close(struct background *background, uv_close_cb closed);
int __wrap_keeper_start_for_folder(struct keeper *keeper, const char *folder, uint64_t keep_ms,
                                   int lock_fd, struct err *err);

void __wrap_reaper_spare(struct reaper *reaper, pid_t pid)
{
    (void)reaper, (void)pid;
}

size_t __wrap_reaper_finish(struct reaper *reaper, uint64_t limit_ms)
{
    (void)reaper, (void)limit_ms;
    return 0;
}

/* The invented machine has no guards to end, and is no struct local. */
void __wrap_local_guards_end(struct node *node)
{
    (void)node;
}

int __wrap_keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms,
                        const int *held, size_t n_held, struct err *err)
{
    (void)entry, (void)limit_ms, (void)held, (void)n_held, (void)err;
    *keeper = (struct keeper){.fd = -1};
    return 0;
}

int __wrap_keeper_start_for_folder(struct keeper *keeper, const char *folder, uint64_t keep_ms,
                                   int lock_fd, struct err *err)
{
    (void)folder, (void)keep_ms, (void)lock_fd, (void)err;
    *keeper = (struct keeper){.fd = -1};
    return 0;
}

int __wrap_front_begin(int *signals_fd, const sigset_t *more, struct err *err)
{
    (void)more, (void)err;
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

/* Work beside a loop. That of an agent is done by its own loop, by a timer; muster's by the world. */
struct beside {
    struct beside *next;
    struct background *background; /* NULL: it was closed */
    void (*work)(void *), (*done)(void *);
    void *context;
    uv_timer_t timer;
};
static struct beside *besides;

static void beside_forget(struct beside *beside)
{
    struct beside **at = &besides;
    while (*at != beside)
        at = &(*at)->next;
    *at = beside->next;
}

static void beside_end(void *context, uint64_t argument)
{
    struct beside *beside = context;
    (void)argument;
    beside_forget(beside);
    if (beside->background)
        beside->done(beside->context);
    free(beside);
}

static void beside_run(void *context, uint64_t argument)
{
    struct beside *beside = context;
    (void)argument;
    if (beside->background)
        beside->work(beside->context);
    after_us(below(300), beside_end, beside, 0);
}

static void timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_timer(uv_timer_t *timer)
{
    struct beside *beside = timer->data;
    beside_forget(beside);
    uv_close((uv_handle_t *)timer, timer_closed);
    beside->work(beside->context);
    beside->done(beside->context);
}

void __wrap_background_start(struct background *background, void (*work)(void *context),
                             void (*done)(void *context))
{
    struct beside *beside = xcalloc(1, sizeof(*beside));
    uint64_t after = chance(100) ? below(3000) : below(3);
    *beside = (struct beside){.next = besides,
                              .background = background,
                              .work = work,
                              .done = done,
                              .context = background->ended.data};
    besides = beside;
    background->has_thread = false;
    if (!world.place) {
        after_ms(after, beside_run, beside, 0);
        return;
    }
    uv_timer_init(background->ended.loop, &beside->timer);
    beside->timer.data = beside;
    uv_timer_start(&beside->timer, on_timer, after, 0);
}

void __wrap_background_close(struct background *background, uv_close_cb closed)
{
    struct beside *beside = besides;
    while (beside && beside->background != background)
        beside = beside->next;
    if (beside && beside->timer.data) {
        beside_forget(beside);
        uv_close((uv_handle_t *)&beside->timer, timer_closed);
    } else if (beside) {
        beside->background = NULL;
    }
    __real_background_close(background, closed);
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
