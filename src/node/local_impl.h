/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the local node:
 *   local.c         workers: start, orders, release
 *   local_stream.c  their pipes and sockets
 *   local_input.c   whether a worker reads its input, rests or waits
 *   local_stand.c   what its processes do, and where they stand
 *   local_exit.c    what its guard reports
 *   local_guard.c   guards that wait for their next worker
 */
#pragma once

#include "node/local.h"

enum {
    STREAM_REPORT = WORKER_STREAMS, /* of the guard */
    LOCAL_STREAMS
};

/* A descriptor and its poll. */
struct local_stream {
    int fd;     /* -1: closed */
    int events; /* that are polled for */
    bool is_polled, is_paused;
    uv_poll_t poll;
};

/* When to look at a worker's input. Times are of clock_now_ms(). */
struct input_watch {
    bool asks_read, asks_wait;
    uint64_t begin_ms;          /* start of the worker */
    uint64_t n_bytes;           /* written to its pipe */
    uint64_t read_look_ms;      /* next */
    uint64_t rest_pause_max_ms; /* 0: not asked for */
    uint64_t rest_look_ms, rest_pause_ms;
    uint64_t last_output_ms;
    uint64_t wait_look_ms, n_wait_looks;
};

/* A guard of whose last worker nothing is left. */
struct idle_guard {
    struct guard guard;
    uint64_t since_ms;
};

/* A look by py-spy at a worker. */
struct spy;

struct local_worker {
    struct node_worker base;
    struct local *node;
    struct local_worker *next;
    struct local_stream streams[LOCAL_STREAMS];
    unsigned n_handles; /* that libuv has not closed */
    struct guard guard;
    bool is_guard_idle; /* the guard waits for another worker */
    bool answers, is_gone, is_released;
    char *channel_path;
    bool is_listening;
    bool accept_waits; /* until a descriptor is free */
    struct input_watch input;
    struct {
        uint64_t every_ms, look_ms; /* 0: not asked for; when to look next */
    } stand;
    struct spy *spy; /* NULL: no question where it stands is open */
    struct worker_exit exit;
};

struct local {
    struct node base;
    struct local_opts opts;
    struct local_worker *workers;
    struct spy *spies;
    struct {
        struct idle_guard *at; /* the longest waiting first */
        size_t len, cap;
    } idle;
    bool is_held;
    uint64_t look_ms;
    struct oom_watch oom_watch;
};

/* The worker's ends of its streams. */
struct worker_ends {
    int in, out, err, channel;
};

static inline struct local_worker *local_of(struct node_worker *worker)
{
    return (struct local_worker *)worker;
}

/* ---- local_stream.c ---- */

MUST_CHECK int local_streams_open(struct local_worker *w, const struct spawn_request *request,
                                  struct worker_ends *theirs, struct err *err);
void local_report_watch(struct local_worker *w);
/* Begins to read the worker's output. If the worker ends before its start was told, its pipes are read only then. */
void local_streams_watch(struct local_worker *w);
/* Polls the streams again, after the node was held or released. */
void local_streams_rewatch(struct local_worker *w);
void local_stream_close(struct local_worker *w, unsigned stream);
void local_streams_close(struct local_worker *w);
/* Reads everything that is left. */
void local_streams_drain(struct local_worker *w);
/* Tries again to accept the worker's connection, and notices if the worker has closed its input. */
void local_streams_tick(struct local_worker *w);
ssize_t local_write(struct node_worker *worker, enum worker_stream stream, struct str bytes);
void local_finish(struct node_worker *worker, enum worker_stream stream);
void local_drop(struct node_worker *worker, enum worker_stream stream);
bool local_is_open(const struct node_worker *worker, enum worker_stream stream);
void local_pause(struct node_worker *worker, enum worker_stream stream, bool is_paused);

/* ---- local_input.c ---- */

void local_ask_read(struct node_worker *worker, bool is_asked);
void local_ask_rest(struct node_worker *worker, uint64_t pause_max_ms);
void local_ask_wait(struct node_worker *worker, bool is_asked);
uint64_t local_look(struct node *node);
void local_input_tick(struct local_worker *w);

/* ---- local_stand.c ---- */

void local_ask_stand(struct node_worker *worker, uint64_t every_ms);
void local_ask_where(struct node_worker *worker);
void local_stands_tick(struct local *local);
/* The worker is gone, and nothing more is told of it. */
void local_stand_forget(struct local_worker *w);
/* After all workers were released. */
void local_spies_free(struct local *local);

/* ---- local_exit.c ---- */

/* May release the worker. */
void local_report_read(struct local_worker *w);

/* ---- local_guard.c ---- */

/* Starts the worker under a guard that is idle, or else under a new one: w->guard. */
MUST_CHECK int local_guard_take(struct local_worker *w, const struct spawn_opts *opts,
                                struct err *err);
/* Keeps w->guard if it is idle, else closes it, which ends its processes. */
void local_guard_give(struct local_worker *w);
void local_guard_ended(struct local *local, pid_t pid);
/* Ends guards that have been idle for a while. */
void local_guards_tick(struct local *local);

/* ---- local.c ---- */

/* Frees the worker when it is released and its last handle is closed. */
void local_handle_closed(uv_handle_t *handle);
