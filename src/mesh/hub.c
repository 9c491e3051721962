/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank 0 waits for the other ranks, gives them orders round by round, and takes part in the rounds.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/talk.h"
#include "base/xalloc.h"
#include "launch/master_port.h"
#include "mesh/mesh_impl.h"

enum {
    PENDING_MAX = 1024, /* connections that have not told their rank yet */
    WRITE_MS = 1000,
    /* Time beyond that of rounds on links without faults. Each closed link makes its round some seconds longer. */
    TOTAL_EXTRA_MS = 60000,
    SAID_FROM_MS = 3000, /* measurements that take longer are announced */
    STREAM_WITHIN_MS = 40,
    STREAM_BETWEEN_MS = 150
};

struct member {
    int fd; /* -1: the member is not here */
    struct buf rest;
    uint32_t group;
    uint16_t port;
    struct address address,
        hub; /* hub: of rank 0, as the member sees it; address: of the member, as rank 0 does */
    bool is_here, is_busy;
    bool has_bad_link;    /* in this round */
    struct buf addresses; /* of its host; only one rank of each host has them */
};

struct hub {
    const struct self *self;
    struct member *members; /* [world_size]; 0 is rank 0 itself */
    uint32_t *present;      /* [n_present], ascending */
    uint32_t n_present;
    uint64_t end_ms;
    struct pair_plan plan;
    size_t n_left_out;
    bool is_ring_broken; /* a link between two neighbours carries nothing */
};

/* ---- who comes ---- */

/* A connection whose other end has not said yet which rank it is. */
struct pending {
    int fd;
    struct buf said;
};

struct door {
    struct hub *hub;
    int listener;
    struct pending pending[PENDING_MAX];
    size_t n;
};

static void pending_drop(struct door *door, size_t i, bool is_closed)
{
    buf_release(&door->pending[i].said);
    if (is_closed)
        close(door->pending[i].fd);
    door->pending[i] = door->pending[--door->n];
}

static bool arrival_take(struct hub *hub, const struct pending *pending)
{
    struct arrival arrival;
    struct str line = buf_str(&pending->said);
    line.len -= 1; /* the newline */
    bool is_it = arrival_parse(line, hub->self->token, &arrival) && arrival.rank > 0 &&
                 arrival.rank < hub->self->world_size &&
                 arrival.world_size == hub->self->world_size && !hub->members[arrival.rank].is_here;
    if (!is_it)
        return false;
    struct member *member = &hub->members[arrival.rank];
    member->fd = pending->fd;
    member->group = arrival.group;
    member->port = arrival.port;
    buf_add_str(&member->addresses, arrival.addresses);
    member->is_here =
        stream_peer(member->fd, &member->address) && stream_own(member->fd, &member->hub);
    hub->n_present += member->is_here;
    return member->is_here;
}

static void pending_look(struct door *door, size_t i)
{
    struct pending *pending = &door->pending[i];
    char bytes[ARRIVAL_MAX_BYTES];
    ssize_t got = recv(pending->fd, bytes, sizeof(bytes), 0);
    if (got > 0)
        buf_add(&pending->said, bytes, (size_t)got);
    bool has_line = pending->said.len > 0 && pending->said.at[pending->said.len - 1] == '\n';
    if (got <= 0 || pending->said.len > ARRIVAL_MAX_BYTES)
        pending_drop(door, i, true);
    else if (has_line)
        pending_drop(door, i, !arrival_take(door->hub, pending));
}

/* If there are too many pending connections, the oldest one is dropped. */
static void pending_admit(struct door *door)
{
    int fd = stream_accept(door->listener);
    if (fd < 0)
        return;
    if (door->n == PENDING_MAX)
        pending_drop(door, 0, true);
    door->pending[door->n++] = (struct pending){.fd = fd};
}

static void door_wait(struct door *door, uint64_t end_ms)
{
    struct pollfd at[PENDING_MAX + 1];
    size_t n = door->n;
    uint64_t now_ms = clock_now_ms();
    for (size_t i = 0; i < n; i++)
        at[i] = (struct pollfd){.fd = door->pending[i].fd, .events = POLLIN};
    at[n] = (struct pollfd){.fd = door->listener, .events = POLLIN};
    if (now_ms >= end_ms || poll(at, n + 1, (int)(end_ms - now_ms)) <= 0)
        return;
    for (size_t i = n; i-- > 0;)
        if (at[i].revents)
            pending_look(door, i);
    if (at[n].revents)
        pending_admit(door);
}

static int gather(struct hub *hub, struct err *err)
{
    struct door door = {.hub = hub, .listener = -1};
    uint64_t end_ms = clock_now_ms() + MEET_MS;
    int rc = master_port_listen(&(struct master_port){.port = hub->self->master_port},
                                &door.listener, err);
    if (rc)
        return rc;
    (void)fcntl(door.listener, F_SETFL, O_NONBLOCK);
    hub->n_present = 1;
    while (hub->n_present < hub->self->world_size && clock_now_ms() < end_ms)
        door_wait(&door, end_ms);
    while (door.n > 0)
        pending_drop(&door, 0, true);
    fd_close(&door.listener);
    return 0;
}

/* ---- orders ---- */

static void member_disconnect(struct member *member)
{
    fd_close(&member->fd);
    member->is_here = member->is_busy = false;
}

/* Sends an order to a member. Rank 0 does not send to itself: it carries out its own order later. */
static void order_give(struct hub *hub, uint32_t rank, const struct order *order)
{
    cleanup_buf struct buf line = BUF_INIT;
    struct member *member = &hub->members[rank];
    if (rank == 0 || !member->is_here)
        return;
    order_format(order, &line);
    if (stream_write(member->fd, line.at, line.len, clock_now_ms() + WRITE_MS) != LINK_FINE)
        member_disconnect(member);
    else
        member->is_busy = order->kind != ORDER_END;
}

static void member_hear(struct member *member)
{
    char bytes[64];
    ssize_t got = recv(member->fd, bytes, sizeof(bytes), 0);
    if (got <= 0) {
        member_disconnect(member);
        return;
    }
    buf_add(&member->rest, bytes, (size_t)got);
    if (memchr(member->rest.at, '\n', member->rest.len)) {
        member->is_busy = false;
        member->has_bad_link = !str_equal(buf_str(&member->rest), STR(DONE_GOOD));
        buf_reset(&member->rest);
    }
}

/* Waits until all members have reported. A member that does not report in time is lost. */
static void busy_await(struct hub *hub, uint64_t end_ms)
{
    cleanup_free struct pollfd *at = xcalloc(hub->self->world_size, sizeof(*at));
    bool is_any = true;
    while (is_any) {
        uint64_t now_ms = clock_now_ms();
        is_any = false;
        for (uint32_t i = 0; i < hub->self->world_size; i++) {
            at[i] = (struct pollfd){.fd = hub->members[i].is_busy ? hub->members[i].fd : -1,
                                    .events = POLLIN};
            is_any = is_any || at[i].fd >= 0;
        }
        if (is_any)
            (void)poll(at, hub->self->world_size, now_ms < end_ms ? (int)(end_ms - now_ms) : 0);
        for (uint32_t i = 0; i < hub->self->world_size; i++) {
            if (at[i].fd >= 0 && at[i].revents)
                member_hear(&hub->members[i]);
            else if (at[i].fd >= 0 && now_ms >= end_ms)
                member_disconnect(&hub->members[i]);
        }
    }
}

/* ---- where ranks reach each other ---- */

static bool is_loopback(const struct address *address)
{
    char text[ADDRESS_TEXT_MAX];
    address_text(address, text);
    return strncmp(text, "127.", 4) == 0 || strcmp(text, "::1") == 0;
}

/*
 * The address at which rank `a` reaches rank `b`: the one from which `b` has connected to rank 0. For rank 0 itself,
 * the address to which `a` has connected. If the address of `b` is a loopback address and `a` is on another machine,
 * any other address of the machine of `b`.
 */
static const struct address *address_for(const struct hub *hub, uint32_t a, uint32_t b)
{
    const struct member *from = &hub->members[a], *to = &hub->members[b];
    if (b == 0)
        return &from->hub;
    if (from->group == to->group || !is_loopback(&to->address))
        return &to->address;
    if (to->group == hub->members[0].group && a > 0)
        return &from->hub;
    for (uint32_t i = 0; i < hub->n_present; i++) {
        const struct member *other = &hub->members[hub->present[i]];
        if (other->group == to->group && hub->present[i] > 0 && !is_loopback(&other->address))
            return &other->address;
    }
    return &to->address;
}

static struct order order_to(const struct hub *hub, enum order_kind kind, uint32_t round,
                             uint32_t self, uint32_t to)
{
    struct order order = {.kind = kind, .round = round, .to = to, .from = to};
    address_text(address_for(hub, self, to), order.address);
    order.port = hub->members[to].port;
    return order;
}

/* ---- rounds ---- */

static void pair_begin(struct hub *hub, const struct plan_pair *pair, struct order *own)
{
    const uint32_t ranks[] = {hub->present[pair->a], hub->present[pair->b]};
    const struct member *a = &hub->members[ranks[0]], *b = &hub->members[ranks[1]];
    if (!a->is_here || !b->is_here) {
        hub->n_left_out++;
        return;
    }
    for (size_t i = 0; i < countof(ranks); i++) {
        struct order order = order_to(hub, ORDER_PAIR, pair->round, ranks[i], ranks[!i]);
        order.stream_ms = a->group == b->group ? STREAM_WITHIN_MS : STREAM_BETWEEN_MS;
        order_give(hub, ranks[i], &order);
        if (ranks[i] == 0)
            *own = order;
    }
}

static void pair_end(struct hub *hub, const struct plan_pair *pair)
{
    const struct member *a = &hub->members[hub->present[pair->a]];
    const struct member *b = &hub->members[hub->present[pair->b]];
    bool are_neighbours = pair->b - pair->a == 1 || pair->b - pair->a == hub->n_present - 1;
    bool is_bad = !a->is_here || !b->is_here || a->has_bad_link || b->has_bad_link;
    hub->is_ring_broken = hub->is_ring_broken || (are_neighbours && is_bad);
}

/* Measures the pairs of one round. Returns the position of the first pair of the next round. */
static size_t round_run(struct hub *hub, size_t begin)
{
    const struct pair_plan *plan = &hub->plan;
    struct order own = {.kind = ORDER_END};
    uint64_t end_ms = clock_now_ms() + PAIR_MAX_MS;
    size_t i = begin;
    for (; i < plan->len && plan->at[i].round == plan->at[begin].round; i++)
        pair_begin(hub, &plan->at[i], &own);
    hub->members[0].has_bad_link = !order_run(hub->self, &own);
    busy_await(hub, end_ms);
    for (size_t k = begin; k < i; k++)
        pair_end(hub, &plan->at[k]);
    return i;
}

static void rounds_run(struct hub *hub)
{
    size_t i = 0;
    while (i < hub->plan.len && clock_now_ms() < hub->end_ms)
        i = round_run(hub, i);
    hub->n_left_out += hub->plan.len - i;
}

/* ---- other addresses ---- */

/* Adds the addresses of the host of `to`, without the one at which `self` reaches `to` already. */
static void targets_add(const struct hub *hub, uint32_t self, uint32_t to, struct buf *out)
{
    const struct member *member = &hub->members[to];
    struct str rest = buf_str(&member->addresses), entry, address;
    char used[ADDRESS_TEXT_MAX];
    address_text(address_for(hub, self, to), used);
    while (rest.len > 0 && str_next(&rest, ',', &entry)) {
        struct target target = {.rank = to, .port = member->port};
        if (!str_next(&entry, '/', &address) || str_equal(address, str_of(used)))
            continue;
        snprintf(target.address, sizeof(target.address), "%.*s", (int)address.len, address.at);
        snprintf(target.interface, sizeof(target.interface), "%.*s", (int)entry.len, entry.at);
        buf_add_text(out, out->len > 0 ? "," : "");
        target_format(&target, out);
    }
}

/* Makes the list of addresses that each rank must try. Returns false if all lists are empty. */
static bool targets_find(const struct hub *hub, struct buf *targets)
{
    bool any = false;
    for (uint32_t i = 0; i < hub->n_present; i++)
        for (uint32_t k = 0; k < hub->n_present; k++) {
            const struct member *from = &hub->members[hub->present[i]];
            const struct member *to = &hub->members[hub->present[k]];
            if (from->group == to->group || from->addresses.len == 0 || !from->is_here)
                continue;
            targets_add(hub, hub->present[i], hub->present[k], &targets[i]);
            any = any || targets[i].len > 0;
        }
    return any;
}

/* One rank of each host tries the addresses of all others. */
static void addresses_run(struct hub *hub)
{
    struct buf *targets = xcalloc(hub->n_present + 1, sizeof(*targets));
    struct order own = {.kind = ORDER_END};
    uint64_t end_ms = clock_now_ms() + ADDRESSES_MS + WRITE_MS;
    bool any = targets_find(hub, targets);
    for (uint32_t i = 0; any && i < hub->n_present; i++) {
        struct order order = {
            .kind = ORDER_ADDRESSES, .round = hub->plan.n_rounds, .targets = buf_str(&targets[i])};
        if (hub->members[hub->present[i]].addresses.len > 0)
            order_give(hub, hub->present[i], &order);
        if (hub->present[i] == 0)
            own = order;
    }
    (void)order_run(hub->self, &own);
    busy_await(hub, end_ms);
    for (uint32_t i = 0; i < hub->n_present; i++)
        buf_release(&targets[i]);
    free(targets);
}

/* ---- the sum ---- */

static void sum_run(struct hub *hub)
{
    struct order own = {.kind = ORDER_END};
    uint32_t *there = hub->present, count = 0;
    uint64_t end_ms = clock_now_ms() + RING_MAX_MS;
    for (uint32_t i = 0; i < hub->n_present; i++)
        if (hub->members[there[i]].is_here)
            there[count++] = there[i];
    for (uint32_t i = 0; i < count; i++) {
        struct order order =
            order_to(hub, ORDER_RING, hub->plan.n_rounds + 1, there[i], there[(i + 1) % count]);
        order.from = there[(i + count - 1) % count];
        order.index = i;
        order.count = count;
        order_give(hub, there[i], &order);
        if (there[i] == 0)
            own = order;
    }
    (void)order_run(hub->self, &own);
    busy_await(hub, end_ms + WRITE_MS);
}

/* ---- the check ---- */

static void own_place_tell(const struct hub *hub)
{
    const struct member *seen = NULL;
    struct address_list list = {0};
    for (uint32_t i = 1; i < hub->self->world_size; i++) {
        const struct member *member = &hub->members[i];
        bool is_better = !seen || (seen->group == hub->self->group && member->group != seen->group);
        if (member->is_here && is_better)
            seen = member;
    }
    if (!seen)
        (void)address_parse("127.0.0.1", 0, &list);
    machine_tell(hub->self, seen ? &seen->hub : &list.at[0]);
}

static void plan_begin(struct hub *hub)
{
    cleanup_free uint32_t *host_of = xcalloc(hub->n_present + 1, sizeof(*host_of));
    uint32_t n = 0;
    for (uint32_t i = 0; i < hub->self->world_size; i++)
        if (hub->members[i].is_here)
            hub->present[n++] = i;
    hub->n_present = n;
    for (uint32_t i = 0; i < n; i++)
        host_of[i] = hub->members[hub->present[i]].group;
    pair_plan_make(host_of, n, &hub->plan);
    hub->end_ms = clock_now_ms() + 2 * hub->plan.about_ms + TOTAL_EXTRA_MS;
    if (!hub->self->is_quiet && hub->plan.about_ms >= SAID_FROM_MS) {
        char about[24];
        duration_format(about, hub->plan.about_ms);
        talk("doctor: %zu of %zu pairs of %u ranks are measured, which takes about %s",
             hub->plan.len, hub->plan.n_possible, n, about);
    }
}

static void hub_close(struct hub *hub)
{
    for (uint32_t i = 0; i < hub->self->world_size; i++) {
        order_give(hub, i, &(struct order){.kind = ORDER_END});
        fd_close(&hub->members[i].fd);
        buf_release(&hub->members[i].rest);
        buf_release(&hub->members[i].addresses);
    }
    pair_plan_release(&hub->plan);
    free(hub->members);
    free(hub->present);
}

static void check_run(struct hub *hub)
{
    cleanup_buf struct buf line = BUF_INIT;
    own_place_tell(hub);
    plan_begin(hub);
    rounds_run(hub);
    addresses_run(hub);
    if (!hub->is_ring_broken)
        sum_run(hub);
    pair_plan_format(&hub->plan, hub->n_left_out, hub->is_ring_broken, &line);
    told_print(&line);
}

void hub_run(const struct self *self)
{
    struct hub hub = {.self = self,
                      .members = xcalloc(self->world_size, sizeof(*hub.members)),
                      .present = xcalloc(self->world_size, sizeof(*hub.present))};
    struct err why = {0};
    (void)open_files_allow(self->world_size + PENDING_MAX + 64);
    for (uint32_t i = 0; i < self->world_size; i++)
        hub.members[i].fd = -1;
    hub.members[0].is_here = true;
    hub.members[0].group = self->group;
    hub.members[0].port = self->port;
    own_addresses_add(&hub.members[0].addresses);
    if (gather(&hub, &why) == 0)
        check_run(&hub);
    else
        absence_tell(self, why.text);
    hub_close(&hub);
}
