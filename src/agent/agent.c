/* SPDX-License-Identifier: Apache-2.0
 *
 * An agent's stream, its devices, and its end.
 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "agent/kept.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "node/hello.h"
#include "proc/front.h"
#include "slurm/job.h"
#include "version.h"

enum {
    SCRATCH_BYTES = 256 * 1024,
    READS_AT_ONCE = 4,
    GREETING_LIMIT_MS = 60000, /* for the head's hello; then the head's own limit counts */
    KEEPER_GRACE_MS = 30000,
    TOUCH_S = 3600,
    TRY_PAUSE_MS = 2000 /* between two tries to take devices, with --wait */
};

void agent_send(struct agent *agent, enum frame_type type, uint32_t id, unsigned stream,
                struct str body)
{
    link_send(&agent->link, &(struct frame){type, (uint8_t)stream, id, body});
}

void agent_break(struct agent *agent, const struct frame *frame, const char *why)
{
    struct err err = {0};
    fail(&err, ERR_DATA, "the head sent a %s %s", frame_name(frame->type), why);
    link_break(&agent->link, &err);
}

void agent_error_send(struct agent *agent, enum frame_type type, uint32_t id, const struct err *why)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct err copy = *why;
    wire_error(&body, &copy);
    agent_send(agent, type, id, 0, buf_str(&out));
}

static struct scratch_owner scratch_owner(const struct agent *agent)
{
    return (struct scratch_owner){.head = agent->head,
                                  .run = agent->run ? agent->run : "",
                                  .keep_ms = agent->link.silence_limit_ms};
}

int agent_scratch_take(struct agent *agent, struct err *err)
{
    const struct scratch_owner owner = scratch_owner(agent);
    return scratch_take(&agent->scratch, &owner, shell_reaper(agent->shell), err);
}

void agent_run_name(struct agent *agent, const char *run)
{
    if (agent->run)
        return;
    agent->run = xstrdup(run);
    const struct scratch_owner owner = scratch_owner(agent);
    scratch_sweep(&agent->scratch, &owner);
}

/* ---- devices ---- */

static void on_sampled(void *context, const struct device_sample *sample)
{
    struct agent *agent = context;
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct device_sample copy = *sample;
    wire_sample(&body, &copy);
    agent_send(agent, FRAME_SAMPLE, WIRE_NO_WORKER, 0, buf_str(&out));
}

/* Nothing to do: the samples tell the head that the device is lost. */
static void on_lost(void *context, uint32_t chosen, bool is_awaited)
{
    (void)context, (void)chosen, (void)is_awaited;
}

static void on_back(void *context, uint32_t first)
{
    (void)context, (void)first;
}

/* Nothing to do: the samples tell the head how much memory is free. */
static void on_memory_back(void *context, uint32_t seat)
{
    (void)context, (void)seat;
}

/*
 * Sends the seats and the devices that were taken. A seat names a device by its position among the devices in this
 * message.
 */
static void taken_send(struct agent *agent, uint32_t part)
{
    const struct allocation *a = &agent->allocation;
    const struct allocation_host *of = &a->hosts[part];
    struct device_list chosen =
        device_list_pick(&a->devices, a->chosen + of->first_chosen, of->n_chosen);
    cleanup_free struct seat *seats = xcalloc(of->n_seats + 1, sizeof(*seats));
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    for (uint32_t i = 0; i < of->n_seats; i++) {
        seats[i] = a->seats[of->first_seat + i];
        for (size_t d = 0; d < seats[i].n_devices; d++)
            seats[i].devices[d] = allocation_position(a, seats[i].devices[d]) - of->first_chosen;
    }
    struct wire_taken taken = {.devices = chosen.at,
                               .seats = seats,
                               .n_devices = (uint32_t)chosen.len,
                               .n_seats = of->n_seats,
                               .n_cpus = processors_allowed(),
                               .distance = chosen.distance};
    snprintf(taken.program, sizeof(taken.program), "%s", shell_self_path(agent->shell));
    snprintf(taken.place, sizeof(taken.place), "%s", agent->presence.place);
    wire_taken(&body, &taken);
    agent_send(agent, FRAME_TAKEN, WIRE_NO_WORKER, 0, buf_str(&out));
    device_list_release(&chosen);
}

/* Sets PWD too, because some programs read it instead of asking the system. */
static bool folder_set(const char *folder)
{
    bool is_there = chdir(folder) == 0;
    if (is_there)
        setenv("PWD", folder, 1);
    return is_there;
}

/* Devices have become free, and the agent has taken them. */
static void on_came(void *context, uint32_t part)
{
    struct agent *agent = context;
    shell_files_allow(agent->shell, agent->allocation.n_seats);
    taken_send(agent, part);
}

static const struct device_handlers device_handlers = {.sampled = on_sampled,
                                                       .lost = on_lost,
                                                       .back = on_back,
                                                       .memory_back = on_memory_back,
                                                       .came = on_came};

/* Lets workers start in the folder of the head, if this machine has a folder of that name. */
static void folder_enter(struct agent *agent, const char *folder)
{
    cleanup_free char *own = path_cwd();
    if (folder[0] && folder_set(folder))
        agent->cwd = xstrdup(folder);
    else if (folder[0])
        log_add(shell_log(agent->shell), LOG_WARN, "agent",
                "the folder %s is not there; workers start in %s", folder,
                own ? own : "another one");
}

static int devices_take(struct agent *agent, struct err *err)
{
    struct shell *shell = agent->shell;
    const struct wire_take *take = &agent->take;
    const struct allocation_holder holder = {
        .self_path = shell_self_path(shell),
        .run_id = take->run_id[0] ? take->run_id : NULL, /* it may have no folder yet */
        .log = shell_log(shell)};
    agent->wish =
        (struct allocation_wish){.gpus = take->gpus[0] ? take->gpus : NULL,
                                 .gpus_per_worker = take->gpus_per_worker,
                                 .workers_per_gpu = take->workers_per_gpu,
                                 .visible = take->visible,
                                 .without_devices = strcmp(take->gpus, WISH_NO_DEVICES) == 0};
    int rc = allocation_take(&agent->allocation, &agent->wish, &holder, err);
    if (rc)
        return rc;
    allocation_spare(&agent->allocation);
    agent_presence_take(agent);
    if (holder.run_id)
        shell_run_id_set(shell, holder.run_id);
    shell_files_allow(shell, agent->allocation.n_seats);
    shell_keeper_start(shell, &agent->allocation, agent->mark, KEEPER_GRACE_MS);
    agent->watch = device_watch_new(shell, &agent->allocation, &device_handlers, agent);
    device_watch_begin(agent->watch);
    agent->has_devices = true;
    return 0;
}

void agent_locks_sign(struct agent *agent, const char *run_id)
{
    const char *known = shell_run_id(agent->shell);
    if (known && strcmp(known, run_id) == 0)
        return;
    shell_run_id_set(agent->shell, run_id);
    device_locks_sign(&agent->allocation.locks, run_id);
}

/* Tries to take the devices. The loop turns between two tries, so that the end of the head is noticed. */
static void devices_try(struct agent *agent)
{
    struct err err = {0};
    int rc = devices_take(agent, &err);
    uint64_t now_ms = clock_now_ms();
    bool may_wait = rc == ERR_UNAVAILABLE && now_ms < agent->tries.until_ms;
    agent->tries.at_ms = may_wait ? now_ms + TRY_PAUSE_MS : 0;
    agent->link.heard_ms =
        now_ms; /* the time of looking at devices does not count as silence of the head */
    if (rc == 0) {
        taken_send(agent, 0);
        link_flush(&agent->link, now_ms);
        const struct scratch_owner owner = scratch_owner(agent);
        scratch_sweep(&agent->scratch, &owner);
    } else if (!may_wait) {
        agent_error_send(agent, FRAME_REFUSED, WIRE_NO_WORKER, &err);
    }
}

/* ---- frames about no worker ---- */

static void take_hello(struct agent *agent, const struct frame *frame)
{
    struct wire_hello hello;
    struct err err = {0};
    const struct hello_facts own = {MUSTER_VERSION, agent->program.hash, 0};
    if (hello_read(frame->body, &own, &hello, &err) != 0) {
        link_break(&agent->link, &err);
        return;
    }
    agent->was_greeted = true;
    agent->head = xasprintf("%s %lu", hello.host, hello.pid);
    agent->link.silence_limit_ms = MAX(hello.silence_limit_ms, (uint64_t)1000);
}

/* The head asks for more devices: takes those that have become free. If none has, the agent sends no answer. */
static void take_more(struct agent *agent)
{
    if (!agent->grow)
        agent->grow = grow_new(agent->shell, &agent->allocation, &agent->wish);
    if (agent->grow)
        grow_look(agent->grow);
}

static void take_devices(struct agent *agent, const struct frame *frame)
{
    struct wire_body body = wire_body_of(frame->body);
    struct err err = {0};
    wire_take(&body, &agent->take);
    if (!wire_body_is_whole(&body) || agent->was_asked) {
        agent_break(agent, frame, "that is malformed");
        return;
    }
    agent->was_asked = true;
    agent->tries.until_ms = clock_now_ms() + agent->take.wait_ms;
    folder_enter(agent, agent->take.cwd);
    int rc = agent->take.program[0] ? program_check(agent->take.program, &err) : 0;
    if (rc == 0 && agent->take.script[0])
        rc = script_check(agent->take.script, &err);
    if (rc)
        agent_error_send(agent, FRAME_REFUSED, WIRE_NO_WORKER, &err); /* waiting would not help */
    else
        devices_try(agent);
}

static void on_frame(void *context, const struct frame *frame)
{
    struct agent *agent = context;
    bool is_of_worker = frame->worker != WIRE_NO_WORKER;
    if (!agent->was_greeted && frame->type == FRAME_HELLO)
        take_hello(agent, frame);
    else if (agent->has_devices && frame->type == FRAME_TAKE)
        take_more(agent);
    else if (agent->was_greeted && frame->type == FRAME_TAKE)
        take_devices(agent, frame);
    else if (agent->has_devices && frame_is_of_files(frame->type))
        agent_files_frame(agent, frame);
    else if (agent->has_devices && is_of_worker)
        agent_worker_frame(agent, frame);
    else
        agent_break(agent, frame, "that was not expected");
}

/* The head has gone, or this agent must end: ends the workers. */
static void leave(struct agent *agent)
{
    if (agent->is_over)
        return;
    agent->is_over = true;
    uv_poll_stop(&agent->in_poll);
    uv_poll_stop(&agent->out_poll);
    agent_workers_end(agent, END_POLITELY);
}

/* ---- the stream ---- */

static ssize_t on_write(void *context, struct str bytes)
{
    struct agent *agent = context;
    ssize_t put;
    do
        put = write(STDOUT_FILENO, bytes.at, bytes.len);
    while (put < 0 && errno == EINTR);
    if (put < 0 && errno != EAGAIN)
        return -1;
    agent->out_waits = put < (ssize_t)bytes.len;
    return MAX(put, (ssize_t)0);
}

static void on_has_room(void *context)
{
    agent_workers_resume(context);
    agent_files_resume(context);
}

static const struct link_handlers link_handlers = {
    .write = on_write, .frame = on_frame, .has_room = on_has_room};

/* Returns false if the head has closed its end, or if there is no more to read for now. */
static bool stream_read(struct agent *agent)
{
    static char scratch[SCRATCH_BYTES];
    struct err err = {0};
    ssize_t got = read(STDIN_FILENO, scratch, sizeof(scratch));
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (got > 0) {
        link_feed(&agent->link, (struct str){scratch, (size_t)got}, clock_now_ms());
    } else {
        fail(&err, ERR_UNAVAILABLE, "the head has closed the connection");
        link_break(&agent->link, &err);
    }
    return got == (ssize_t)sizeof(scratch);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct agent *agent = poll->data;
    (void)status, (void)events;
    for (int i = 0; i < READS_AT_ONCE && !link_is_broken(&agent->link); i++)
        if (!stream_read(agent))
            break;
    if (link_is_broken(&agent->link)) /* checked at once: perhaps nothing else wakes the loop */
        leave(agent);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct agent *agent = poll->data;
    (void)status, (void)events;
    agent->out_waits = false;
    uv_poll_stop(poll);
    link_flush(&agent->link, clock_now_ms());
}

static int stream_open(struct agent *agent, struct err *err)
{
    uv_loop_t *loop = shell_uv_loop(agent->shell);
    fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
    int sys = -uv_poll_init(loop, &agent->in_poll, STDIN_FILENO);
    if (sys == 0)
        sys = -uv_poll_init(loop, &agent->out_poll, STDOUT_FILENO);
    if (sys)
        return fail(err, ERR_USAGE, "its standard streams are no pipes: %s", errno_text(sys));
    agent->in_poll.data = agent->out_poll.data = agent;
    uv_timer_init(loop, &agent->look_timer);
    uv_poll_start(&agent->in_poll, UV_READABLE, on_readable);
    return 0;
}

/* ---- the run ---- */

/*
 * The agent reports its own end before the ends of its workers, so that the head charges no item with those. A signal
 * often means that the head has left and its transport is being ended: then nobody reads the report.
 */
void agent_end_now(struct agent *agent)
{
    struct err why = {0};
    fail(&why, ERR_UNAVAILABLE, "its agent was told to end");
    agent_error_send(agent, agent->has_devices ? FRAME_FAILED : FRAME_REFUSED, WIRE_NO_WORKER,
                     &why);
    link_flush(&agent->link, clock_now_ms()); /* without a worker the loop does not run again */
    leave(agent);
}

/*
 * Slurm sends TERM some time before it kills a job: at a preemption with a grace time, and at the time limit. The
 * agent then tells the head, which leaves this host at once, or when the workers have finished their items. Outside
 * of Slurm, TERM goes to all processes of a session or of a unit, also to the workers, or somebody wants the agent to
 * end: then the agent ends.
 */
static void on_stop(void *context, enum shell_stop how)
{
    struct agent *agent = context;
    bool ends_soon = shell_end(agent->shell)->signal == SIGTERM && slurm_job_own() > 0;
    if (how == STOP_KILL && agent->is_over)
        agent_workers_end(agent, END_AT_ONCE);
    else if (how == STOP_KILL || !ends_soon || !agent->has_devices || agent->is_over)
        agent_end_now(agent);
    else {
        agent->is_draining = true;
        agent_send(agent, FRAME_DRAINING, WIRE_NO_WORKER, 0, STR(""));
    }
}

static void on_tick(void *context)
{
    struct agent *agent = context;
    uint64_t now_ms = clock_now_ms();
    link_tick(&agent->link, now_ms);
    if (agent->tries.at_ms > 0 && now_ms >= agent->tries.at_ms && !agent->is_over)
        devices_try(agent);
    if (agent->watch)
        device_watch_check(agent->watch);
    if (agent->has_devices && !agent->is_over)
        agent_presence_tick(agent);
}

static void on_second(void *context)
{
    struct agent *agent = context;
    if (agent->watch)
        device_watch_renew(agent->watch);
    if (agent->program.is_kept && ++agent->program.n_seconds % TOUCH_S == 0)
        kept_touch(shell_self_path(agent->shell));
}

static void on_look(uv_timer_t *timer)
{
    (void)timer; /* the timer only wakes the loop: on_before_sleep() looks */
}

static void on_before_sleep(void *context)
{
    struct agent *agent = context;
    uint64_t look_ms = node_look(shell_node(agent->shell)), now_ms = clock_now_ms();
    if (look_ms == UINT64_MAX)
        uv_timer_stop(&agent->look_timer);
    else
        uv_timer_start(&agent->look_timer, on_look, look_ms > now_ms ? look_ms - now_ms : 0, 0);
    link_flush(&agent->link, now_ms);
    if (link_is_broken(&agent->link))
        leave(agent);
    else if (agent->out_waits)
        uv_poll_start(&agent->out_poll, UV_WRITABLE, on_writable);
}

static const struct shell_verb agent_shell = {.name = "agent",
                                              .says_why_it_ends = true,
                                              .stop = on_stop,
                                              .tick = on_tick,
                                              .each_second = on_second,
                                              .before_sleep = on_before_sleep};

static int begin(struct agent *agent, struct err *err)
{
    struct shell *shell = agent->shell;
    cleanup_buf struct buf hello = BUF_INIT;
    int rc = program_hash(agent->program.hash, err);
    if (rc == 0)
        rc = shell_begin_bare(shell, err);
    if (rc == 0)
        rc = stream_open(agent, err);
    if (rc == 0)
        rc = shell_loop_begin(shell, err);
    if (rc)
        return rc;
    link_begin(&agent->link, &link_handlers, agent, GREETING_LIMIT_MS, clock_now_ms());
    hello_write(&hello, &(struct hello_facts){MUSTER_VERSION, agent->program.hash, 0});
    agent_send(agent, FRAME_HELLO, WIRE_NO_WORKER, 0, buf_str(&hello));
    return 0;
}

/* Logs why the link broke. Nothing is logged if the head has closed the stream, which is how a head leaves. */
static void reason_log(const struct agent *agent)
{
    bool has_left = agent->was_greeted && agent->link.broken.code == ERR_UNAVAILABLE &&
                    !agent->link.reader.is_broken && agent->n_alive == 0;
    if (agent->link.broken.code && !has_left)
        log_add(shell_log(agent->shell), LOG_WARN, "agent", "%s", agent->link.broken.text);
}

int agent_run(struct log *log, const char *self_path, const struct agent_request *request,
              struct err *err)
{
    struct agent agent = {.scratch = SCRATCH_INIT};
    agent.shell = shell_new(&(struct shell_setup){
        .verb = &agent_shell, .context = &agent, .log = log, .self_path = self_path});
    agent.mark = xasprintf("MUSTER_AGENT=%d-%lx", getpid(), clock_now_ns());
    if (request->folder) { /* the agent was started from the folder in which its program is kept */
        unsetenv("OLDPWD");
        if (!folder_set(request->folder))
            (void)folder_set("/");
        agent.program.is_kept = true;
        kept_touch(self_path);
    }
    int rc = begin(&agent, err);
    while (rc == 0 && (!agent.is_over || agent.n_alive > 0))
        shell_turn(agent.shell);
    grow_end(agent.grow);
    if (rc == 0) {
        reason_log(&agent);
        shell_reap(agent.shell);
    }
    device_watch_end(agent.watch);
    agent_workers_free(&agent);
    scratch_close(&agent.scratch, agent_files_free(&agent));
    shell_close(agent.shell);
    device_watch_free(agent.watch);
    grow_free(agent.grow);
    link_release(&agent.link);
    allocation_release(&agent.allocation);
    free(agent.shares.at);
    free(agent.cwd);
    free(agent.mark);
    free(agent.head);
    free(agent.run);
    shell_free(agent.shell);
    return rc;
}
