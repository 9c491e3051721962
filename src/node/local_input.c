/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out from the kernel whether a worker reads its input, has read all of it, or waits for more. Each look
 * costs time, so the pauses between looks grow.
 */
#include <sys/ioctl.h>

#include "base/attr.h"
#include "base/clock.h"
#include "node/local_impl.h"
#include "proc/stdin_wait.h"

enum {
    QUIET_MS = 200,    /* without output, before a worker may count as waiting */
    SILENCE_PARTS = 8, /* the next look comes after this part of its silence */
    LOAD_PARTS = 8     /* the next look comes after this part of its age */
};

void local_ask_read(struct node_worker *worker, bool is_asked)
{
    local_of(worker)->input.asks_read = is_asked;
}

void local_ask_rest(struct node_worker *worker, uint64_t pause_max_ms)
{
    struct input_watch *watch = &local_of(worker)->input;
    if (pause_max_ms != watch->rest_pause_max_ms) /* a new request: look at once */
        watch->rest_pause_ms = 0;
    watch->rest_pause_max_ms = pause_max_ms;
}

void local_ask_wait(struct node_worker *worker, bool is_asked)
{
    local_of(worker)->input.asks_wait = is_asked;
}

static void tell(struct local_worker *w, enum input_fact fact)
{
    if (w->base.handlers->input)
        w->base.handlers->input(w->base.context, fact);
}

/* How many bytes of its input it has not read; all of them if that cannot be seen. */
static uint64_t unread_bytes(const struct local_worker *w)
{
    int unread = 0;
    bool is_seen = ioctl(w->streams[STREAM_IN].fd, FIONREAD, &unread) == 0;
    return is_seen ? (uint64_t)unread : w->input.n_bytes;
}

static bool has_read_all(const struct local_worker *w)
{
    const struct local_stream *in = &w->streams[STREAM_IN];
    return in->fd >= 0 && !(in->events & UV_WRITABLE) && unread_bytes(w) == 0;
}

/* The order of the looks matters: once the worker is seen to wait, all that it printed before is in its pipe. */
static bool rests(const struct local_worker *w)
{
    int unread = 0, out_fd = w->streams[STREAM_OUT].fd;
    return has_read_all(w) && proc_waits_for_stdin(w->guard.worker_pid, w->streams[STREAM_IN].fd) &&
           out_fd >= 0 && ioctl(out_fd, FIONREAD, &unread) == 0 && unread == 0;
}

static void read_look(struct local_worker *w, uint64_t now_ms)
{
    struct input_watch *watch = &w->input;
    if (!watch->asks_read || watch->n_bytes == 0 || w->streams[STREAM_IN].fd < 0)
        return;
    if (now_ms >= watch->read_look_ms) {
        if (unread_bytes(w) < watch->n_bytes) {
            watch->asks_read = false;
            tell(w, INPUT_READ);
            return;
        }
        watch->read_look_ms = now_ms + MAX((now_ms - watch->begin_ms) / LOAD_PARTS, (uint64_t)1);
    }
    w->node->look_ms = MIN(w->node->look_ms, watch->read_look_ms);
}

static void rest_look(struct local_worker *w, uint64_t now_ms)
{
    struct input_watch *watch = &w->input;
    if (watch->rest_pause_ms >= watch->rest_pause_max_ms)
        return;
    if (watch->rest_pause_ms == 0 || now_ms >= watch->rest_look_ms) {
        watch->rest_pause_ms = MAX(2 * watch->rest_pause_ms, (uint64_t)1);
        watch->rest_look_ms = now_ms + watch->rest_pause_ms;
        if (rests(w)) {
            tell(w, INPUT_RESTS);
            return;
        }
        if (proc_is_at_work(w->guard.worker_pid))
            tell(w, INPUT_WORKS);
    }
    w->node->look_ms = MIN(w->node->look_ms, watch->rest_look_ms);
}

uint64_t local_look(struct node *node)
{
    struct local *local = (struct local *)node;
    uint64_t now_ms = clock_now_ms();
    local->look_ms = UINT64_MAX;
    for (struct local_worker *w = local->workers; w && !local->is_held; w = w->next) {
        if (w->is_gone)
            continue;
        read_look(w, now_ms);
        rest_look(w, now_ms);
    }
    return local->look_ms;
}

void local_input_tick(struct local_worker *w)
{
    struct input_watch *watch = &w->input;
    uint64_t now_ms = clock_now_ms();
    if (!watch->asks_wait || now_ms < watch->wait_look_ms)
        return;
    if (now_ms - MIN(watch->last_output_ms, now_ms) < QUIET_MS || !has_read_all(w)) {
        watch->n_wait_looks = 0;
        return;
    }
    int reading = proc_reads_stdin(w->guard.worker_pid);
    if (reading == 0) { /* it computes: the pauses grow with that time */
        watch->wait_look_ms = now_ms + (now_ms - watch->last_output_ms) / SILENCE_PARTS;
        return;
    }
    /* If the kernel does not show what it waits for, look less and less often. */
    if (reading < 0)
        watch->wait_look_ms =
            now_ms + ((uint64_t)QUIET_MS << MIN(watch->n_wait_looks, (uint64_t)8));
    watch->n_wait_looks++;
    /* A process that reads while its descendants work or load does not count as waiting. */
    bool is_certain = reading > 0 && proc_is_idle(w->guard.worker_pid);
    tell(w, is_certain ? INPUT_WAITS : INPUT_WAITS_PERHAPS);
}
