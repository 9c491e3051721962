/* SPDX-License-Identifier: Apache-2.0
 *
 * Invented workers behind node.h: fake_node.c has their streams and their ends, fake_look.c what is seen of them,
 * fake_actor.c what they do.
 */
#pragma once

#include "base/buf.h"
#include "node/node.h"
#include "sim/shell/world.h"

enum actor_state {
    ACTOR_LOADS,
    ACTOR_WAITS, /* for input */
    ACTOR_WORKS,
    ACTOR_HANGS,
    ACTOR_ENDS, /* it is through, and tears itself down */
    ACTOR_DEAD
};

/* The node of muster's machine, or of an agent. */
struct fake {
    struct node base;
    struct fake_worker *workers; /* the last first */
    bool is_held;
};

struct place;
struct head_worker;
struct fake_worker {
    struct node_worker base;
    struct fake_worker *next, *next_there; /* of all, and of its node */
    struct fake *node;
    uint32_t host;
    struct place *place;                /* its agent; NULL: it is on muster's machine */
    struct head_worker *head;           /* how muster knows it, if it has an agent */
    bool is_hosts_fault;                /* that it ends */
    int locks[2 * DEVICES_MAX_SIM + 1]; /* its guard's copies of the locks of its devices */
    size_t n_locks;
    uint32_t number, seat_share;
    uint32_t devices[DEVICES_MAX_SIM], n_devices;
    uint64_t grace_ms, born_ns, died_ns;
    bool is_started, is_gone, is_released, is_told_to_end, is_deaf, is_refused, has_device_memory;
    struct worker_exit exit;

    /* its input, or its channel: what is in the pipe, and what it has read and not worked on */
    struct buf pipe, own, line;   /* line: the unfinished last one that it was given */
    bool is_open[WORKER_STREAMS]; /* by muster: STREAM_IN and STREAM_CHANNEL */
    bool input_is_lost, has_told_close, waits_for_room, has_read;
    size_t
        n_ignored; /* bytes in the pipe of a channel worker's standard input, which it does not read */
    struct buf out[WORKER_STREAMS];
    bool delivers[WORKER_STREAMS], is_paused[WORKER_STREAMS];

    bool asks_read, asks_wait;
    uint64_t rest_pause_max_ms, rest_pause_ms, rest_look_ms, last_output_ms, wait_look_ms;

    enum actor_state state;
    struct buf held; /* answers that it has not written out */
    uint32_t n_held, item, n_answered;
    uint64_t first, count; /* of a shard */
    char path[256];
    bool has[ITEMS_MAX], has_answered[ITEMS_MAX];
};

/* Forgotten by itself when the world ends. */
struct fake_worker *fake_of(struct node_worker *worker);

/* Output, to be delivered in pieces. */
void fake_print(struct fake_worker *w, enum worker_stream stream, struct str bytes);
/* It ends now; what it printed is delivered, then it is told. */
void fake_die(struct fake_worker *w, int exit_code, int exit_signal);
/* It closes its end of its input, and lives on for a while. */
void fake_input_close(struct fake_worker *w);
/* The stream that it takes its work from. */
enum worker_stream fake_input(void);
/* It takes what is in its pipe. */
void fake_read(struct fake_worker *w);

/* "item N" in a line, or "item":N in a record or a message. */
bool item_in(struct str line, uint32_t *item);

/* Of this session, the last first. */
struct fake_worker *fake_workers(void);
/* Its node's owner is gone. Its guard ends it, or it ends with the machine. */
void fake_orphan(struct fake_worker *w, bool is_at_once);
void fake_node_init(struct fake *node);

/* fake_look.c: of struct node_ops */
void fake_ask_read(struct node_worker *worker, bool is_asked);
void fake_ask_rest(struct node_worker *worker, uint64_t pause_max_ms);
void fake_ask_wait(struct node_worker *worker, bool is_asked);
uint64_t fake_look(struct node *base);
void fake_tick(struct node *base);

/* fake_host.c: the clock there */
uint64_t place_now_ns(void);

/* fake_device.c */
/* Nobody else may be on its devices, their locks are its guard's too, their memory is there again, and none is lost. */
void fake_place_check(const struct fake_worker *w, const struct spawn_request *request);

/* fake_actor.c */
void actor_born(struct fake_worker *w, const struct spawn_request *request);
/* There is something to read, or nothing more will come. */
void actor_go(struct fake_worker *w);
/* Does it wait for input, with nothing left that it could do? */
bool actor_waits(const struct fake_worker *w);
