/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/shell/fake_node.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "shell/shell_impl.h"
#include "sim/shell/fake_agent.h"

enum {
    READ_BYTES = 8192 /* a program's buffer */
};

static const struct node_ops fake_ops;
static struct fake local;
static struct fake_worker
    *workers; /* of this session, the last first; none is freed before its end */

struct fake_worker *fake_workers(void)
{
    return workers;
}

struct fake_worker *fake_of(struct node_worker *worker)
{
    return (struct fake_worker *)worker;
}

/* Its guard, and with it the locks that it has. */
static void locks_close(struct fake_worker *w)
{
    for (size_t i = 0; i < w->n_locks; i++)
        close(w->locks[i]);
    w->n_locks = 0;
}

void fake_node_init(struct fake *node)
{
    *node = (struct fake){.base = {&fake_ops}};
}

void node_world_begin(void)
{
    while (workers) {
        struct fake_worker *w = workers;
        workers = w->next;
        locks_close(w);
        buf_release(&w->pipe);
        buf_release(&w->own);
        buf_release(&w->line);
        buf_release(&w->held);
        for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
            buf_release(&w->out[stream]);
        free(w);
    }
    fake_node_init(&local);
}

uint32_t workers_alive(void)
{
    uint32_t n = 0;
    for (const struct fake_worker *w = workers; w; w = w->next)
        n += w->state != ACTOR_DEAD;
    return n;
}

/* ---- from the worker ---- */

static bool is_left_there(const struct fake_worker *w, enum worker_stream stream)
{
    bool has_answers = stream == STREAM_OUT || stream == STREAM_CHANNEL;
    return w->is_paused[stream] || (w->node->is_held && has_answers);
}

static void piece_deliver(struct fake_worker *w, enum worker_stream stream, size_t most)
{
    char piece[READ_BYTES];
    size_t len = MIN(MIN(w->out[stream].len, most), sizeof(piece));
    memcpy(piece, w->out[stream].at, len);
    buf_consume(&w->out[stream], len);
    if (stream != STREAM_ERR)
        w->last_output_ms = world_ms();
    trace("worker %u says %.*s", w->number, (int)len - (piece[len - 1] == '\n'), piece);
    w->base.handlers->output(w->base.context, stream, (struct str){piece, len});
}

static void deliver(void *context, uint64_t number)
{
    struct fake_worker *w = context;
    enum worker_stream stream = (enum worker_stream)number;
    w->delivers[stream] = false;
    if (w->is_gone || w->is_released || w->out[stream].len == 0 || is_left_there(w, stream))
        return;
    piece_deliver(w, stream, 1 + below(world.scene.cut_bytes));
    if (w->out[stream].len > 0 && !w->is_gone) {
        w->delivers[stream] = true;
        after_us(below(100), deliver, w, stream);
    }
}

static void deliver_soon(struct fake_worker *w, enum worker_stream stream)
{
    if (w->delivers[stream] || w->out[stream].len == 0)
        return;
    w->delivers[stream] = true;
    after_us(1 + below(1000), deliver, w, stream);
}

void fake_print(struct fake_worker *w, enum worker_stream stream, struct str bytes)
{
    buf_add_str(&w->out[stream], bytes);
    deliver_soon(w, stream);
}

/* ---- to the worker ---- */

bool item_in(struct str line, uint32_t *item)
{
    const char *at = memmem(line.at, line.len, "item", 4);
    if (!at)
        return false;
    at += 4;
    while (at < line.at + line.len && (*at == '"' || *at == ':' || *at == ' '))
        at++;
    *item = (uint32_t)strtoul(at, NULL, 10);
    return true;
}

static void given(struct fake_worker *w, uint32_t item)
{
    if (item >= world.scene.n_items)
        broken("item %u of %u was given", item, world.scene.n_items);
    if (world.truth->is_done[item])
        broken("item %u was given again, though its result was durable before this session", item);
    w->has[item] = true;
    w->has_answered[item] = false;
}

static void given_note(struct fake_worker *w, struct str bytes)
{
    while (bytes.len > 0) {
        const char *end = memchr(bytes.at, '\n', bytes.len);
        size_t len = end ? (size_t)(end + 1 - bytes.at) : bytes.len;
        uint32_t item;
        buf_add(&w->line, bytes.at, len);
        bytes.at += len, bytes.len -= len;
        if (!end)
            return;
        if (item_in(buf_str(&w->line), &item))
            given(w, item);
        buf_reset(&w->line);
    }
}

static void go(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (!w->is_released)
        actor_go(w);
}

enum worker_stream fake_input(void)
{
    return world.scene.kind == KIND_CHANNEL ? STREAM_CHANNEL : STREAM_IN;
}

/* A channel worker's standard input fills up. */
static ssize_t ignored_write(struct fake_worker *w, struct str bytes)
{
    size_t room = world.scene.pipe_bytes - MIN(w->n_ignored, world.scene.pipe_bytes);
    w->n_ignored += MIN(bytes.len, room);
    return (ssize_t)MIN(bytes.len, room);
}

static ssize_t fake_write(struct node_worker *worker, enum worker_stream stream, struct str bytes)
{
    struct fake_worker *w = fake_of(worker);
    if (!w->is_open[stream])
        broken("written to an input that is closed");
    if (w->state == ACTOR_DEAD || w->input_is_lost)
        return -1;
    if (stream != fake_input())
        return ignored_write(w, bytes);
    size_t room = world.scene.pipe_bytes - MIN(w->pipe.len, world.scene.pipe_bytes);
    bytes.len = MIN(bytes.len, room);
    w->waits_for_room = true;
    if (bytes.len > 0) {
        buf_add_str(&w->pipe, bytes);
        trace("worker %u is sent %.*s", w->number,
              (int)bytes.len - (bytes.at[bytes.len - 1] == '\n'), bytes.at);
        given_note(w, bytes);
        after_us(1 + below(50), go, w, 0);
    }
    return (ssize_t)bytes.len;
}

static void room_tell(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (w->is_gone || w->is_released || !w->waits_for_room || !w->is_open[fake_input()] ||
        w->state == ACTOR_DEAD)
        return;
    w->waits_for_room = false;
    w->base.handlers->writable(w->base.context, fake_input());
}

void fake_read(struct fake_worker *w)
{
    size_t len = MIN(w->pipe.len, (size_t)READ_BYTES);
    buf_add(&w->own, w->pipe.at, len);
    buf_consume(&w->pipe, len);
    w->has_read |= len > 0 && fake_input() == STREAM_IN;
    if (w->waits_for_room && len > 0)
        after_us(1 + below(50), room_tell, w, 0);
}

static void input_lost_tell(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (w->is_gone || w->is_released || !w->is_open[STREAM_IN])
        return;
    w->is_open[STREAM_IN] = false;
    w->has_told_close = true;
    w->base.handlers->closed(w->base.context, STREAM_IN);
}

static void give_up(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (w->is_released || w->state == ACTOR_DEAD)
        return;
    bool may_be_unheard = w->host > 0 && has_troubles();
    if (w->has_told_close && !w->is_told_to_end && !may_be_unheard)
        broken("worker %u closed its input, and was left alone for a minute", w->number);
    fake_die(w, 1, 0);
}

void fake_input_close(struct fake_worker *w)
{
    w->input_is_lost = true;
    after_ms(below(100), input_lost_tell, w, 0);
    after_ms(60000, give_up, w, 0);
}

static void fake_finish(struct node_worker *worker, enum worker_stream stream)
{
    struct fake_worker *w = fake_of(worker);
    w->is_open[stream] = false;
    after_us(1 + below(50), go, w, 0);
}

static bool fake_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    const struct fake_worker *w = (const struct fake_worker *)worker;
    return w->is_open[stream] && !w->is_gone;
}

/* ---- its end ---- */

/* An end that is no good one is held against all that it had. */
static void faults_note(const struct fake_worker *w)
{
    bool is_clean = w->exit.has_exited && w->exit.exit_code == 0 && w->exit.exit_signal == 0;
    world.truth->n_bad_lives += !is_clean;
    if (w->head) {
        head_faults_note(w->head);
        return;
    }
    for (uint32_t item = 0; item < world.scene.n_items; item++)
        if (w->has[item] && (!is_clean || !w->has_answered[item]))
            world.truth->faults[item]++;
}

static void gone_tell(void *context, uint64_t argument)
{
    static const enum worker_stream remaining[] = {STREAM_CHANNEL, STREAM_OUT, STREAM_ERR};
    struct fake_worker *w = context;
    (void)argument;
    if (w->is_gone || w->is_released)
        return;
    for (size_t i = 0; i < 3; i++)
        while (w->out[remaining[i]].len > 0 && !w->is_released)
            piece_deliver(w, remaining[i], 1 + below(world.scene.cut_bytes));
    trace("worker %u is gone: status %d, signal %d", w->number, w->exit.exit_code,
          w->exit.exit_signal);
    w->is_gone = true;
    w->is_open[STREAM_IN] = w->is_open[STREAM_CHANNEL] = false;
    w->base.handlers->gone(w->base.context, &w->exit);
}

void fake_die(struct fake_worker *w, int exit_code, int exit_signal)
{
    if (w->state == ACTOR_DEAD)
        return;
    trace("worker %u ends: status %d, signal %d", w->number, exit_code, exit_signal);
    w->state = ACTOR_DEAD;
    w->died_ns = world.now_ns;
    w->exit.exit_code = exit_code;
    w->exit.exit_signal = exit_signal;
    w->exit.has_exited = !chance(exit_signal == SIGKILL ? world.scene.rates.guard_lost : 0);
    locks_close(w);
    if (!w->is_hosts_fault)
        faults_note(w);
    after_us(50 + below(5000), gone_tell, w, 0);
}

static void term(void *context, uint64_t is_orphan)
{
    struct fake_worker *w = context;
    if (w->is_released == is_orphan && !w->is_deaf)
        fake_die(w, 0, SIGTERM);
}

static void kill_it(void *context, uint64_t is_orphan)
{
    struct fake_worker *w = context;
    if (w->is_released == is_orphan)
        fake_die(w, 0, SIGKILL);
}

void fake_orphan(struct fake_worker *w, bool is_at_once)
{
    w->is_released = w->is_hosts_fault = true;
    if (is_at_once) {
        fake_die(w, 0, SIGKILL);
        return;
    }
    at_place_us(NULL, below(20000), term, w, true);
    at_place_us(NULL, w->grace_ms * 1000, kill_it, w, true);
}

static void fake_end(struct node_worker *worker, enum worker_end how)
{
    struct fake_worker *w = fake_of(worker);
    if (w->head && !head_has_ended(w->head))
        w->is_hosts_fault = true;
    if (how == END_AT_ONCE) {
        after_us(below(1000), kill_it, w, 0);
    } else if (!w->is_told_to_end) {
        w->is_told_to_end = true;
        after_us(below(20000), term, w, 0);
        after_ms(w->grace_ms, kill_it, w, 0);
    }
}

static pid_t fake_pid(const struct node_worker *worker)
{
    const struct fake_worker *w = (const struct fake_worker *)worker;
    return w->is_started ? (pid_t)w->number + 100 : 0;
}

static void fake_release(struct node_worker *worker)
{
    struct fake_worker *w = fake_of(worker);
    if (!w->is_gone && w->state != ACTOR_DEAD)
        fake_die(w, 0, SIGKILL); /* its guard sees that nobody is there any more */
    w->is_released = true;
}

static void fake_hold(struct node *base, bool is_held)
{
    struct fake *node = (struct fake *)base;
    node->is_held = is_held;
    for (struct fake_worker *w = node->workers; w; w = w->next_there) {
        w->last_output_ms = world_ms();
        for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
            deliver_soon(w, stream);
    }
}

static void fake_oom_explained(struct node_worker *base)
{
    (void)base;
}

static void fake_pause(struct node_worker *base, enum worker_stream stream, bool is_paused)
{
    struct fake_worker *w = fake_of(base);
    w->is_paused[stream] = is_paused;
    if (!is_paused && !w->is_gone)
        deliver_soon(w, stream);
}

static void fake_close(struct node *base)
{
    for (struct fake_worker *w = ((struct fake *)base)->workers; w; w = w->next_there)
        if (!w->is_released)
            fake_release(&w->base);
}

/* ---- its birth ---- */

static void started(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (w->is_released || w->state == ACTOR_DEAD)
        return;
    w->is_started = true;
    w->base.handlers->started(w->base.context);
}

/* An agent's worker: it may outlive its agent. */
static void guard_take(struct fake_worker *w, const struct spawn_request *request)
{
    w->place = world.place;
    w->host = w->place->host;
    w->head = head_worker_of(request, w);
    int held[LOCK_FDS_MAX];
    size_t n_held = spawn_locks_fds(request, held);
    for (size_t i = 0; i < n_held; i++)
        w->locks[w->n_locks++] = dup(held[i]);
}

static int fake_spawn(struct node *base, const struct spawn_request *request,
                      struct node_worker **out, struct err *err)
{
    const struct scenario *scene = &world.scene;
    if (is_transport(request)) {
        *out = transport_start(request);
        return 0;
    }
    if (chance(scene->rates.no_room))
        return fail(err, ERR_STOPPED, "no more processes are allowed (invented)");
    struct fake_worker *w = xcalloc(1, sizeof(*w));
    *w = (struct fake_worker){
        .base = {&fake_ops, request->handlers, request->context, 1},
        .node = (struct fake *)base,
        .number = world.truth->n_spawns++,
        .seat_share = request->seat->share,
        .n_devices = (uint32_t)request->seat->n_devices,
        .grace_ms = request->grace_ms,
        .is_deaf = chance(scene->rates.deaf),
        .is_refused = chance(scene->rates.refused),
        .has_device_memory = scene->has_gpus,
        .is_open =
            {[STREAM_IN] = request->has_input, [STREAM_CHANNEL] = request->channel != CHANNEL_NONE},
        .last_output_ms = world_ms(),
        .state = ACTOR_LOADS,
        .born_ns = world.now_ns,
    };
    for (uint32_t i = 0; i < w->n_devices; i++)
        w->devices[i] = (uint32_t)request->seat->devices[i];
    if (world.place)
        guard_take(w, request);
    fake_place_check(w, request);
    w->next = workers;
    workers = w;
    w->next_there = w->node->workers;
    w->node->workers = w;
    trace("worker %u starts on %s of host %u%s", w->number, request->seat->label, w->host,
          w->is_refused ? ", and is refused" : "");
    w->exit.was_refused = w->is_refused;
    w->exit.exec_errno = w->is_refused ? 2 : 0;
    if (w->is_refused) {
        w->state = ACTOR_DEAD;
        w->has_device_memory = false;
        after_us(below(3000), gone_tell, w, 0);
    } else {
        after_us(below(4000), started, w, 0);
        actor_born(w, request);
    }
    *out = &w->base;
    return 0;
}

static const struct node_ops fake_ops = {.spawn = fake_spawn,
                                         .write = fake_write,
                                         .finish = fake_finish,
                                         .drop = fake_finish,
                                         .is_open = fake_is_open,
                                         .ask_read = fake_ask_read,
                                         .ask_rest = fake_ask_rest,
                                         .ask_wait = fake_ask_wait,
                                         .pause = fake_pause,
                                         .end = fake_end,
                                         .pid = fake_pid,
                                         .release = fake_release,
                                         .hold = fake_hold,
                                         .oom_explained = fake_oom_explained,
                                         .look = fake_look,
                                         .tick = fake_tick,
                                         .close = fake_close};

int __wrap_shell_node_open(struct shell *shell, struct err *err);

int __wrap_shell_node_open(struct shell *shell, struct err *err)
{
    (void)err;
    if (shell->node)
        return 0;
    shell->node = shell->machines.local = world.place ? &world.place->node.base : &local.base;
    if (world.place)
        world.place->loop = &shell->loop;
    return 0;
}
