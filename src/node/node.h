/* SPDX-License-Identifier: Apache-2.0
 *
 * Where workers live: the one interface to a machine that runs them. A node starts a worker, carries bytes to
 * and from its streams, and tells its owner what happened to it. What is behind it may be this machine
 * (local.h), another one, or none (tests); the owner sees no process, no descriptor and no path of it.
 *
 * A worker has an owner's handlers from node_spawn on. They are called on the loop's thread, never from within
 * node_spawn, and never again after node_release. Output comes in the order in which it was written, all of it
 * before `gone`, which comes once.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "device/seat.h"
#include "proc/oom.h"

enum worker_stream {
    STREAM_IN,
    STREAM_OUT,
    STREAM_ERR,
    STREAM_CHANNEL, /* both ways */
    WORKER_STREAMS
};

/* What is seen of a worker that reads its standard input, as far as somebody asked for it. */
enum input_fact {
    INPUT_READ,  /* it has begun to read */
    INPUT_RESTS, /* it has read all it was given, printed all it had to, and waits for more */
    INPUT_WORKS, /* it is at work, or has ended: more of its output may come */
    INPUT_WAITS, /* it has read all it was given, says nothing, and all of it is seen to wait */
    INPUT_WAITS_PERHAPS, /* the same, as far as can be seen */
};

/* All that is known of a worker when it and what it left behind are gone. */
struct worker_exit {
    bool was_refused; /* it could not be executed; exec_errno says why */
    int exec_errno;
    bool has_exited; /* by itself or by a signal; false: its guard was lost, and took it along */
    int exit_code, exit_signal;
    struct oom_counts oom_kills; /* about that time, where SIGKILL ended it */
    uint64_t memory_bytes;       /* of the machine, where SIGKILL ended it */
    uint64_t rss_peak_bytes;
    int n_left_behind; /* processes that outlived it and were ended */
    pid_t stuck_pid;   /* one that no signal ends; 0: none */
};

/* As a shell says it: 127 where it could not be executed, 128 + n after signal n. */
static inline int worker_exit_status(const struct worker_exit *exit)
{
    bool was_lost = !exit->has_exited && !exit->was_refused;
    return exit->was_refused   ? 127
           : was_lost          ? 128 + SIGKILL
           : exit->exit_signal ? 128 + exit->exit_signal
                               : exit->exit_code;
}

/* Those of `started`, `writable`, `closed` and `input` may be NULL: not called. */
struct worker_handlers {
    void (*started)(void *context);
    void (*output)(void *context, enum worker_stream stream, struct str bytes);
    /* More can be written, after node_write() took less than it was given. */
    void (*writable)(void *context, enum worker_stream stream);
    /* It has closed its end: of STREAM_IN it reads no more, STREAM_CHANNEL is cut. Closed on our side as well. */
    void (*closed)(void *context, enum worker_stream stream);
    void (*input)(void *context, enum input_fact fact);
    void (*gone)(void *context, const struct worker_exit *exit);
    /* Something that the user may mend. */
    void (*warned)(void *context, const char *text);
    /* It cannot be read or written, and others could not either. */
    void (*failed)(void *context, const struct err *why);
};

enum worker_channel {
    CHANNEL_NONE,
    CHANNEL_DESCRIPTOR, /* it has it as descriptor 3 */
    CHANNEL_PATH        /* it connects to `channel_path` */
};

struct spawn_request {
    const char *const *argv, *const *envp; /* NULL-terminated; borrowed until node_spawn returns */
    const struct seat *seat;               /* its CPUs */
    uint64_t grace_ms;                     /* between TERM and KILL */
    bool has_input;                        /* false: its standard input is /dev/null */
    bool answers; /* what it prints or says waits in the node while that is on hold */
    enum worker_channel channel;
    const char *channel_path;
    /* Locks of its devices: held until all that belongs to it is gone. */
    const int *held_fds;
    size_t n_held_fds;
    const struct worker_handlers *handlers;
    void *context;
};

enum worker_end {
    END_POLITELY, /* TERM, the grace, KILL */
    END_AT_ONCE
};

struct node;
struct node_worker;

/* The implementations begin with these. */
struct node_ops;
struct node {
    const struct node_ops *ops;
};
struct node_worker {
    const struct node_ops *ops;
    const struct worker_handlers *handlers;
    void *context;
    pid_t guard_pid; /* for messages */
};

struct node_ops {
    int (*spawn)(struct node *node, const struct spawn_request *request, struct node_worker **out,
                 struct err *err);
    ssize_t (*write)(struct node_worker *worker, enum worker_stream stream, struct str bytes);
    void (*finish)(struct node_worker *worker, enum worker_stream stream);
    void (*drop)(struct node_worker *worker, enum worker_stream stream);
    bool (*is_open)(const struct node_worker *worker, enum worker_stream stream);
    void (*ask_read)(struct node_worker *worker, bool is_asked);
    void (*ask_rest)(struct node_worker *worker, uint64_t pause_max_ms);
    void (*ask_wait)(struct node_worker *worker, bool is_asked);
    void (*end)(struct node_worker *worker, enum worker_end how);
    pid_t (*pid)(const struct node_worker *worker);
    void (*release)(struct node_worker *worker);
    void (*hold)(struct node *node, bool is_held);
    void (*oom_explained)(struct node *node);
    uint64_t (*look)(struct node *node);
    void (*tick)(struct node *node);
    void (*close)(struct node *node);
};

/* ERR_STOPPED where there is no room for its pipes or processes; another error is about this command alone. */
MUST_CHECK static inline int node_spawn(struct node *node, const struct spawn_request *request,
                                        struct node_worker **out, struct err *err)
{
    return node->ops->spawn(node, request, out, err);
}

/* How many bytes it takes now; `writable` follows if they are not all. Negative: nobody reads them any more. */
static inline ssize_t node_write(struct node_worker *worker, enum worker_stream stream,
                                 struct str bytes)
{
    return worker->ops->write(worker, stream, bytes);
}

/* Nothing more is written there: the worker reads the end of it. */
static inline void node_finish(struct node_worker *worker, enum worker_stream stream)
{
    worker->ops->finish(worker, stream);
}

/* The stream is of no more use, in either direction. */
static inline void node_drop(struct node_worker *worker, enum worker_stream stream)
{
    worker->ops->drop(worker, stream);
}

static inline bool node_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    return worker && worker->ops->is_open(worker, stream);
}

/* Tell when it begins to read its input. */
static inline void node_ask_read(struct node_worker *worker, bool is_asked)
{
    worker->ops->ask_read(worker, is_asked);
}

/* Tell whether it rests or works, looking at once and then after pauses that double, up to this one, or until it rests;
 * 0: no more. */
static inline void node_ask_rest(struct node_worker *worker, uint64_t pause_max_ms)
{
    worker->ops->ask_rest(worker, pause_max_ms);
}

/* Tell when it says nothing and may wait for more. */
static inline void node_ask_wait(struct node_worker *worker, bool is_asked)
{
    worker->ops->ask_wait(worker, is_asked);
}

static inline void node_end(struct node_worker *worker, enum worker_end how)
{
    worker->ops->end(worker, how);
}

/* For messages; 0 before `started`. */
static inline pid_t node_pid(const struct node_worker *worker)
{
    return worker ? worker->ops->pid(worker) : 0;
}

/* After `gone`; the worker is the node's from now on. */
static inline void node_release(struct node_worker *worker)
{
    worker->ops->release(worker);
}

/* Answers are left where they are. */
static inline void node_hold(struct node *node, bool is_held)
{
    node->ops->hold(node, is_held);
}

/* A kill by the kernel is explained by a death: it says nothing about others. */
static inline void node_oom_explained(struct node *node)
{
    node->ops->oom_explained(node);
}

/* Before the loop sleeps. When it is to be called next at the latest; UINT64_MAX: no matter. */
static inline uint64_t node_look(struct node *node)
{
    return node->ops->look(node);
}

/* Ten times a second. */
static inline void node_tick(struct node *node)
{
    node->ops->tick(node);
}

static inline void node_close(struct node *node)
{
    if (node)
        node->ops->close(node);
}
