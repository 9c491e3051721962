/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/this_host.h"
#include "base/xalloc.h"
#include "launch/master_port.h"
#include "mesh/mesh_impl.h"

enum {
    CONNECT_MS = 2500, /* for each address of rank 0 */
    OWN_NAME_MS = 1000,
    RETRY_MS = 50, /* rank 0 may not listen yet */
    ORDER_WAIT_MS = 600 * 1000
};

/* Prints lines for the process that collects the lines of all ranks. If there is none, a failure has no effect. */
void told_print(const struct buf *lines)
{
    (void)!write_all(STDOUT_FILENO, lines->at, lines->len, NULL);
}

/* addresses_resolve() with a deadline. */
static int name_look_up(const char *name, uint16_t port, uint64_t end_ms, struct address_list *list,
                        struct err *err)
{
    const struct timespec pause = {.tv_nsec = 1000000L};
    struct lookup *lookup = lookup_begin(name, port);
    int flaw = 0;
    if (!lookup)
        return fail(err, ERR_UNAVAILABLE, "no thread can be started");
    while (!lookup_is_done(lookup) && clock_now_ms() < end_ms)
        nanosleep(&pause, NULL);
    if (lookup_is_done(lookup))
        flaw = lookup_result(lookup, list, err);
    else
        flaw = fail(err, ERR_UNAVAILABLE, "no name server says what the address of %s is", name);
    lookup_forget(lookup);
    return flaw;
}

void machine_tell(const struct self *self, const struct address *own)
{
    cleanup_buf struct buf line = BUF_INIT;
    struct rank_machine machine = {.rank = self->rank, .group = self->group};
    struct address_list by_name = {0};
    struct err unknown = {0};
    char name[HOST_NAME_BYTES];
    host_name(name);
    snprintf(machine.name, sizeof(machine.name), "%.*s", (int)sizeof(machine.name) - 1, name);
    address_text(own, machine.address);
    interface_look(own, machine.interface, &machine.speed_mbit, &machine.mtu);
    if (name[0] && name_look_up(name, 0, clock_now_ms() + OWN_NAME_MS, &by_name, &unknown) == 0 &&
        by_name.len > 0)
        address_text(&by_name.at[0], machine.by_name);
    rank_machine_format(&machine, &line);
    told_print(&line);
}

/* ---- orders ---- */

/* Does the link of a pair carry bytes? A slow link does: a part of its stream came. */
static bool carries(const struct pair_result *result)
{
    bool is_slow = result->bytes == LINK_SILENT && result->n_bytes > 0;
    return result->out == LINK_FINE && (result->bytes == LINK_FINE || is_slow);
}

static bool pair_run(const struct self *self, const struct order *order,
                     const struct greeting *greeting)
{
    cleanup_buf struct buf line = BUF_INIT;
    struct pair_told told = {.from = self->rank, .to = order->to, .port = order->port};
    snprintf(told.address, sizeof(told.address), "%s", order->address);
    pair_measure(greeting, order->stream_ms, &told.result);
    pair_format(&told, &line);
    told_print(&line);
    return carries(&told.result);
}

static void sum_run(const struct self *self, const struct order *order,
                    const struct greeting *greeting)
{
    cleanup_buf struct buf line = BUF_INIT;
    struct sum_told told = {.rank = self->rank, .to = order->to, .from = order->from};
    struct ring ring = {.index = order->index, .count = order->count, .greeting = *greeting};
    ring_run(&ring, &told.result);
    sum_format(&told, &line);
    told_print(&line);
}

static void attempts_tell(const struct self *self, const struct address_scan *scan)
{
    cleanup_buf struct buf lines = BUF_INIT;
    for (size_t i = 0; i < scan->n; i++) {
        const struct attempt *attempt = &scan->attempts[i];
        struct address_told told = {
            .from = self->rank, .to = attempt->target.rank, .state = attempt->state};
        snprintf(told.address, sizeof(told.address), "%s", attempt->target.address);
        snprintf(told.interface, sizeof(told.interface), "%s", attempt->target.interface);
        if (!attempt->is_own)
            address_format(&told, &lines);
    }
    told_print(&lines);
}

static void addresses_run(const struct self *self, const struct order *order)
{
    struct address_scan scan = {.listener = self->listener,
                                .token = self->token,
                                .self = self->rank,
                                .round = order->round};
    struct str rest = order->targets;
    cleanup_free struct attempt *attempts = xcalloc(TARGETS_MAX, sizeof(*attempts));
    scan.attempts = attempts;
    while (scan.n < TARGETS_MAX && target_next(&rest, &attempts[scan.n].target))
        scan.n++;
    addresses_try(&scan);
    attempts_tell(self, &scan);
}

bool order_run(const struct self *self, const struct order *order)
{
    struct address_list list = {0};
    bool is_good = true;
    struct greeting greeting = {.listener = self->listener,
                                .token = self->token,
                                .self = self->rank,
                                .round = order->round,
                                .to = order->to,
                                .from = order->from,
                                .end_ms = clock_now_ms() + GREET_MS};
    if (address_parse(order->address, order->port, &list) && list.len > 0)
        greeting.address = list.at[0];
    if (order->kind == ORDER_PAIR)
        is_good = pair_run(self, order, &greeting);
    else if (order->kind == ORDER_RING)
        sum_run(self, order, &greeting);
    else if (order->kind == ORDER_ADDRESSES)
        addresses_run(self, order);
    return is_good;
}

/* ---- rank 0 ---- */

/* Connects to rank 0 at this address. -1: `why` has the reason. */
static int address_try(const struct self *self, const struct address *address, uint64_t end_ms,
                       struct err *why)
{
    char text[ADDRESS_TEXT_MAX];
    cleanup_fd int fd = stream_connect_begin(address);
    int sys = fd < 0 ? errno : 0;
    if (fd >= 0 && !stream_await(fd, POLLOUT, MIN(end_ms, clock_now_ms() + CONNECT_MS)))
        sys = ETIMEDOUT;
    else if (fd >= 0)
        sys = stream_connect_error(fd);
    address_text(address, text);
    if (sys)
        fail(why, ERR_UNAVAILABLE, "rank 0 is not reached at %s port %u: %s (%s)", text,
             self->master_port, link_state_text(link_state_of(sys)), errno_text(sys));
    return sys ? -1 : steal_fd(&fd);
}

/* Tries until rank 0 listens, or the time is over. */
static int hub_connect(const struct self *self, struct err *why)
{
    const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};
    uint64_t end_ms = clock_now_ms() + MEET_MS;
    struct address_list list = {0};
    int fd = -1;
    if (name_look_up(self->master_addr, self->master_port, end_ms, &list, why) != 0)
        return -1;
    while (fd < 0 && clock_now_ms() < end_ms) {
        for (size_t i = 0; fd < 0 && i < list.len; i++)
            fd = address_try(self, &list.at[i], end_ms, why);
        if (fd < 0)
            nanosleep(&pause, NULL);
    }
    return fd;
}

void absence_tell(const struct self *self, const char *why)
{
    cleanup_buf struct buf line = BUF_INIT;
    absence_format(self->rank, self->group, why, &line);
    told_print(&line);
}

static bool arrive(const struct self *self, int fd)
{
    cleanup_buf struct buf line = BUF_INIT;
    cleanup_buf struct buf addresses = BUF_INIT;
    struct arrival arrival = {.rank = self->rank,
                              .world_size = self->world_size,
                              .group = self->group,
                              .port = self->port};
    struct address own;
    if (self->local_rank == 0)
        own_addresses_add(&addresses);
    arrival.addresses = buf_str(&addresses);
    arrival_format(&arrival, self->token, &line);
    bool is_told = stream_write(fd, line.at, line.len, clock_now_ms() + CONNECT_MS) == LINK_FINE;
    if (stream_own(fd, &own))
        machine_tell(self, &own);
    return is_told;
}

static enum link_state orders_obey(const struct self *self, int fd)
{
    cleanup_buf struct buf rest = BUF_INIT;
    cleanup_buf struct buf line = BUF_INIT;
    struct order order = {0};
    enum link_state state = LINK_FINE;
    while (state == LINK_FINE && order.kind != ORDER_END) {
        state = stream_line(fd, &rest, ORDER_MAX_BYTES, &line, clock_now_ms() + ORDER_WAIT_MS);
        if (state == LINK_FINE && !order_parse(buf_str(&line), &order))
            state = LINK_STRANGER;
        if (state != LINK_FINE || order.kind == ORDER_END)
            continue;
        const char *said = order_run(self, &order) ? DONE_GOOD : DONE_BAD;
        state = stream_write(fd, said, strlen(said), clock_now_ms() + CONNECT_MS);
    }
    return state;
}

void member_run(const struct self *self)
{
    struct err why = {0};
    cleanup_fd int fd = hub_connect(self, &why);
    if (fd < 0) {
        absence_tell(self, why.text);
        return;
    }
    enum link_state state = arrive(self, fd) ? orders_obey(self, fd) : LINK_BROKEN;
    if (state != LINK_FINE) {
        cleanup_free char *text =
            xasprintf("the connection to rank 0 ended early: %s", link_state_text(state));
        absence_tell(self, text);
    }
}

/* ---- the rank ---- */

static int number_of(const char *name, uint64_t max, uint64_t *out, struct err *err)
{
    const char *text = getenv(name);
    if (!text)
        return fail(err, ERR_USAGE, "%s is not set: muster doctor --ranks starts ranks", name);
    int rc = u64_parse(str_of(text), 0, max, out, err);
    return rc ? wrap(err, rc, "%s", name) : 0;
}

static int self_read(struct self *self, struct err *err)
{
    uint64_t rank = 0, local_rank = 0, world_size = 0, group = 0, port = 0;
    int rc = number_of("RANK", UINT32_MAX, &rank, err);
    rc = rc ? rc : number_of("LOCAL_RANK", UINT32_MAX, &local_rank, err);
    rc = rc ? rc : number_of("WORLD_SIZE", UINT32_MAX, &world_size, err);
    rc = rc ? rc : number_of("GROUP_RANK", UINT32_MAX, &group, err);
    rc = rc ? rc : number_of("MASTER_PORT", UINT16_MAX, &port, err);
    self->rank = (uint32_t)rank;
    self->local_rank = (uint32_t)local_rank;
    self->world_size = (uint32_t)world_size;
    self->group = (uint32_t)group;
    self->master_port = (uint16_t)port;
    self->master_addr = getenv("MASTER_ADDR");
    self->token = getenv("TORCHELASTIC_RUN_ID");
    if (rc == 0 && (!self->master_addr || !self->token || rank >= world_size))
        return fail(err, ERR_USAGE, "the environment of a rank is not whole");
    return rc;
}

int mesh_run(bool is_quiet, struct err *err)
{
    struct self self = {.is_quiet = is_quiet, .listener = -1};
    struct address own = {0};
    int rc = self_read(&self, err);
    rc = rc ? rc : master_port_listen(&(struct master_port){0}, &self.listener, err);
    if (rc)
        return rc;
    self.port = stream_own(self.listener, &own) ? address_port(&own) : 0;
    (void)fcntl(self.listener, F_SETFL, O_NONBLOCK);
    if (self.rank == 0)
        hub_run(&self);
    else
        member_run(&self);
    fd_close(&self.listener);
    return 0;
}
