/* SPDX-License-Identifier: Apache-2.0
 *
 * The node under the agent: workers that follow their script, whose pipes are small.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "device/driver_probe.h"
#include "shell/shell_impl.h"
#include "sim/protocol/protocol.h"

enum {
    PIPE_BYTES = 16000,
    PIECE_BYTES = 7000, /* what is more than credit allows lies within the last one */
    LINGERS_MS = 1300   /* so that samples and pings are on the way as well */
};

struct script_worker {
    struct node_worker base;
    struct script_worker *next;
    enum script script;
    struct buf in, out[WORKER_STREAMS];
    bool is_open[WORKER_STREAMS], is_paused[WORKER_STREAMS], delivers[WORKER_STREAMS];
    bool closes; /* its channel, behind its output */
    bool waits_for_room, has_finished, is_dead, is_gone, is_released;
    struct worker_exit exit;
};

static const struct node_ops script_ops;
static struct script_worker *all;

void pattern_add(size_t n_bytes, struct buf *out)
{
    buf_reserve(out, n_bytes);
    for (size_t n = 0; n < n_bytes; n++)
        buf_add_char(out, (char)(n * 31 + n / 251));
}

void scripts_begin(void)
{
    while (all) {
        struct script_worker *w = all;
        all = w->next;
        buf_release(&w->in);
        for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
            buf_release(&w->out[stream]);
        free(w);
    }
}

void scripts_check(void)
{
    for (const struct script_worker *w = all; w; w = w->next)
        if (!w->is_dead || !w->is_released)
            broken("a worker with script %d %s", (int)w->script,
                   w->is_dead ? "was not given back" : "lives on");
}

static struct script_worker *script_of(struct node_worker *worker)
{
    return (struct script_worker *)worker;
}

/* ---- what it prints ---- */

static void gone_tell(struct script_worker *w)
{
    if (w->is_gone || w->is_released)
        return;
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
        if (w->out[stream].len > 0)
            return; /* its output comes first */
    w->is_gone = true;
    w->base.handlers->gone(w->base.context, &w->exit);
}

static void end_well(void *context, uint64_t exit_code);

static void channel_close(struct script_worker *w)
{
    w->closes = false;
    w->is_open[STREAM_CHANNEL] = false;
    w->base.handlers->closed(w->base.context, STREAM_CHANNEL);
    after_us(100, end_well, w, 3);
}

static void deliver(void *context, uint64_t stream)
{
    struct script_worker *w = context;
    char piece[PIECE_BYTES];
    size_t len = MIN(w->out[stream].len, sizeof(piece));
    w->delivers[stream] = false;
    if (w->is_released || w->is_gone || (w->is_paused[stream] && !w->is_dead))
        return;
    memcpy(piece, w->out[stream].at, len);
    buf_consume(&w->out[stream], len);
    if (len > 0)
        w->base.handlers->output(w->base.context, (enum worker_stream)stream,
                                 (struct str){piece, len});
    if (w->out[stream].len > 0 && !w->delivers[stream]) {
        w->delivers[stream] = true;
        after_us(10, deliver, w, stream);
        return;
    }
    if (w->closes && stream == STREAM_CHANNEL)
        channel_close(w);
    if (w->is_dead)
        gone_tell(w);
}

static void print(struct script_worker *w, enum worker_stream stream, struct str bytes)
{
    buf_add_str(&w->out[stream], bytes);
    if (!w->delivers[stream])
        after_us(10, deliver, w, stream);
    w->delivers[stream] = true;
}

/* In a long session more than may be on its way at once. */
static void much_print(struct script_worker *w, enum worker_stream stream)
{
    if (play.is_long)
        pattern_add(LONG_BYTES, &w->out[stream]);
    print(w, stream, STR("and no more\n"));
}

/* ---- its end ---- */

static void end_tell(void *context, uint64_t argument)
{
    (void)argument;
    gone_tell(context);
}

static void die(struct script_worker *w, int exit_code, int exit_signal)
{
    if (w->is_dead)
        return;
    w->is_dead = true;
    w->exit = (struct worker_exit){.has_exited = true,
                                   .exit_code = exit_code,
                                   .exit_signal = exit_signal,
                                   .rss_peak_bytes = 4096};
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
        if (w->out[stream].len > 0)
            after_us(10, deliver, w, stream);
    after_us(50, end_tell, w, 0);
}

static void end_well(void *context, uint64_t exit_code)
{
    die(context, (int)exit_code, 0);
}

static void end_badly(void *context, uint64_t exit_signal)
{
    die(context, 0, (int)exit_signal);
}

static void finished(void *context, uint64_t argument)
{
    struct script_worker *w = context;
    (void)argument;
    if (w->is_dead || w->in.len > 0 || w->has_finished)
        return;
    w->has_finished = true;
    if (w->script == SCRIPT_ECHO) {
        print(w, STREAM_OUT, STR("and no more\n"));
        after_ms(LINGERS_MS, end_well, w, 0);
    } else if (w->script == SCRIPT_CHANNEL) {
        after_us(100, end_well, w, 3);
    }
}

/* ---- what it reads ---- */

static void work(void *context, uint64_t argument)
{
    struct script_worker *w = context;
    (void)argument;
    if (w->is_dead || w->is_released)
        return;
    enum worker_stream stream = w->script == SCRIPT_CHANNEL ? STREAM_CHANNEL : STREAM_IN;
    if (w->in.len > 0 && w->script <= SCRIPT_CHANNEL)
        print(w, w->script == SCRIPT_CHANNEL ? STREAM_CHANNEL : STREAM_OUT, buf_str(&w->in));
    bool is_last = play.is_long && w->script == SCRIPT_CHANNEL && w->in.len > 0 &&
                   memmem(w->in.at, w->in.len, "m2", 2);
    buf_reset(&w->in);
    if (is_last) {
        w->closes = true;
        much_print(w, STREAM_CHANNEL);
        return;
    }
    if (w->waits_for_room && w->is_open[stream]) {
        w->waits_for_room = false;
        w->base.handlers->writable(w->base.context, stream);
    }
    if (!w->is_open[stream])
        finished(w, 0);
}

static ssize_t script_write(struct node_worker *worker, enum worker_stream stream, struct str bytes)
{
    struct script_worker *w = script_of(worker);
    if (!w->is_open[stream])
        broken("written to a stream that is closed");
    if (w->is_dead)
        return -1;
    bytes.len = MIN(bytes.len, PIPE_BYTES - MIN(w->in.len, (size_t)PIPE_BYTES));
    w->waits_for_room = true;
    buf_add_str(&w->in, bytes);
    after_us(200, work, w, 0);
    return (ssize_t)bytes.len;
}

static void script_finish(struct node_worker *worker, enum worker_stream stream)
{
    struct script_worker *w = script_of(worker);
    w->is_open[stream] = false;
    after_us(100, work, w, 0);
}

static bool script_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    const struct script_worker *w = (const struct script_worker *)worker;
    return w->is_open[stream] && !w->is_gone;
}

static void fact_tell(void *context, uint64_t fact)
{
    struct script_worker *w = context;
    if (!w->is_dead && !w->is_released)
        w->base.handlers->input(w->base.context, (enum input_fact)fact);
}

static void script_ask_read(struct node_worker *worker, bool is_asked)
{
    if (is_asked)
        after_us(500, fact_tell, worker, INPUT_READ);
}

static void script_ask_rest(struct node_worker *worker, uint64_t pause_max_ms)
{
    if (pause_max_ms > 0)
        after_us(500, fact_tell, worker, INPUT_RESTS);
}

static void script_ask_wait(struct node_worker *worker, bool is_asked)
{
    if (is_asked)
        after_us(500, fact_tell, worker, INPUT_WAITS);
}

static void stand_tell(void *context, uint64_t unused)
{
    struct script_worker *w = context;
    const struct proc_stand stand = {.cpu_ms = 7, .pid = 4711, .state = 'S', .place = "sleeps"};
    (void)unused;
    if (!w->is_dead && !w->is_released && w->base.handlers->stands)
        w->base.handlers->stands(w->base.context, &stand);
}

static void script_ask_stand(struct node_worker *worker, uint64_t every_ms)
{
    if (every_ms > 0)
        after_us(500, stand_tell, worker, 0);
}

static void where_tell(void *context, uint64_t unused)
{
    struct script_worker *w = context;
    (void)unused;
    if (!w->is_dead && !w->is_released && w->base.handlers->where)
        w->base.handlers->where(w->base.context, STR("pid 4711: cat sleeps\n"));
}

static void script_ask_where(struct node_worker *worker)
{
    after_us(500, where_tell, worker, 0);
}

static void script_pause(struct node_worker *worker, enum worker_stream stream, bool is_paused)
{
    struct script_worker *w = script_of(worker);
    w->is_paused[stream] = is_paused;
    if (!is_paused && !w->delivers[stream]) {
        w->delivers[stream] = true;
        after_us(10, deliver, w, stream);
    }
}

static void script_end(struct node_worker *worker, enum worker_end how)
{
    after_us(500, end_badly, script_of(worker), how == END_AT_ONCE ? SIGKILL : SIGTERM);
}

static pid_t script_pid(const struct node_worker *worker)
{
    return 1000 + (pid_t)((const struct script_worker *)worker)->script;
}

static void script_release(struct node_worker *worker)
{
    struct script_worker *w = script_of(worker);
    if (!w->is_gone)
        w->is_dead = true; /* its guard sees that nobody is there any more */
    w->is_released = true;
}

static void script_explained(struct node_worker *worker)
{
    if (!script_of(worker)->is_gone)
        broken("the reason of a death that has not been told");
}

static uint64_t script_look(struct node *node)
{
    (void)node;
    return UINT64_MAX;
}

static void script_tick(struct node *node)
{
    (void)node;
}

static void script_close(struct node *node)
{
    (void)node;
    for (struct script_worker *w = all; w; w = w->next)
        if (!w->is_released)
            script_release(&w->base);
}

/* ---- its birth ---- */

static void last_print(void *context, uint64_t argument)
{
    (void)argument;
    print(context, STREAM_OUT, STR("last words\n"));
}

static void started(void *context, uint64_t argument)
{
    struct script_worker *w = context;
    (void)argument;
    if (w->is_released || w->is_dead)
        return;
    w->base.handlers->started(w->base.context);
    print(w, STREAM_ERR, STR("it has started\n"));
    if (w->script != SCRIPT_CLOSES)
        return;
    w->is_open[STREAM_IN] = false;
    w->base.handlers->closed(w->base.context, STREAM_IN);
    much_print(w, STREAM_OUT);
    after_ms(5, last_print, w, 0);
    after_ms(20, end_badly, w, SIGKILL);
}

/* Those of a wild head may have any words. */
static enum script script_named(const char *const *argv)
{
    return argv[0] && argv[1] ? (enum script)(strtoul(argv[1], NULL, 10) % SCRIPTS) : SCRIPT_ECHO;
}

static int script_spawn(struct node *node, const struct spawn_request *request,
                        struct node_worker **out, struct err *err)
{
    (void)node, (void)err;
    struct script_worker *w = xcalloc(1, sizeof(*w));
    *w = (struct script_worker){
        .base = {&script_ops, request->handlers, request->context, 1},
        .next = all,
        .script = script_named(request->argv),
        .is_open = {
            [STREAM_IN] = request->has_input, [STREAM_CHANNEL] = request->channel != CHANNEL_NONE}};
    all = w;
    *out = &w->base;
    after_us(300, started, w, 0);
    if (w->script == SCRIPT_REFUSED) {
        w->is_dead = true;
        w->exit = (struct worker_exit){.was_refused = true, .exec_errno = ENOEXEC};
        after_us(300, end_tell, w, 0);
    }
    return 0;
}

static const struct node_ops script_ops = {.spawn = script_spawn,
                                           .write = script_write,
                                           .finish = script_finish,
                                           .drop = script_finish,
                                           .is_open = script_is_open,
                                           .ask_read = script_ask_read,
                                           .ask_rest = script_ask_rest,
                                           .ask_wait = script_ask_wait,
                                           .ask_stand = script_ask_stand,
                                           .ask_where = script_ask_where,
                                           .pause = script_pause,
                                           .end = script_end,
                                           .pid = script_pid,
                                           .release = script_release,
                                           .oom_explained = script_explained,
                                           .look = script_look,
                                           .tick = script_tick,
                                           .close = script_close};

/* ---- what fake_agent.c asks of a node ---- */

void fake_node_init(struct fake *node)
{
    *node = (struct fake){.base = {&script_ops}};
}

struct fake_worker *fake_workers(void)
{
    return NULL;
}

void fake_orphan(struct fake_worker *w, bool is_at_once)
{
    (void)w, (void)is_at_once;
}

int __wrap_shell_node_open(struct shell *shell, struct err *err);

int __wrap_shell_node_open(struct shell *shell, struct err *err)
{
    (void)err;
    shell->node = &world.place->node.base;
    world.place->loop = &shell->loop;
    return 0;
}

/* ---- devices with samples ---- */

int __wrap_probe_universe(const struct probe_opts *opts, const struct device_spec *spec,
                          struct device_list *out, struct buf *notes, struct err *err);

int __wrap_probe_universe(const struct probe_opts *opts, const struct device_spec *spec,
                          struct device_list *out, struct buf *notes, struct err *err)
{
    (void)opts, (void)spec, (void)notes, (void)err;
    *out = (struct device_list){xcalloc(2, sizeof(struct device)), 2, NULL};
    for (int i = 0; i < 2; i++) {
        device_reset(&out->at[i], DEVICE_CPU, i);
        out->at[i].index = i;
        snprintf(out->at[i].uuid, sizeof(out->at[i].uuid), "slot-%d", i);
    }
    return 0;
}

struct monitor {
    bool has_told;
};
static struct monitor the_monitor;

int __wrap_monitor_open(struct monitor **out, const struct probe_opts *opts,
                        const struct device_list *devices, uint64_t period_ms, struct err *err);
int __wrap_monitor_fd(const struct monitor *monitor);
pid_t __wrap_monitor_pid(const struct monitor *monitor);
size_t __wrap_monitor_read(struct monitor *monitor, struct device_sample *out, size_t cap);
void __wrap_monitor_hurry(struct monitor *monitor);
void __wrap_monitor_close(struct monitor *monitor);

int __wrap_monitor_open(struct monitor **out, const struct probe_opts *opts,
                        const struct device_list *devices, uint64_t period_ms, struct err *err)
{
    (void)opts, (void)devices, (void)period_ms, (void)err;
    *out = &the_monitor;
    return 0;
}

int __wrap_monitor_fd(const struct monitor *monitor)
{
    (void)monitor;
    return 1000000;
}

pid_t __wrap_monitor_pid(const struct monitor *monitor)
{
    (void)monitor;
    return -1;
}

size_t __wrap_monitor_read(struct monitor *monitor, struct device_sample *out, size_t cap)
{
    monitor->has_told = !monitor->has_told;
    if (cap == 0 || !monitor->has_told)
        return 0;
    *out =
        (struct device_sample){.device = 0, .mem_used_bytes = 1 << 20, .mem_total_bytes = 1 << 30};
    return 1;
}

/* Samples come when they come. */
void __wrap_monitor_hurry(struct monitor *monitor)
{
    (void)monitor;
}

void __wrap_monitor_close(struct monitor *monitor)
{
    (void)monitor;
}
