/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/shell/fake_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/xalloc.h"
#include "device/lock.h"

enum {
    STACK_BYTES = 256 * 1024,
    CROWD_WEIGHED = 64 /* hosts at most, if memory is to be told */
};

static struct place *all;
static ucontext_t at_world; /* the world's own stack, while a place runs */
static struct stack {
    struct stack *next;
} * free_stacks;

struct place *places(void)
{
    return all;
}

uint32_t agents_alive(void)
{
    uint32_t n = 0;
    for (const struct place *place = all; place; place = place->next)
        n += place->state != PLACE_ENDED;
    return n;
}

/* ---- stacks ---- */

static void *stack_take(void)
{
    struct stack *stack = free_stacks;
    if (stack) {
        free_stacks = stack->next;
        return stack;
    }
    void *at = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        broken("no memory for the stack of an agent");
    return at;
}

static void stack_give(void *at)
{
    struct stack *stack = at;
    stack->next = free_stacks;
    free_stacks = stack;
}

/* ---- what a crowd costs ---- */

static struct {
    uint64_t begin_ns, agents_ns;
    size_t begin_bytes, agents_bytes, most_bytes;
    uint64_t filled_ms; /* the last worker was started, in the world's time */
} costs;

static uint64_t processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* To ask takes long where there are many. */
static size_t heap_bytes(void)
{
    if (world.crowd > CROWD_WEIGHED)
        return 0;
    struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

/* The agent's turn has cost so much. */
static void cost_add(uint64_t begin_ns, size_t begin_bytes)
{
    size_t bytes = heap_bytes();
    static uint32_t n_before;
    costs.agents_ns += processor_ns() - begin_ns;
    costs.filled_ms = world.truth->n_spawns != n_before ? world_ms() : costs.filled_ms;
    n_before = world.truth->n_spawns;
    costs.agents_bytes += bytes - begin_bytes;
    costs.most_bytes = MAX(costs.most_bytes, bytes - costs.begin_bytes - costs.agents_bytes);
}

void crowd_print(FILE *out)
{
    fprintf(
        out,
        "%u hosts, %u seats: all workers were started by %lu ms; %lu ms of processor time and %zu "
        "MiB at most, without the agents'\n",
        world.scene.hosts.n, world.scene.n_seats, costs.filled_ms,
        (processor_ns() - costs.begin_ns - costs.agents_ns) / 1000000, costs.most_bytes >> 20);
}

/* ---- a session ---- */

void places_begin(void)
{
    while (all) {
        struct place *place = all;
        all = place->next;
        if (place->stack)
            stack_give(place->stack);
        buf_release(&place->in);
        free(place->context);
        free(place);
    }
    if (world.crowd > 0) {
        memset(&costs, 0, sizeof(costs));
        costs.begin_ns = processor_ns();
        costs.begin_bytes = heap_bytes();
    }
}

void place_leave_stack(void)
{
    if (world.place && world.place->state == PLACE_RUNS)
        swapcontext(world.place->context, &at_world);
}

/* ---- a process ---- */

static void place_main(void)
{
    struct place *place = world.place;
    struct log log = LOG_INIT;
    struct err err = {0};
    int rc = agent_run(&log, "/invented/muster", &(struct agent_request){0}, &err);
    place->state = PLACE_ENDED;
    place->locks = NULL;
    trace("agent %u on host %u has ended%s%s", place->number, place->host, rc ? ": " : "",
          rc ? err.text : "");
    link_end(place, rc < 0 ? err_exit_status(rc) : rc);
    swapcontext(place->context, &at_world);
}

/* ---- turns ---- */

static void place_run(struct place *place)
{
    struct place *here = world.place;
    uint64_t begin_ns = world.crowd > 0 ? processor_ns() : 0;
    size_t begin_bytes = world.crowd > 0 ? heap_bytes() : 0;
    place->state = PLACE_RUNS;
    place->is_due = false;
    world.place = place;
    swapcontext(&at_world, place->context);
    world.place = here;
    if (world.crowd > 0)
        cost_add(begin_ns, begin_bytes);
    if (world.truth->is_broken)
        longjmp(world.give_up, 1);
    if (place->state == PLACE_ENDED && place->stack) {
        stack_give(place->stack);
        place->stack = NULL;
    }
}

void place_touch(struct place *place)
{
    place->is_due |= !place->naps;
}

void place_turn(struct place *place)
{
    if (place->state == PLACE_SLEEPS && place->is_due)
        place_run(place);
}

struct place *place_start(uint32_t host, struct transport *transport)
{
    struct place *place = xcalloc(1, sizeof(*place));
    ucontext_t *context = xcalloc(1, sizeof(*context));
    *place = (struct place){.next = all,
                            .number = all ? all->number + 1 : 0,
                            .host = host,
                            .begin_ms = world_ms(),
                            .transport = transport,
                            .stack = stack_take(),
                            .context = context};
    all = place;
    fake_node_init(&place->node);
    getcontext(context);
    context->uc_stack.ss_sp = place->stack;
    context->uc_stack.ss_size = STACK_BYTES;
    makecontext(context, place_main, 0);
    trace("agent %u starts on host %u", place->number, host);
    place_run(place);
    return place;
}

/* What an agent had: its workers, and its locks but for those that guards have too. */
static void left_end(struct place *place, bool is_at_once)
{
    for (struct fake_worker *w = place->node.workers; w; w = w->next_there)
        if (!w->is_released || is_at_once)
            fake_orphan(w, is_at_once);
    if (place->locks)
        device_locks_release(place->locks);
    place->locks = NULL;
}

static void place_end(struct place *place, bool is_at_once)
{
    if (place->state == PLACE_ENDED)
        return;
    place->state = PLACE_ENDED;
    left_end(place, is_at_once);
    if (place->stack)
        stack_give(place->stack);
    place->stack = NULL;
}

void place_kill(struct place *place)
{
    if (place->state == PLACE_ENDED)
        return;
    trace("agent %u on host %u is killed", place->number, place->host);
    place_end(place, false);
    link_end(place, 137);
}

void places_down(uint32_t host)
{
    for (struct place *place = all; place; place = place->next)
        if (place->host == host)
            place_end(place, true);
    for (struct fake_worker *w = fake_workers(); w; w = w->next)
        if (w->host == host)
            fake_orphan(w, true);
}

void place_signal(struct place *place, int number)
{
    struct place *here = world.place;
    if (place->state == PLACE_ENDED || !place->loop)
        return;
    trace("signal %d for agent %u on host %u", number, place->number, place->host);
    world.place = place;
    uv_raise(place->loop, number);
    world.place = here;
    place_touch(place);
    place_turn(place);
}

/* ---- time ---- */

/* Unless something else has waked it, and it sleeps anew. */
static void time_is_up(void *context, uint64_t n_sleeps)
{
    struct place *place = context;
    place->is_due |= place->n_sleeps == n_sleeps;
}

bool is_wake(future_fn *fn)
{
    return fn == time_is_up;
}

void agent_sleep(uint64_t due_ns)
{
    struct place *place = world.place;
    uint64_t left_ns = due_ns > world.now_ns ? due_ns - world.now_ns : 0;
    place->n_sleeps++;
    if (due_ns != UINT64_MAX)
        after_us((left_ns + 999) / 1000, time_is_up, place, place->n_sleeps);
    place->state = PLACE_SLEEPS;
    swapcontext(place->context, &at_world);
    place->state = PLACE_RUNS;
}

/* ---- its standard streams ---- */

bool agent_stream_is_ready(int fd)
{
    const struct place *place = world.place;
    if (!place || fd < 0 || fd >= STREAMS_AGENT)
        return false;
    bool has_input = place->in.len > 0 || place->has_input_ended;
    return fd == STDIN_FILENO ? has_input : link_has_space(place);
}

ssize_t __real_read(int fd, void *at, size_t n);
ssize_t __wrap_read(int fd, void *at, size_t n);
ssize_t __real_write(int fd, const void *at, size_t n);
ssize_t __wrap_write(int fd, const void *at, size_t n);
int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

ssize_t __wrap_read(int fd, void *at, size_t n)
{
    struct place *place = world.place;
    if (!place || fd != STDIN_FILENO)
        return __real_read(fd, at, n);
    if (place->in.len == 0 && !place->has_input_ended) {
        errno = EAGAIN;
        return -1;
    }
    size_t most = 1 + below(4 * world.scene.cut_bytes), len = MIN(MIN(n, place->in.len), most);
    memcpy(at, place->in.at, len);
    buf_consume(&place->in, len);
    link_taken(place, len);
    return (ssize_t)len;
}

ssize_t __wrap_write(int fd, const void *at, size_t n)
{
    struct place *place = world.place;
    if (!place || fd != STDOUT_FILENO)
        return __real_write(fd, at, n);
    ssize_t put = link_put(place, (struct str){at, n});
    if (put <= 0)
        errno = put < 0 ? EPIPE : EAGAIN;
    return put > 0 ? put : -1;
}

/* The simulator's own streams stay as they are. */
int __wrap_fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    return world.place && fd < STREAMS_AGENT ? 0 : __real_fcntl64(fd, command, argument);
}

/* ---- its devices ---- */

int __real_device_locks_take(struct device_locks *locks, const struct device_list *devices,
                             const size_t *chosen, size_t n_chosen, const char *run,
                             struct err *err);
int __wrap_device_locks_take(struct device_locks *locks, const struct device_list *devices,
                             const size_t *chosen, size_t n_chosen, const char *run,
                             struct err *err);

int __wrap_device_locks_take(struct device_locks *locks, const struct device_list *devices,
                             const size_t *chosen, size_t n_chosen, const char *run,
                             struct err *err)
{
    int rc = __real_device_locks_take(locks, devices, chosen, n_chosen, run, err);
    if (rc == 0 && world.place)
        world.place->locks = locks;
    return rc;
}

/* ---- the Slurm job it is in ---- */

uint64_t __wrap_slurm_job_own(void);
uint64_t __wrap_slurm_job_own(void)
{
    return world.place && world.scene.hosts.links[world.place->host].is_in_job;
}
