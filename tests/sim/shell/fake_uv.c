/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of libuv that muster calls, in the time of the world. They are linked before libuv, and take its
 * place. A turn of the loop is libuv's: idle, prepare, what comes from outside, timers, closing.
 */
#include <errno.h>
#include <string.h>
#include <uv.h>

#include "base/attr.h"
#include "base/xalloc.h"
#include "sim/shell/fake_agent.h"
#include "sim/shell/world.h"

enum {
    HANDLES_MAX = 512,
    TURN_NS_MAX = 50000 /* a turn takes a moment */
};

struct handle {
    uv_handle_t *uv;
    bool is_active, is_closing;
    bool is_ready; /* to be read, or written to */
    int fd;
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

/* The handles of one loop: muster's own, or that of an agent. It outlives the loop, for whoever is late. */
struct handles {
    struct handles *next;
    struct handle *at;
    size_t len, cap;
};

static struct handles *all;
static uint64_t n_timers;

void uv_forget(void)
{
    while (all) {
        struct handles *handles = all;
        all = handles->next;
        free(handles->at);
        free(handles);
    }
}

static struct handles *handles_of(const uv_loop_t *loop)
{
    return loop->data;
}

static struct handle *handle_of(const void *at)
{
    const uv_handle_t *uv = at;
    struct handles *of = handles_of(uv->loop);
    for (size_t i = 0; i < of->len; i++)
        if (of->at[i].uv == uv)
            return &of->at[i];
    broken("a handle that was not opened, or is closed");
}

static int handle_open(uv_loop_t *loop, void *at, uv_handle_type type)
{
    uv_handle_t *uv = at;
    struct handles *of = handles_of(loop);
    if (of->len == HANDLES_MAX)
        broken("%d handles are open", HANDLES_MAX);
    for (size_t i = 0; i < of->len; i++)
        if (of->at[i].uv == uv)
            broken("a handle is opened twice");
    uv->loop = loop;
    uv->type = type;
    if (of->len == of->cap) {
        of->cap = of->cap ? 2 * of->cap : 16;
        of->at = xrealloc(of->at, of->cap * sizeof(*of->at));
    }
    of->at[of->len++] = (struct handle){.uv = uv, .number = n_timers++, .fd = -1};
    return 0;
}

int uv_loop_init(uv_loop_t *loop)
{
    struct handles *handles = xcalloc(1, sizeof(*handles));
    memset(loop, 0, sizeof(*loop));
    handles->next = all;
    all = handles;
    loop->data = handles;
    return 0;
}

int uv_loop_close(uv_loop_t *loop)
{
    if (handles_of(loop)->len > 0)
        broken("the loop is closed with %zu handles open", handles_of(loop)->len);
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

void uv_raise(const uv_loop_t *loop, int number)
{
    struct handles *of = loop ? handles_of(loop) : NULL;
    for (const struct handles *each = all; each && !loop; each = each->next)
        of = (struct handles *)(uintptr_t)each; /* the first that was opened is muster's */
    for (size_t i = 0; of && i < of->len; i++)
        if (of->at[i].uv->type == UV_SIGNAL && of->at[i].is_active && of->at[i].signum == number)
            of->at[i].cb.signal((uv_signal_t *)of->at[i].uv, number);
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    handle_open(loop, poll, UV_POLL);
    handle_of(poll)->fd = fd;
    return 0;
}

/* NULL: it was closed. */
static struct handle *handle_numbered(const struct handles *of, uint64_t number)
{
    for (size_t i = 0; i < of->len; i++)
        if (of->at[i].number == number && !of->at[i].is_closing)
            return &of->at[i];
    return NULL;
}

static void poll_ready(void *context, uint64_t number)
{
    struct handle *handle = handle_numbered(context, number);
    if (handle && handle->is_active)
        handle->is_ready = true;
}

/* Of what muster watches here, the devices say something each second; an agent's streams are looked at. */
int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb cb)
{
    struct handle *handle = handle_of(poll);
    (void)events;
    handle->cb.poll = cb;
    handle->is_active = true;
    if (handle->fd >= STREAMS_AGENT)
        after_ms(between(1, 900), poll_ready, handles_of(poll->loop), handle->number);
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

static void async_deliver(void *context, uint64_t number)
{
    struct handle *handle = handle_numbered(context, number);
    if (handle)
        handle->cb.async((uv_async_t *)handle->uv);
}

int uv_async_send(uv_async_t *async)
{
    after_us(below(200), async_deliver, handles_of(async->loop), handle_of(async)->number);
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
    const struct handles *of = handles_of(loop);
    for (size_t i = of->len; i-- > 0;)
        cb(of->at[i].uv, argument);
}

/* ---- a turn ---- */

static void idle_run(const struct handles *of)
{
    for (size_t i = 0; i < of->len; i++)
        if (of->at[i].is_active && of->at[i].uv->type == UV_IDLE)
            of->at[i].cb.idle((uv_idle_t *)of->at[i].uv);
}

static void prepare_run(const struct handles *of)
{
    for (size_t i = 0; i < of->len; i++)
        if (of->at[i].is_active && of->at[i].uv->type == UV_PREPARE)
            of->at[i].cb.prepare((uv_prepare_t *)of->at[i].uv);
}

static struct handle *timer_next(const struct handles *of)
{
    struct handle *next = NULL;
    for (size_t i = 0; i < of->len; i++) {
        struct handle *handle = &of->at[i];
        if (handle->is_active && handle->uv->type == UV_TIMER &&
            (!next || handle->due_ns < next->due_ns ||
             (handle->due_ns == next->due_ns && handle->number < next->number)))
            next = handle;
    }
    return next;
}

static void timers_run(const struct handles *of)
{
    struct handle *timer;
    uint64_t begin = n_timers;
    while ((timer = timer_next(of)) && timer->due_ns <= world.now_ns && timer->number < begin) {
        timer->is_active = timer->repeat_ns > 0;
        timer->due_ns = world.now_ns + timer->repeat_ns;
        timer->number = n_timers++;
        timer->cb.timer((uv_timer_t *)timer->uv);
    }
}

static bool is_ready(const struct handle *handle)
{
    bool is_poll = handle->is_active && handle->uv->type == UV_POLL;
    return is_poll && (handle->is_ready || agent_stream_is_ready(handle->fd));
}

static void polls_run(struct handles *of)
{
    for (size_t i = 0; i < of->len; i++) {
        struct handle *handle = &of->at[i];
        if (!is_ready(handle))
            continue;
        if (handle->is_ready)
            after_ms(1000, poll_ready, of, handle->number);
        handle->is_ready = false;
        handle->cb.poll((uv_poll_t *)handle->uv, 0, UV_READABLE);
    }
}

static bool closing_run(struct handles *of)
{
    bool any = false;
    for (size_t i = 0; i < of->len;) {
        if (!of->at[i].is_closing) {
            i++;
            continue;
        }
        struct handle handle = of->at[i];
        of->at[i] = of->at[--of->len];
        any = true;
        if (handle.closed)
            handle.closed(handle.uv);
    }
    return any;
}

static bool waits_for_nothing(const struct handles *of)
{
    bool any = false;
    for (size_t i = 0; i < of->len; i++)
        any = any || of->at[i].is_closing || is_ready(&of->at[i]) ||
              (of->at[i].is_active && of->at[i].uv->type == UV_IDLE);
    return any;
}

static void sleep_until_next(const struct handles *of)
{
    const struct handle *timer = timer_next(of);
    uint64_t due_ns = timer ? timer->due_ns : UINT64_MAX;
    if (world.place) {
        agent_sleep(due_ns);
        return;
    }
    uint64_t next_ns = MIN(due_ns, future_next_ns());
    if (next_ns == UINT64_MAX)
        broken("it waits, and nothing is to happen");
    world.now_ns = MAX(world.now_ns, next_ns);
}

int uv_run(uv_loop_t *loop, uv_run_mode mode)
{
    struct handles *of = handles_of(loop);
    if (mode == UV_RUN_DEFAULT) { /* all is being closed */
        while (closing_run(of))
            ;
        return 0;
    }
    world.now_ns += world.place ? 0 : below(TURN_NS_MAX);
    if (mode == UV_RUN_ONCE) {
        idle_run(of);
        prepare_run(of);
        if (!waits_for_nothing(of))
            sleep_until_next(of);
    }
    if (!world.place) /* else those of all places are at work */
        futures_run();
    polls_run(of);
    timers_run(of);
    closing_run(of);
    return 1;
}
