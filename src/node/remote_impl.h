/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a remote node:
 *   remote.c         transport, handshake, loss
 *   remote_start.c   before the agent's first byte: the script, the program if it is not there
 *   remote_worker.c  workers: orders to them, what comes from them
 *   remote_files.c   files of workers: those that are sent before, and fetched after
 *
 * Credit: for each stream of a worker, either side may send as many bytes as the other has granted: WIRE_CREDIT_BYTES
 * at first, and more as bytes are used up. So a worker that does not read, or a slow disk, holds back one stream
 * only, and the held bytes stay bounded.
 */
#pragma once

#include "node/bootstrap.h"
#include "node/link.h"
#include "node/remote.h"

enum remote_state {
    REMOTE_AWAY,     /* no connection */
    REMOTE_STARTING, /* the script there has not started the agent (bootstrap.h) */
    REMOTE_STARTED,  /* the agent has not said hello */
    REMOTE_ASKED,    /* for devices */
    REMOTE_UP
};

struct remote_worker {
    struct node_worker base;
    struct remote *remote;
    uint32_t id; /* its position in remote->workers */
    pid_t pid;
    unsigned n_warned;
    bool answers, is_started, is_gone;
    bool may_leave_error; /* its error file may still come */
    bool is_lost;         /* with the connection; the agent of a new one does not know it */
    struct remote_stream {
        bool is_open;
        bool is_finished; /* by us; the worker may have closed its end at the same time */
        bool is_paused;
        bool is_blocked;   /* a write took less than it was given */
        uint64_t may_send; /* credit of ours */
        uint64_t may_come; /* credit of the agent's */
        uint64_t used;     /* came and was used, not granted again yet */
        struct buf held;   /* came while it was paused */
    } streams[WORKER_STREAMS];
    uint64_t n_input_bytes;
    uint64_t asked[ASK_KINDS]; /* the last request of each kind */
};

/* The start: from the transport to the agent's first byte. */
struct remote_start {
    struct bootstrap bootstrap;
    struct buf script;
    struct str unsent;       /* of the script, or of a bundle */
    uint64_t limit_ms;       /* without a sign of life */
    uint64_t n_bundle_bytes; /* of the program that was sent; 0: it was there */
    char folder[512];        /* with the program; "": not known */
};

struct remote {
    struct node base;
    struct remote_opts opts;
    enum remote_state state;
    struct node_worker *transport; /* NULL: none */
    struct buf last_words;         /* an unfinished line of its standard error */
    char last_line[256];           /* the last whole line */
    struct remote_start start;
    struct link link;
    struct link_bytes n_bytes_before; /* of earlier connections */
    struct remote_peer peer;
    struct remote_worker **workers; /* by id; NULL: the id is free */
    uint32_t n_ids;
    struct remote_files *files; /* a list */
    uint32_t next_files;        /* the number of the next; numbers are not used again */
    uint32_t umask;             /* of this process */
    bool is_held;
    char place[128];     /* of the first agent (struct wire_taken) */
    bool were_elsewhere; /* a later agent was at another place, or the place of one is not known */
    bool may_be_tried;   /* remote_may_be_tried() */
    bool has_asked_more; /* for devices that become free; one more TAKEN may come */
};

/* ---- remote.c ---- */

extern const struct node_ops remote_ops;
void remote_send(struct remote *remote, enum frame_type type, uint32_t id, unsigned stream,
                 struct str body);
void remote_hello_send(struct remote *remote);
/* Hands bytes to the transport; returns how many it took. */
size_t remote_put(struct remote *remote, struct str bytes);
/* The agent broke the protocol. */
void remote_break(struct remote *remote, const struct frame *frame, const char *why);

/* ---- remote_start.c ---- */

void remote_start_begin(struct remote *remote);
void remote_start_feed(struct remote *remote, struct str bytes);
void remote_start_flush(struct remote *remote);
void remote_start_tick(struct remote *remote);
/* Adds the bytes that came and were not the script's lines. */
void remote_start_noise(const struct remote *remote, struct buf *out);
void remote_start_release(struct remote *remote);

/* ---- remote_worker.c ---- */

MUST_CHECK int remote_spawn(struct node *node, const struct spawn_request *request,
                            struct node_worker **out, struct err *err);
ssize_t remote_write(struct node_worker *worker, enum worker_stream stream, struct str bytes);
void remote_finish(struct node_worker *worker, enum worker_stream stream);
void remote_drop(struct node_worker *worker, enum worker_stream stream);
bool remote_is_open(const struct node_worker *worker, enum worker_stream stream);
void remote_ask_read(struct node_worker *worker, bool is_asked);
void remote_ask_rest(struct node_worker *worker, uint64_t pause_max_ms);
void remote_ask_wait(struct node_worker *worker, bool is_asked);
void remote_ask_stand(struct node_worker *worker, uint64_t every_ms);
void remote_ask_where(struct node_worker *worker);
void remote_pause(struct node_worker *worker, enum worker_stream stream, bool is_paused);
void remote_end(struct node_worker *worker, enum worker_end how);
pid_t remote_pid(const struct node_worker *worker);
void remote_release(struct node_worker *worker);
void remote_oom_explained(struct node_worker *worker);

/* A frame about a worker. */
void remote_worker_frame(struct remote *remote, const struct frame *frame);
void remote_worker_tick(struct remote_worker *worker);
/* The link takes data again. */
void remote_workers_resume(struct remote *remote);
/* The connection is lost, and with it all workers. */
void remote_workers_disconnect(struct remote *remote);

/* ---- remote_files.c ---- */

MUST_CHECK int remote_stage(struct node *node, const struct stage_request *request,
                            struct node_files **out, struct err *err);
/* The number of the files for the agent; WIRE_NO_WORKER for NULL. */
uint32_t remote_files_id(const struct node_files *files);
void remote_files_frame(struct remote *remote, const struct frame *frame);
void remote_files_tick(struct remote *remote);
/* The link takes data again. */
void remote_files_resume(struct remote *remote);
/* There is a connection again: goes on with files that were on their way. */
void remote_files_return(struct remote *remote);
/* The connection is lost, or is_final: it is being ended. Transfers wait for another connection, unless is_final. */
void remote_files_disconnect(struct remote *remote, bool is_final);
void remote_files_free(struct remote *remote);
