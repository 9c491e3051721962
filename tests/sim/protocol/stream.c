/* SPDX-License-Identifier: Apache-2.0
 *
 * One transport at a time, with a millisecond of latency, and the fault of the play.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "sim/protocol/protocol.h"

enum {
    ROOM_BYTES = 16384,
    SHORT_DELAY_MS = SILENCE_MS / 2,
    LONG_DELAY_MS = 4 * SILENCE_MS
};

struct way {
    struct buf sent;     /* all of it, as it was given */
    struct buf on_way;   /* after the fault */
    size_t n_passed;     /* bytes of `sent` that have gone through the fault */
    uint64_t arrives_ms; /* not before */
    bool is_planned;
};

struct transport {
    struct node_worker base;
    struct place *agent;
    struct way ways[WAYS];
    bool is_gone, is_dying, is_silent, is_shut, agent_has_ended, waits_for_room;
    struct worker_exit exit;
};

static const struct node_ops transport_ops, local_ops;
static struct node local = {&local_ops};
static struct transport *transport;

struct str stream_sent(unsigned way)
{
    return transport ? buf_str(&transport->ways[way].sent) : STR("");
}

static void gone_tell(void *context, uint64_t argument)
{
    struct transport *t = context;
    (void)argument;
    if (t->is_gone)
        return;
    t->is_gone = true;
    t->base.handlers->gone(t->base.context, &t->exit);
}

static void input_end(void *context, uint64_t argument)
{
    struct transport *t = context;
    (void)argument;
    if (t->agent)
        t->agent->has_input_ended = true;
}

/* The process ends; the agent reads the end of its input behind what has arrived, unless nothing gets through. */
static void transport_die(struct transport *t, int exit_code, int exit_signal)
{
    if (t->is_dying)
        return;
    t->is_dying = true;
    t->exit = (struct worker_exit){
        .has_exited = true, .exit_code = exit_code, .exit_signal = exit_signal};
    if (t->agent) {
        t->agent->transport = NULL;
        if (!t->is_silent)
            at_place_us(t->agent, 1000, input_end, t, 0);
    }
    at_place_us(NULL, 1000, gone_tell, t, 0);
}

/* ---- the fault ---- */

static void fault_do(struct transport *t, struct way *way, char byte)
{
    char flipped = (char)(byte ^ 0x10);
    switch (play.fault) {
    case FAULT_NONE:
    case FAULTS:
    case FAULT_DROPPED:
        return;
    case FAULT_CUT:
        transport_die(t, 255, 0);
        return;
    case FAULT_SILENCE:
        t->is_silent = true;
        return;
    case FAULT_FLIPPED:
        buf_add(&way->on_way, &flipped, 1);
        return;
    case FAULT_REPEATED:
        buf_add(&way->on_way, &byte, 1);
        buf_add(&way->on_way, &byte, 1);
        return;
    case FAULT_SHORT_DELAY:
    case FAULT_LONG_DELAY:
        way->arrives_ms =
            world_ms() + (play.fault == FAULT_SHORT_DELAY ? SHORT_DELAY_MS : LONG_DELAY_MS);
        buf_add(&way->on_way, &byte, 1);
        return;
    }
}

static void arrives(void *context, uint64_t number);

static void arrival_plan(struct transport *t, unsigned number)
{
    struct way *way = &t->ways[number];
    uint64_t wait_ms = way->arrives_ms > world_ms() ? way->arrives_ms - world_ms() : 1;
    if (way->is_planned || way->on_way.len == 0)
        return;
    way->is_planned = true;
    at_place_us(number == TO_AGENT ? t->agent : NULL, wait_ms * 1000, arrives, t, number);
}

static void way_put(struct transport *t, unsigned number, struct str bytes)
{
    struct way *way = &t->ways[number];
    bool is_faulty = play.fault != FAULT_NONE && play.way == number;
    size_t begin = way->n_passed;
    buf_add_str(&way->sent, bytes);
    way->n_passed += bytes.len;
    if (t->is_silent || t->is_dying)
        return;
    if (!is_faulty || play.at < begin || play.at >= way->n_passed) {
        buf_add_str(&way->on_way, bytes);
    } else {
        size_t before = play.at - begin;
        buf_add(&way->on_way, bytes.at, before);
        fault_do(t, way, bytes.at[before]);
        if (!t->is_silent && !t->is_dying)
            buf_add(&way->on_way, bytes.at + before + 1, bytes.len - before - 1);
    }
    if (number == TO_HEAD || t->agent)
        arrival_plan(t, number);
}

/* ---- arrival ---- */

static void room_tell(void *context, uint64_t argument)
{
    struct transport *t = context;
    (void)argument;
    if (!t->waits_for_room || t->is_dying)
        return;
    t->waits_for_room = false;
    t->base.handlers->writable(t->base.context, STREAM_IN);
}

static void nothing(void *context, uint64_t argument)
{
    (void)context, (void)argument;
}

static void arrives(void *context, uint64_t number)
{
    struct transport *t = context;
    struct way *way = &t->ways[number];
    way->is_planned = false;
    if (way->arrives_ms > world_ms() || (t->is_dying && number == TO_HEAD)) {
        arrival_plan(t, (unsigned)number);
        return;
    }
    struct buf bytes = way->on_way;
    way->on_way = (struct buf)BUF_INIT;
    if (number == TO_AGENT) {
        buf_add_str(&t->agent->in, buf_str(&bytes));
        at_place_us(NULL, 1, room_tell, t, 0);
    } else {
        t->base.handlers->output(t->base.context, STREAM_OUT, buf_str(&bytes));
        if (t->agent->state != PLACE_ENDED)
            at_place_us(t->agent, 1, nothing, NULL, 0); /* it has room */
    }
    buf_release(&bytes);
    if (number == TO_HEAD && t->agent_has_ended && way->on_way.len == 0)
        transport_die(t, 0, 0);
}

/* ---- the agent's end ---- */

static size_t space(const struct way *way)
{
    return ROOM_BYTES - MIN(way->on_way.len, (size_t)ROOM_BYTES);
}

bool link_has_space(const struct place *place)
{
    return !place->transport || space(&place->transport->ways[TO_HEAD]) > 0;
}

ssize_t link_put(struct place *place, struct str bytes)
{
    struct transport *t = place->transport;
    if (!t)
        return -1;
    bytes.len = MIN(bytes.len, space(&t->ways[TO_HEAD]));
    way_put(t, TO_HEAD, bytes);
    return (ssize_t)bytes.len;
}

void link_taken(struct place *place, size_t n_bytes)
{
    (void)place, (void)n_bytes;
}

void link_end(struct place *place, int status)
{
    struct transport *t = place->transport;
    (void)status;
    place->transport = NULL;
    if (!t || t->is_silent)
        return;
    t->agent_has_ended = true;
    if (t->ways[TO_HEAD].on_way.len == 0)
        transport_die(t, 0, 0);
}

/* ---- muster's end ---- */

static ssize_t transport_write(struct node_worker *worker, enum worker_stream stream,
                               struct str bytes)
{
    struct transport *t = (struct transport *)worker;
    (void)stream;
    if (t->is_dying)
        return -1;
    size_t len = MIN(bytes.len, space(&t->ways[TO_AGENT]));
    t->waits_for_room = len < bytes.len;
    way_put(t, TO_AGENT, (struct str){bytes.at, len});
    return (ssize_t)len;
}

static void transport_finish(struct node_worker *worker, enum worker_stream stream)
{
    struct transport *t = (struct transport *)worker;
    (void)stream;
    t->is_shut = true;
    if (t->agent && !t->is_silent)
        at_place_us(t->agent, 2000, input_end, t, 0);
}

static bool transport_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    const struct transport *t = (const struct transport *)worker;
    return stream == STREAM_IN && !t->is_shut && !t->is_gone;
}

static void transport_kill(void *context, uint64_t signal)
{
    transport_die(context, 0, (int)signal);
}

static void transport_end(struct node_worker *worker, enum worker_end how)
{
    at_place_us(NULL, 1000, transport_kill, worker, how == END_AT_ONCE ? SIGKILL : SIGTERM);
}

static void transport_release(struct node_worker *worker)
{
    if (!((struct transport *)worker)->is_gone)
        broken("the transport is released before it is gone");
}

static const struct node_ops transport_ops = {.write = transport_write,
                                              .finish = transport_finish,
                                              .is_open = transport_is_open,
                                              .end = transport_end,
                                              .release = transport_release};

static void connected(void *context, uint64_t argument)
{
    struct transport *t = context;
    (void)argument;
    if (t->is_dying)
        return;
    t->agent = place_start(1, t);
    arrival_plan(t, TO_AGENT);
}

static int local_spawn(struct node *node, const struct spawn_request *request,
                       struct node_worker **out, struct err *err)
{
    (void)node, (void)err;
    transport = xcalloc(1, sizeof(*transport));
    *transport =
        (struct transport){.base = {&transport_ops, request->handlers, request->context, 1}};
    *out = &transport->base;
    after_us(1000, connected, transport, 0);
    return 0;
}

static const struct node_ops local_ops = {.spawn = local_spawn};

struct node *stream_open(void)
{
    return &local;
}

void stream_close(void)
{
    for (unsigned way = 0; transport && way < WAYS; way++) {
        buf_release(&transport->ways[way].sent);
        buf_release(&transport->ways[way].on_way);
    }
    free(transport);
    transport = NULL;
}
