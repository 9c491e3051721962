/* SPDX-License-Identifier: Apache-2.0
 *
 * Agents on invented hosts: src/agent as it is. Each process has a stack of its own and takes turns with muster and
 * the others in the time of the world (fake_agent.c); its standard streams are a link with latency, bandwidth and
 * faults (fake_link.c), at whose other end is a transport, which muster starts like ssh.
 */
#pragma once

#include <uv.h>

#include "sim/shell/fake_node.h"

enum {
    STREAMS_AGENT = 3 /* file descriptors below are an agent's standard streams */
};

struct transport;
struct device_locks;

enum place_state {
    PLACE_SLEEPS,
    PLACE_RUNS, /* on its own stack */
    PLACE_ENDED /* by itself, or it was killed */
};

/* A process of an agent. It is kept until the session is over, for whoever is late. */
struct place {
    struct place *next;
    uint32_t number, host;
    enum place_state state;
    struct fake node;
    struct transport *transport; /* NULL: the link is down, and nobody reads what it writes */
    struct buf in;               /* came for its standard input */
    bool has_input_ended;
    uint64_t begin_ms;
    bool is_due, naps; /* naps: only time wakes it */
    uint64_t n_sleeps;
    struct device_locks *locks; /* NULL: none were taken */
    const uv_loop_t *loop;
    void *stack, *context;
};

/* ---- fake_agent.c ---- */

void places_begin(void); /* of a session: there are none */
struct place *place_start(uint32_t host, struct transport *transport);
/* SIGKILL; its guards end its workers. */
void place_kill(struct place *place);
void place_signal(struct place *place, int number);
/* The host is down: nothing of it is left. */
void places_down(uint32_t host);
/* Something has happened there: its loop turns. */
void place_turn(struct place *place);
void place_touch(struct place *place);
/* It only tells that time has passed. */
bool is_wake(future_fn *fn);
/* Time passes there, until `due_ns` or until something happens. */
void agent_sleep(uint64_t due_ns);
bool agent_stream_is_ready(int fd);
struct place *places(void);
uint32_t agents_alive(void);
/* Back to the stack of the world, if this is another one. */
void place_leave_stack(void);

/* ---- fake_link.c ---- */

void links_begin(void);
struct node_worker *transport_start(const struct spawn_request *request);
bool is_transport(const struct spawn_request *request);
/* What muster's end does when it is killed: transports end. */
void transports_kill(void);
/* Of an agent: how many bytes were taken; 0: there is no room. Negative: nobody will read them. */
ssize_t link_put(struct place *place, struct str bytes);
bool link_has_space(const struct place *place);
/* Bytes of its input were taken. */
void link_taken(struct place *place, size_t n_bytes);
void link_end(struct place *place, int status);
void link_reset(uint32_t host);
void link_down(uint32_t host);

/* ---- fake_head.c: what muster has sent to workers on hosts ---- */

struct head_worker;
void heads_begin(void);
/* By the entry that muster's end adds to a worker's environment. NULL: it is on muster's own machine. */
struct head_worker *head_worker_of(const struct spawn_request *request, struct fake_worker *actor);
bool head_has_ended(const struct head_worker *head);
/* The worker has ended, and not because of its host: this is held against all that was sent to it, and will be. */
void head_faults_note(struct head_worker *head);
