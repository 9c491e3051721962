/* SPDX-License-Identifier: Apache-2.0
 *
 * Where workers live: the one interface to a machine that runs them. A node starts a worker, carries bytes to
 * and from its streams, and tells its owner what happened to it. It may be this machine (local.h),
 * another one, or a simulated one (tests); the owner sees none of its processes, descriptors and paths.
 *
 * The owner's handlers of a worker are called on the loop's thread, never from within node_spawn, and never
 * after node_release. The output of a stream comes in the order in which it was written, and all of it before
 * `gone`, which comes once.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/texts.h"
#include "device/cpu_share.h"
#include "device/lock.h"
#include "device/seat.h"
#include "node/left_file.h"
#include "proc/oom.h"
#include "proc/stand.h"

enum worker_stream {
    STREAM_IN,
    STREAM_OUT,
    STREAM_ERR,
    STREAM_CHANNEL, /* both ways */
    WORKER_STREAMS
};

/* Facts about a worker that reads its standard input; reported only if they were asked for. */
enum input_fact {
    INPUT_READ,  /* it has begun to read */
    INPUT_RESTS, /* it has read all of its input, printed all of its answers, and waits for more */
    INPUT_WORKS, /* it is working, or has ended: more output may come */
    INPUT_WAITS, /* it has read all of its input and is silent, and all its processes are known to wait */
    INPUT_WAITS_PERHAPS, /* the same, but the kernel does not show whether they wait */
};

enum {
    NODE_WHERE_MS = 10000,
    NODE_WHERE_BYTES = 8192
};

/* The end of a worker, known when it and all its descendants are gone. */
struct worker_exit {
    bool was_refused; /* it could not be executed; exec_errno says why */
    int exec_errno;
    bool has_exited; /* by itself or a signal; false: its guard was killed, and the worker too */
    int exit_code, exit_signal;
    struct oom_counts oom_kills; /* around that time; only if SIGKILL ended it */
    uint64_t memory_bytes;       /* of the machine; only if SIGKILL ended it */
    uint64_t rss_peak_bytes;
    int n_left_behind; /* processes that outlived it and were ended */
    pid_t stuck_pid;   /* a process that SIGKILL did not end; 0: none */
};

/* The exit status as a shell gives it: 127 if it could not be executed, 128 + n after signal n. */
static inline int worker_exit_status(const struct worker_exit *exit)
{
    bool was_lost = !exit->has_exited && !exit->was_refused;
    return exit->was_refused   ? 127
           : was_lost          ? 128 + SIGKILL
           : exit->exit_signal ? 128 + exit->exit_signal
                               : exit->exit_code;
}

/* `started`, `writable`, `closed`, `input`, `stands`, `where` and `error_file` may be NULL: not called. */
struct worker_handlers {
    void (*started)(void *context);
    void (*output)(void *context, enum worker_stream stream, struct str bytes);
    /* More can be written, after a node_write() that took less than it was given. */
    void (*writable)(void *context, enum worker_stream stream);
    /* The worker has closed its end of STREAM_IN or STREAM_CHANNEL. The stream is closed on our side as well. */
    void (*closed)(void *context, enum worker_stream stream);
    void (*input)(void *context, enum input_fact fact);
    /* The answers to node_ask_stand() and node_ask_where(). */
    void (*stands)(void *context, const struct proc_stand *stand);
    void (*where)(void *context, struct str text);
    void (*gone)(void *context, const struct worker_exit *exit);
    /*
     * Before `gone`: the content of a failed worker's error file. clock_ahead_ms: the clock of its machine minus
     * ours.
     */
    void (*error_file)(void *context, struct str bytes, int64_t clock_ahead_ms);
    /* A problem that the user may solve. */
    void (*warned)(void *context, const char *text);
    /* The worker's streams cannot be used, and those of other workers could not either. */
    void (*failed)(void *context, const struct err *why);
};

enum worker_channel {
    CHANNEL_NONE,
    CHANNEL_DESCRIPTOR, /* the worker has the channel as descriptor 3 */
    CHANNEL_PATH        /* the worker connects to `channel_path` */
};

struct spawn_request {
    const char *const *argv, *const *envp; /* NULL-terminated; borrowed until node_spawn returns */
    const char *cwd;                       /* NULL: that of this process, or of the agent */
    const struct seat *seat;               /* the worker gets its CPUs */
    /*
     * On another machine: the worker gets the devices and CPUs of these seats together (n_joined 0: no device). NULL:
     * those of `seat`.
     */
    const uint32_t *joined;
    uint32_t n_joined;
    /*
     * On another machine: the CPUs are found by this instead, for one of the ranks that share the seat. NULL: they
     * are not.
     */
    const struct cpu_wish *cpus;
    uint32_t local_rank;
    uint64_t grace_ms; /* between TERM and KILL; 0: none */
    bool has_input;    /* false: its standard input is /dev/null */
    bool answers;      /* its output is not read while the node is held */
    enum worker_channel channel;
    const char *channel_path;
    const struct node_files *files; /* of this worker, staged; NULL: none */
    const struct texts
        *sent; /* NAME or NAME=VALUE: of envp, sent to another machine in any case; NULL: none */
    /* The locks of the seat's devices are held until the worker and all its descendants are gone. NULL: no locks. */
    const struct device_locks *locks;
    /*
     * On another machine: the variable that names an error file there, which is fetched if the worker fails; NULL:
     * none. On this machine the owner names the file itself.
     */
    const char *error_variable;
    const struct worker_handlers *handlers;
    void *context;
};

/* The descriptors of the locks that the worker is to hold; returns how many. */
static inline size_t spawn_locks_fds(const struct spawn_request *request, int out[LOCK_FDS_MAX])
{
    const struct seat *seat = request->seat;
    return request->locks ? device_locks_fds(request->locks, seat->devices, seat->n_devices, out)
                          : 0;
}

/*
 * The files of a worker on a machine that does not see the owner's files (remote_files.c). node_stage asks the
 * machine whether it does; node_prepare sends the input; after the worker's end, node_collect finds the files that it
 * left, and node_fetch fetches them one by one. All work is done beside the loop; these handlers are never called
 * from within the functions. `failed` is the last call.
 */
struct node_files_handlers {
    /*
     * folder NULL: the machine sees the owner's files, so no file is sent or fetched. Else a folder for the files
     * there.
     */
    void (*staged)(void *context, const char *folder);
    /* The worker can be started. Files that it writes are not older than since_ns there (clock_file_ns). */
    void (*ready)(void *context, int64_t since_ns);
    /* The files that it left, in the order of the request; borrowed. */
    void (*found)(void *context, const struct left_file *files, size_t n_files);
    /* The file is here: whole, checked, synced. */
    void (*fetched)(void *context);
    /*
     * ERR_UNAVAILABLE: this machine cannot do it, another one may. Any other error is about the worker's files
     * (ENOENT in `sys`: no new file has such a name), or about the owner's disk.
     */
    void (*failed)(void *context, const struct err *why);
};

struct stage_request {
    const struct seat *seat;
    const char *probe_path, *probe_token; /* a file of the owner's, and its content */
    bool needs_cwd;                       /* the owner's folder of work must be seen as well */
    const struct node_files_handlers *handlers;
    void *context;
};

struct prepare_request {
    const char *input_path;               /* of the owner's; NULL: none */
    const char *input_name, *output_name; /* below the folder for the files; "": none */
    /* The files that the worker is to leave, by patterns in its working folder; a pattern that is NULL: the output. */
    const struct left_ask *asks;
    size_t n_asks;
    int64_t since_ns; /* the time of the start that `ready` told; 0: not started yet */
};

enum worker_end {
    END_POLITELY, /* TERM, grace period, KILL */
    END_AT_ONCE
};

struct node;
struct node_worker;
struct node_files;

/* The implementations begin with these. */
struct node_ops;
struct node {
    const struct node_ops *ops;
};
struct node_worker {
    const struct node_ops *ops;
    const struct worker_handlers *handlers;
    void *context;
    pid_t guard_pid;    /* on its machine, for messages and samples; 0: not known yet */
    uint8_t end_signal; /* for END_POLITELY; 0: TERM */
};
struct node_files {
    const struct node_files_ops *ops;
    const struct node_files_handlers *handlers;
    void *context;
};

struct node_files_ops {
    int (*prepare)(struct node_files *files, const struct prepare_request *request,
                   struct err *err);
    void (*collect)(struct node_files *files);
    void (*fetch)(struct node_files *files, size_t which, const char *path);
    void (*unstage)(struct node_files *files);
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
    /* NULL: this node cannot tell. */
    void (*ask_stand)(struct node_worker *worker, uint64_t every_ms);
    void (*ask_where)(struct node_worker *worker);
    void (*pause)(struct node_worker *worker, enum worker_stream stream, bool is_paused);
    void (*end)(struct node_worker *worker, enum worker_end how);
    pid_t (*pid)(const struct node_worker *worker);
    void (*release)(struct node_worker *worker);
    void (*hold)(struct node *node, bool is_held);
    void (*oom_explained)(struct node_worker *worker);
    uint64_t (*look)(struct node *node);
    void (*flush)(struct node *node);
    void (*tick)(struct node *node);
    void (*close)(struct node *node);
    /* NULL: the owner's files are those of this node. */
    int (*stage)(struct node *node, const struct stage_request *request, struct node_files **out,
                 struct err *err);
};

/* ERR_STOPPED if the machine lacks descriptors or processes for it; any other error is about this command alone. */
MUST_CHECK static inline int node_spawn(struct node *node, const struct spawn_request *request,
                                        struct node_worker **out, struct err *err)
{
    return node->ops->spawn(node, request, out, err);
}

/* Requests are borrowed until the functions return. *out NULL: the machine is the owner's, and no handler is called. */
MUST_CHECK static inline int node_stage(struct node *node, const struct stage_request *request,
                                        struct node_files **out, struct err *err)
{
    *out = NULL;
    return node->ops->stage ? node->ops->stage(node, request, out, err) : 0;
}

MUST_CHECK static inline int node_prepare(struct node_files *files,
                                          const struct prepare_request *request, struct err *err)
{
    return files->ops->prepare(files, request, err);
}

/* Call it when the worker has ended well, and will not be started again. */
static inline void node_collect(struct node_files *files)
{
    files->ops->collect(files);
}

/* Brings the file number `which` of those that were found to `path`. One at a time. */
static inline void node_fetch(struct node_files *files, size_t which, const char *path)
{
    files->ops->fetch(files, which, path);
}

/* Drops the files there. May be NULL. */
static inline void node_unstage(struct node_files *files)
{
    if (files)
        files->ops->unstage(files);
}

/* Returns how many bytes were taken; if not all, `writable` follows. Negative: the reader is gone. */
static inline ssize_t node_write(struct node_worker *worker, enum worker_stream stream,
                                 struct str bytes)
{
    return worker->ops->write(worker, stream, bytes);
}

/* Ends the stream: the worker will read its end. */
static inline void node_finish(struct node_worker *worker, enum worker_stream stream)
{
    worker->ops->finish(worker, stream);
}

/* Closes the stream in both directions. */
static inline void node_drop(struct node_worker *worker, enum worker_stream stream)
{
    worker->ops->drop(worker, stream);
}

static inline bool node_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    return worker && worker->ops->is_open(worker, stream);
}

/* Asks to be told once (INPUT_READ) when the worker has begun to read its input. */
static inline void node_ask_read(struct node_worker *worker, bool is_asked)
{
    worker->ops->ask_read(worker, is_asked);
}

/* Asks to be told whether the worker rests or works. The node looks at once, and then after pauses that double up to
 * pause_max_ms, until the worker rests. 0: stop asking. */
static inline void node_ask_rest(struct node_worker *worker, uint64_t pause_max_ms)
{
    worker->ops->ask_rest(worker, pause_max_ms);
}

/* Asks to be told when the worker is silent and waits, or may wait, for more input. */
static inline void node_ask_wait(struct node_worker *worker, bool is_asked)
{
    worker->ops->ask_wait(worker, is_asked);
}

/* Asks to be told every every_ms what the worker's processes have done, and where it stands. 0: stop asking. */
static inline void node_ask_stand(struct node_worker *worker, uint64_t every_ms)
{
    if (worker->ops->ask_stand)
        worker->ops->ask_stand(worker, every_ms);
}

/* Asks to be told once, within NODE_WHERE_MS, where the worker's threads stand: what py-spy prints, if it is installed, and
 * else what the kernel shows. Foreign text, at most NODE_WHERE_BYTES. */
static inline void node_ask_where(struct node_worker *worker)
{
    if (worker->ops->ask_where)
        worker->ops->ask_where(worker);
}

/* While a stream from the worker is paused, it is not read; what the worker left at its end still is. */
static inline void node_pause(struct node_worker *worker, enum worker_stream stream, bool is_paused)
{
    worker->ops->pause(worker, stream, is_paused);
}

static inline void node_end(struct node_worker *worker, enum worker_end how)
{
    worker->ops->end(worker, how);
}

/* END_POLITELY with another signal than TERM (base/end_signals.h). */
static inline void node_end_by(struct node_worker *worker, int signal)
{
    worker->end_signal = (uint8_t)signal;
    worker->ops->end(worker, END_POLITELY);
}

/* For messages; 0 before `started`. */
static inline pid_t node_pid(const struct node_worker *worker)
{
    return worker ? worker->ops->pid(worker) : 0;
}

/* To be called after `gone`; the owner must not use the worker any more. */
static inline void node_release(struct node_worker *worker)
{
    worker->ops->release(worker);
}

/* While the node is held, answers are not read. */
static inline void node_hold(struct node *node, bool is_held)
{
    node->ops->hold(node, is_held);
}

/* One kill for lack of memory explains this worker's death; it does not count for others any more. */
static inline void node_oom_explained(struct node_worker *worker)
{
    worker->ops->oom_explained(worker);
}

/* To be called before the loop sleeps. Returns when to call it next at the latest; UINT64_MAX: at any time. */
static inline uint64_t node_look(struct node *node)
{
    return node->ops->look(node);
}

/* To be called last before the loop sleeps: sends what was collected in this turn. */
static inline void node_flush(struct node *node)
{
    if (node->ops->flush)
        node->ops->flush(node);
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
