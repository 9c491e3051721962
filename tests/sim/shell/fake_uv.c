/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of libuv that muster calls, in the time of the world. They are linked before libuv, and take its
 * place. A turn of the loop is libuv's: idle, prepare, what comes from outside, timers, closing.
 */
#include <errno.h>
#include <string.h>
#include <uv.h>

#include "base/attr.h"
#include "sim/shell/world.h"

enum {
    HANDLES_MAX = 512,
    TURN_NS_MAX = 50000 /* a turn takes a moment */
};

struct handle {
    uv_handle_t *uv;
    bool is_active, is_closing;
    uint64_t due_ns, repeat_ns, number;
    union {
        uv_timer_cb timer;
        uv_idle_cb idle;
        uv_prepare_cb prepare;
        uv_signal_cb signal;
        uv_async_cb async;
        uv_poll_cb poll;
    } cb;
    uv_close_cb closed;
    int signum;
};

static struct handle handles[HANDLES_MAX];
static size_t n_handles;
static uint64_t n_timers;

void uv_forget(void)
{
    n_handles = 0;
}

static struct handle *handle_of(const void *uv)
{
    for (size_t i = 0; i < n_handles; i++)
        if (handles[i].uv == uv)
            return &handles[i];
    broken("a handle that was not opened, or is closed");
}

static int handle_open(uv_loop_t *loop, void *at, uv_handle_type type)
{
    uv_handle_t *uv = at;
    if (n_handles == HANDLES_MAX)
        broken("%d handles are open", HANDLES_MAX);
    for (size_t i = 0; i < n_handles; i++)
        if (handles[i].uv == uv)
            broken("a handle is opened twice");
    uv->loop = loop;
    uv->type = type;
    handles[n_handles++] = (struct handle){.uv = uv};
    return 0;
}

int uv_loop_init(uv_loop_t *loop)
{
    memset(loop, 0, sizeof(*loop));
    return 0;
}

int uv_loop_close(uv_loop_t *loop)
{
    (void)loop;
    if (n_handles > 0)
        broken("the loop is closed with %zu handles open", n_handles);
    return 0;
}

void uv_update_time(uv_loop_t *loop)
{
    (void)loop;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
    return handle_open(loop, timer, UV_TIMER);
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
    struct handle *handle = handle_of(timer);
    handle->cb.timer = cb;
    handle->is_active = true;
    handle->due_ns = world.now_ns + timeout * 1000000;
    handle->repeat_ns = repeat * 1000000;
    handle->number = n_timers++;
    return 0;
}

int uv_timer_stop(uv_timer_t *timer)
{
    handle_of(timer)->is_active = false;
    return 0;
}

int uv_prepare_init(uv_loop_t *loop, uv_prepare_t *prepare)
{
    return handle_open(loop, prepare, UV_PREPARE);
}

int uv_prepare_start(uv_prepare_t *prepare, uv_prepare_cb cb)
{
    struct handle *handle = handle_of(prepare);
    handle->cb.prepare = cb;
    handle->is_active = true;
    return 0;
}

int uv_idle_init(uv_loop_t *loop, uv_idle_t *idle)
{
    return handle_open(loop, idle, UV_IDLE);
}

int uv_idle_start(uv_idle_t *idle, uv_idle_cb cb)
{
    struct handle *handle = handle_of(idle);
    handle->cb.idle = cb;
    handle->is_active = true;
    return 0;
}

int uv_idle_stop(uv_idle_t *idle)
{
    handle_of(idle)->is_active = false;
    return 0;
}

int uv_signal_init(uv_loop_t *loop, uv_signal_t *signal)
{
    return handle_open(loop, signal, UV_SIGNAL);
}

int uv_signal_start(uv_signal_t *signal, uv_signal_cb cb, int signum)
{
    struct handle *handle = handle_of(signal);
    handle->cb.signal = cb;
    handle->signum = signum;
    handle->is_active = true;
    return 0;
}

void uv_raise(int number)
{
    for (size_t i = 0; i < n_handles; i++)
        if (handles[i].uv->type == UV_SIGNAL && handles[i].is_active && handles[i].signum == number)
            handles[i].cb.signal((uv_signal_t *)handles[i].uv, number);
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    (void)fd;
    return handle_open(loop, poll, UV_POLL);
}

static void poll_ready(void *context, uint64_t number)
{
    for (size_t i = 0; i < n_handles; i++)
        if (handles[i].uv == context && handles[i].is_active && handles[i].number == number) {
            handles[i].cb.poll(context, 0, UV_READABLE);
            after_ms(1000, poll_ready, context, number);
            return;
        }
}

/* What muster watches here says something each second: the devices. */
int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb cb)
{
    struct handle *handle = handle_of(poll);
    (void)events;
    handle->cb.poll = cb;
    handle->is_active = true;
    handle->number = n_timers++;
    after_ms(between(1, 900), poll_ready, poll, handle->number);
    return 0;
}

int uv_poll_stop(uv_poll_t *poll)
{
    handle_of(poll)->is_active = false;
    return 0;
}

int uv_async_init(uv_loop_t *loop, uv_async_t *async, uv_async_cb cb)
{
    handle_open(loop, async, UV_ASYNC);
    handle_of(async)->cb.async = cb;
    return 0;
}

static void async_deliver(void *context, uint64_t argument)
{
    (void)argument;
    for (size_t i = 0; i < n_handles; i++)
        if (handles[i].uv == context && !handles[i].is_closing) {
            handles[i].cb.async(context);
            return;
        }
}

int uv_async_send(uv_async_t *async)
{
    after_us(below(200), async_deliver, async, 0);
    return 0;
}

struct thread_start {
    uv_thread_cb entry;
    void *argument;
};
static struct thread_start threads[HANDLES_MAX];

static void thread_run(void *context, uint64_t argument)
{
    struct thread_start start = *(struct thread_start *)context;
    (void)argument;
    ((struct thread_start *)context)->entry = NULL;
    start.entry(start.argument);
}

/* A commit: mostly soon, now and then late. */
int uv_thread_create(uv_thread_t *thread, uv_thread_cb entry, void *argument)
{
    size_t at = 0;
    while (threads[at].entry)
        at++;
    threads[at] = (struct thread_start){entry, argument};
    *thread = 0;
    after_ms(chance(100) ? below(world.scene.disk_ms + 1) : below(5), thread_run, &threads[at], 0);
    return 0;
}

int uv_thread_join(uv_thread_t *thread)
{
    (void)thread;
    return 0;
}

void uv_ref(uv_handle_t *handle)
{
    (void)handle;
}

void uv_unref(uv_handle_t *handle)
{
    (void)handle;
}

int uv_is_closing(const uv_handle_t *uv)
{
    return handle_of(uv)->is_closing;
}

void uv_close(uv_handle_t *uv, uv_close_cb closed)
{
    struct handle *handle = handle_of(uv);
    if (handle->is_closing)
        broken("a handle is closed twice");
    handle->is_closing = true;
    handle->is_active = false;
    handle->closed = closed;
}

void uv_walk(uv_loop_t *loop, uv_walk_cb cb, void *argument)
{
    (void)loop;
    for (size_t i = n_handles; i-- > 0;)
        cb(handles[i].uv, argument);
}

/* ---- a turn ---- */

static void idle_run(void)
{
    for (size_t i = 0; i < n_handles; i++)
        if (handles[i].is_active && handles[i].uv->type == UV_IDLE)
            handles[i].cb.idle((uv_idle_t *)handles[i].uv);
}

static void prepare_run(void)
{
    for (size_t i = 0; i < n_handles; i++)
        if (handles[i].is_active && handles[i].uv->type == UV_PREPARE)
            handles[i].cb.prepare((uv_prepare_t *)handles[i].uv);
}

static struct handle *timer_next(void)
{
    struct handle *next = NULL;
    for (size_t i = 0; i < n_handles; i++) {
        struct handle *handle = &handles[i];
        if (handle->is_active && handle->uv->type == UV_TIMER &&
            (!next || handle->due_ns < next->due_ns ||
             (handle->due_ns == next->due_ns && handle->number < next->number)))
            next = handle;
    }
    return next;
}

static void timers_run(void)
{
    struct handle *timer;
    uint64_t begin = n_timers;
    while ((timer = timer_next()) && timer->due_ns <= world.now_ns && timer->number < begin) {
        timer->is_active = timer->repeat_ns > 0;
        timer->due_ns = world.now_ns + timer->repeat_ns;
        timer->number = n_timers++;
        timer->cb.timer((uv_timer_t *)timer->uv);
    }
}

static bool closing_run(void)
{
    bool any = false;
    for (size_t i = 0; i < n_handles;) {
        if (!handles[i].is_closing) {
            i++;
            continue;
        }
        struct handle handle = handles[i];
        handles[i] = handles[--n_handles];
        any = true;
        if (handle.closed)
            handle.closed(handle.uv);
    }
    return any;
}

static bool waits_for_nothing(void)
{
    bool any = false;
    for (size_t i = 0; i < n_handles; i++)
        any = any || handles[i].is_closing ||
              (handles[i].is_active && handles[i].uv->type == UV_IDLE);
    return any;
}

static void sleep_until_next(void)
{
    const struct handle *timer = timer_next();
    uint64_t next_ns = MIN(timer ? timer->due_ns : UINT64_MAX, future_next_ns());
    if (next_ns == UINT64_MAX)
        broken("it waits, and nothing is to happen");
    world.now_ns = MAX(world.now_ns, next_ns);
}

int uv_run(uv_loop_t *loop, uv_run_mode mode)
{
    (void)loop;
    if (mode == UV_RUN_DEFAULT) { /* all is being closed */
        while (closing_run())
            ;
        return 0;
    }
    world.now_ns += below(TURN_NS_MAX);
    if (mode == UV_RUN_ONCE) {
        idle_run();
        prepare_run();
        if (!waits_for_nothing())
            sleep_until_next();
    }
    futures_run();
    timers_run();
    closing_run();
    return 1;
}
