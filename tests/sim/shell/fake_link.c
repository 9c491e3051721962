/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams between muster and agents. A transport is a process of muster's machine, like ssh: it reaches its host
 * after a while, or not; it has two ways, on which bytes travel in order; it ends when the agent does.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "sim/shell/fake_agent.h"

enum {
    CONNECT_LIMIT_MS = 15000, /* ssh's ConnectTimeout, as muster sets it */
    PIECES_MAX = 64,          /* of what arrives at once */
    NARROW_BYTES_PER_MS = 1
};

struct packet {
    struct packet *next;
    uint64_t arrives_ns;
    struct str bytes; /* behind it */
    bool is_end;
    int status; /* of the agent, at the end of the way to muster */
};

struct way {
    struct packet *first, *last;
    size_t n_bytes; /* sent, and not read */
    uint64_t free_ns, last_ns;
    bool is_shut; /* nothing is sent any more */
};

struct transport {
    struct node_worker base;
    struct transport *next;
    uint32_t host, number;
    struct place *agent; /* NULL: it is not reached, or gone */
    struct way there, back;
    bool is_gone, is_released, is_dying, waits_for_room, has_input;
    struct worker_exit exit;
};

static const struct node_ops transport_ops;
static struct transport *all;

static void way_forget(struct way *way)
{
    while (way->first) {
        struct packet *packet = way->first;
        way->first = packet->next;
        free(packet);
    }
    *way = (struct way){.is_shut = true};
}

void links_begin(void)
{
    while (all) {
        struct transport *transport = all;
        all = transport->next;
        way_forget(&transport->there);
        way_forget(&transport->back);
        free(transport);
    }
}

static const struct scenario_link *link_of(const struct transport *t)
{
    return &world.scene.hosts.links[t->host];
}

/* ---- ways ---- */

static void there_arrives(void *context, uint64_t argument);
static void back_arrives(void *context, uint64_t argument);

static bool is_there(const struct transport *t, const struct way *way)
{
    return way == &t->there;
}

static void arrival_plan(struct transport *t, const struct way *way, uint64_t at_ns)
{
    uint64_t us = (at_ns - MIN(at_ns, world.now_ns) + 999) / 1000;
    if (is_there(t, way))
        at_place_us(t->agent, us, there_arrives, t, 0);
    else
        at_place_us(NULL, us, back_arrives, t, 0);
}

/* The bytes of a packet are lost, repeated or changed. */
static void packet_spoil(struct packet *packet)
{
    char *at = (char *)(packet + 1);
    size_t len = packet->bytes.len, byte = below(len);
    trace("a byte of %zu is spoiled", len);
    if (chance(333)) {
        memmove(at + byte, at + byte + 1, len - byte - 1);
        packet->bytes.len--;
    } else if (chance(500)) {
        at[byte] ^= (char)(1 << below(8));
    } else {
        memmove(at + byte + 1, at + byte, len - byte - 1); /* the last one makes room */
    }
}

static void packet_send(struct transport *t, struct way *way, struct str bytes, bool is_end,
                        int status)
{
    const struct scenario_link *link = link_of(t);
    struct packet *packet = xcalloc(1, sizeof(*packet) + bytes.len);
    bool is_narrow = is_in_trouble(t->host, TROUBLE_NARROW);
    uint64_t rate = is_narrow ? NARROW_BYTES_PER_MS : link->bytes_per_ms;
    way->free_ns = MAX(way->free_ns, world.now_ns) + bytes.len * 1000000 / rate;
    uint64_t travel_us = link->latency_us + below(link->jitter_us + 1);
    way->last_ns = MAX(way->last_ns, way->free_ns + travel_us * 1000);
    *packet = (struct packet){.arrives_ns = way->last_ns,
                              .bytes = {(char *)(packet + 1), bytes.len},
                              .is_end = is_end,
                              .status = status};
    if (bytes.len > 0)
        memcpy(packet + 1, bytes.at, bytes.len);
    if (bytes.len > 0 && is_in_trouble(t->host, TROUBLE_SPOILED) && chance(300))
        packet_spoil(packet);
    if (way->last)
        way->last->next = packet;
    else
        way->first = packet;
    way->last = packet;
    way->n_bytes += packet->bytes.len;
    arrival_plan(t, way, packet->arrives_ns);
}

/* What is due, unless the host is cut off: then it comes when it can be reached again. */
static struct packet *packet_take(struct transport *t, struct way *way)
{
    struct packet *packet = way->first;
    if (!packet || packet->arrives_ns > world.now_ns)
        return NULL;
    uint64_t until_ms = trouble_until_ms(t->host, TROUBLE_CUT);
    if (is_in_trouble(t->host, TROUBLE_CUT)) {
        if (until_ms != UINT64_MAX)
            arrival_plan(t, way, world.begin_ns + (until_ms + 1) * 1000000);
        return NULL;
    }
    way->first = packet->next;
    if (!way->first)
        way->last = NULL;
    return packet;
}

/* ---- the transport's process ---- */

static void gone_tell(void *context, uint64_t argument)
{
    struct transport *t = context;
    (void)argument;
    if (t->is_gone || t->is_released)
        return;
    t->is_gone = true;
    trace("the transport to host %u is gone: status %d, signal %d", t->host, t->exit.exit_code,
          t->exit.exit_signal);
    t->base.handlers->gone(t->base.context, &t->exit);
}

/* The other end reads the end of its input, when it can be reached. */
static void transport_die(struct transport *t, int exit_code, int exit_signal, bool is_noticed)
{
    if (t->is_dying)
        return;
    t->is_dying = true;
    t->exit = (struct worker_exit){
        .has_exited = true, .exit_code = exit_code, .exit_signal = exit_signal};
    if (!t->there.is_shut && is_noticed)
        packet_send(t, &t->there, (struct str){0}, true, 0);
    t->there.is_shut = true;
    way_forget(&t->back);
    if (t->agent)
        t->agent->transport = is_noticed ? NULL : t->agent->transport;
    at_place_us(NULL, 50 + below(3000), gone_tell, t, 0);
}

/* ssh says on its standard error why it ends. */
static void transport_fail(struct transport *t, const char *words, bool is_noticed)
{
    if (t->is_dying)
        return;
    if (!t->is_released)
        t->base.handlers->output(t->base.context, STREAM_ERR, str_of(words));
    transport_die(t, 255, 0, is_noticed);
}

static void transport_kill(void *context, uint64_t signal)
{
    transport_die(context, 0, (int)signal, true);
}

void transports_kill(void)
{
    for (struct transport *t = all; t; t = t->next) {
        t->is_released = true;
        transport_die(t, 0, SIGTERM, true);
    }
}

/* ---- to muster ---- */

static void pieces_tell(struct transport *t, struct str bytes)
{
    size_t most = MAX(world.scene.cut_bytes, bytes.len / PIECES_MAX);
    while (bytes.len > 0 && !t->is_released) {
        size_t piece = 1 + below(most), len = MIN(bytes.len, piece);
        t->base.handlers->output(t->base.context, STREAM_OUT, (struct str){bytes.at, len});
        bytes.at += len, bytes.len -= len;
    }
}

static void back_arrives(void *context, uint64_t argument)
{
    struct transport *t = context;
    struct packet *packet;
    (void)argument;
    while (!t->is_dying && (packet = packet_take(t, &t->back)) != NULL) {
        t->back.n_bytes -= packet->bytes.len;
        bool is_end = packet->is_end;
        int status = packet->status;
        pieces_tell(t, packet->bytes);
        free(packet);
        if (t->agent)
            at_place_us(t->agent, 1, there_arrives, t, 0); /* it has room */
        if (is_end)
            transport_die(t, status, 0, true);
    }
}

/* ---- to the agent ---- */

static void room_tell(void *context, uint64_t argument)
{
    struct transport *t = context;
    (void)argument;
    if (t->is_dying || t->is_released || !t->waits_for_room)
        return;
    t->waits_for_room = false;
    t->base.handlers->writable(t->base.context, STREAM_IN);
}

static void there_arrives(void *context, uint64_t argument)
{
    struct transport *t = context;
    struct packet *packet;
    (void)argument;
    while (t->agent && (packet = packet_take(t, &t->there)) != NULL) {
        if (t->agent->state != PLACE_ENDED)
            buf_add_str(&t->agent->in, packet->bytes);
        else
            t->there.n_bytes -= packet->bytes.len;
        t->agent->has_input_ended |= packet->is_end;
        free(packet);
    }
}

void link_taken(struct place *place, size_t n_bytes)
{
    struct transport *t = place->transport;
    if (!t)
        return;
    t->there.n_bytes -= MIN(n_bytes, t->there.n_bytes);
    if (t->waits_for_room)
        at_place_us(NULL, link_of(t)->latency_us + 1, room_tell, t, 0);
}

static size_t space(const struct transport *t, const struct way *way)
{
    size_t room = link_of(t)->room_bytes;
    return room - MIN(way->n_bytes, room);
}

bool link_has_space(const struct place *place)
{
    const struct transport *t = place->transport;
    return !t || t->back.is_shut || space(t, &t->back) > 0;
}

ssize_t link_put(struct place *place, struct str bytes)
{
    struct transport *t = place->transport;
    if (!t)
        return -1;
    if (t->back.is_shut) /* into the void: the host does not know yet that nobody is there */
        return (ssize_t)bytes.len;
    bytes.len = MIN(bytes.len, space(t, &t->back));
    if (bytes.len > 0)
        packet_send(t, &t->back, bytes, false, 0);
    return (ssize_t)bytes.len;
}

void link_end(struct place *place, int status)
{
    struct transport *t = place->transport;
    place->transport = NULL;
    if (!t || t->back.is_shut)
        return;
    packet_send(t, &t->back, (struct str){0}, true, status);
    t->back.is_shut = true;
}

void link_down(uint32_t host)
{
    for (struct transport *t = all; t; t = t->next) {
        if (t->host != host || t->is_dying)
            continue;
        way_forget(&t->there);
        if (chance(500)) /* the rest is silence */
            way_forget(&t->back);
        else
            transport_fail(t, "Connection reset by peer\n", true);
    }
}

void link_reset(uint32_t host)
{
    for (struct transport *t = all; t; t = t->next)
        if (t->host == host && t->agent)
            transport_fail(t, "client_loop: send disconnect: Broken pipe\n", chance(700));
}

/* ---- reaching the host ---- */

static void connected(void *context, uint64_t argument)
{
    static const char banner[] = "Welcome to this host.\nThere is no \001muster here.\n";
    struct transport *t = context;
    (void)argument;
    if (t->is_dying)
        return;
    if (is_in_trouble(t->host, TROUBLE_DOWN) || is_in_trouble(t->host, TROUBLE_CUT)) {
        transport_fail(t, "connect to host: Connection timed out\n", false);
        return;
    }
    if (link_of(t)->has_banner)
        packet_send(t, &t->back, STR(banner), false, 0);
    t->agent = place_start(t->host, t);
    for (const struct packet *packet = t->there.first; packet; packet = packet->next)
        arrival_plan(t, &t->there, packet->arrives_ns);
}

bool is_transport(const struct spawn_request *request)
{
    return strcmp(request->argv[0], "reach") == 0;
}

struct node_worker *transport_start(const struct spawn_request *request)
{
    struct transport *t = xcalloc(1, sizeof(*t));
    *t = (struct transport){.base = {&transport_ops, request->handlers, request->context, 1},
                            .next = all,
                            .number = all ? all->number + 1 : 0,
                            .host = (uint32_t)strtoul(request->argv[1] + 1, NULL, 10)};
    all = t;
    bool is_away = is_in_trouble(t->host, TROUBLE_DOWN) || is_in_trouble(t->host, TROUBLE_CUT);
    uint64_t ms = link_of(t)->start_ms;
    trace("a transport to host %u starts", t->host);
    if (is_away)
        ms = chance(500) ? 200 + below(3000) : CONNECT_LIMIT_MS;
    at_place_us(NULL, ms * 1000 + 2 * link_of(t)->latency_us + below(1000), connected, t, 0);
    return &t->base;
}

/* ---- as a worker of muster's machine ---- */

static struct transport *transport_of(struct node_worker *worker)
{
    return (struct transport *)worker;
}

static ssize_t transport_write(struct node_worker *worker, enum worker_stream stream,
                               struct str bytes)
{
    struct transport *t = transport_of(worker);
    (void)stream;
    if (t->is_dying)
        return -1;
    size_t len = MIN(bytes.len, space(t, &t->there));
    t->waits_for_room = len < bytes.len;
    if (len > 0)
        packet_send(t, &t->there, (struct str){bytes.at, len}, false, 0);
    return (ssize_t)len;
}

static void transport_finish(struct node_worker *worker, enum worker_stream stream)
{
    struct transport *t = transport_of(worker);
    (void)stream;
    if (!t->there.is_shut)
        packet_send(t, &t->there, (struct str){0}, true, 0);
    t->there.is_shut = true;
}

static bool transport_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    const struct transport *t = (const struct transport *)worker;
    return stream == STREAM_IN && !t->there.is_shut && !t->is_gone;
}

static void transport_end(struct node_worker *worker, enum worker_end how)
{
    struct transport *t = transport_of(worker);
    bool is_deaf = chance(world.scene.rates.deaf);
    if (how == END_AT_ONCE || is_deaf)
        at_place_us(NULL, how == END_AT_ONCE ? below(1000) : 2000000, transport_kill, t, SIGKILL);
    else
        at_place_us(NULL, below(20000), transport_kill, t, SIGTERM);
}

static pid_t transport_pid(const struct node_worker *worker)
{
    return (pid_t)((const struct transport *)worker)->number + 10000;
}

static void transport_release(struct node_worker *worker)
{
    struct transport *t = transport_of(worker);
    if (!t->is_gone)
        broken("a transport is released before it is gone");
    t->is_released = true;
}

static const struct node_ops transport_ops = {.write = transport_write,
                                              .finish = transport_finish,
                                              .drop = transport_finish,
                                              .is_open = transport_is_open,
                                              .end = transport_end,
                                              .pid = transport_pid,
                                              .release = transport_release};
