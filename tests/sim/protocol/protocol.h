/* SPDX-License-Identifier: Apache-2.0
 *
 * The real protocol between a head and an agent, in one process and in virtual time: node/link, node/remote and src/agent
 * as they are. Invented are the stream between them (stream.c), which has one fault, the workers under the agent
 * (script_node.c), and who orders them (head.c), both of which follow a script. A wild head (wild.c) follows none.
 */
#pragma once

#include "node/node.h"
#include "sim/shell/fake_agent.h"

enum {
    TO_AGENT,
    TO_HEAD,
    WAYS
};

/* What happens at a byte of a way. */
enum fault {
    FAULT_NONE,
    FAULT_CUT,     /* the stream ends there, in both directions */
    FAULT_SILENCE, /* nothing gets through any more, in both directions */
    FAULT_FLIPPED,
    FAULT_DROPPED,
    FAULT_REPEATED,
    FAULT_SHORT_DELAY, /* shorter than the time after which the other end is given up */
    FAULT_LONG_DELAY,
    FAULTS
};

struct play {
    bool is_long; /* more bytes than credit allows at once */
    enum fault fault;
    unsigned way;
    size_t at; /* byte of that way */
};
extern struct play play;

enum {
    SILENCE_MS = 1000,
    LONG_BYTES = 265000, /* of input, or that a worker prints by itself: more than credit allows */
    SCRIPTS = 5
};

/* What a worker does, by its number. */
enum script {
    SCRIPT_ECHO,    /* prints its input, and ends with status 0 */
    SCRIPT_CHANNEL, /* answers over its channel, and ends with status 3 when it is closed; in a long session it closes it
                       itself, behind a long message */
    SCRIPT_WAITS,   /* until it is ended */
    SCRIPT_CLOSES,  /* closes its input, prints some, in a long session much, and is killed */
    SCRIPT_REFUSED  /* cannot be executed */
};

/* ---- stream.c ---- */

struct node *stream_open(void);
void stream_close(void);
/* What was sent on a way, without faults: to be recorded. */
struct str stream_sent(unsigned way);

/* ---- script_node.c ---- */

void scripts_begin(void);
/* All workers have ended and were given back. */
void scripts_check(void);
/* Many bytes, if the session is long. */
void pattern_add(size_t n_bytes, struct buf *out);

/* ---- head.c ---- */

/* One session; promises that are not kept are broken(). */
void head_play(void);
/* Both ends are gone, and so are the workers. */
void agents_await_end(void);

/* ---- wild.c ---- */

/* Keeps the frames of a session, as they were sent to the agent. */
void wild_keep(struct str sent);
void wild_forget(void);
/* One session with a wild head. */
void wild_play(void);
