/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaders and followers over loopback sockets, each on a loop of its own, which write down what
 * they hear; and other programs, which are plain sockets.
 */
#pragma once

#include "unit/test.h"

#include "base/buf.h"
#include "rendezvous/rendezvous_impl.h"

enum {
    ENDS_MAX = 512,
    WAIT_MS = 10000 /* longer than anything takes */
};

struct end {
    uv_loop_t loop;
    struct rendezvous *r;
    struct buf heard; /* a line for each call of a handler: "joined 1 hostA 4" */
    bool
        is_asleep; /* its loop does not turn: as a machine that is gone, whose kernel is still there */
    bool closes_itself; /* in the first handler that is called */
    uint64_t later_ms;  /* its clock is ahead by so much */
};

/* What all ends of a test have by default: one host name, port, run and limit. */
struct rendezvous_opts opts_of(uint16_t port);
struct rendezvous_member member_of(uint32_t node, const char *host);
extern const struct rendezvous_start start_of_test;
#define START_HEARD "start 3: restarts 2 group 1/2 ranks from 8 of 12 port 29500\n"
struct rendezvous_exit exit_of(uint32_t generation, uint32_t local_rank);
/* At which nobody listens. */
uint16_t free_port(void);

/* Each sets end->r, and must succeed. */
void lead(struct end *end, struct rendezvous_opts opts);
void follow(struct end *end, struct rendezvous_opts opts, struct rendezvous_member self);
/* A leader, and a follower that it has welcomed as number 1. Returns the port. */
uint16_t pair_open(struct end *leader, struct end *follower, struct rendezvous_opts opts);
void pair_close(struct end *leader, struct end *follower);
void end_open(struct end *end, struct rendezvous_opts *opts);
void end_close(struct end *end);
/* All ends that are open turn once. */
void turn(void);
/* What a test that failed has left open is left alone. */
int ends_forget(void **state);
#define TEST_OF_ENDS(name) cmocka_unit_test_teardown(name, ends_forget)
/* Turns all until this end has heard the text, so many times. Fails the test if it takes too long. */
void wait_for(const struct end *end, const char *text, size_t times);
void turn_for(uint64_t ms);
size_t times_heard(const struct end *end, const char *text);

/* ---- plain sockets ---- */

int socket_connect(uint16_t port);
void socket_say(int fd, struct str bytes);
/* Turns all until the leader has closed this connection; then closes it too. */
void socket_wait_closed(int fd);
/* Turns all until at least so many bytes have come, or the end; adds them. */
void socket_hear(int fd, struct buf *out, size_t n_bytes);
