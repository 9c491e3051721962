/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of workers of a remote node. The agent is asked whether it sees the owner's files; if it does not, it makes a
 * folder, the input is sent there, and what the worker left is fetched, file by file.
 *
 * A found file is known by its path and state, and a transfer by its position. So a transfer goes on over another
 * connection, to another agent of that machine, if the file is still there and unchanged. All other steps fail with
 * the connection.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "node/file_flow.h"
#include "node/remote_impl.h"

enum {
    FETCHES_MAX = 2 /* at once over a link: each may hold FILE_WINDOW_BYTES */
};

enum files_state {
    FILES_ASKED,     /* whether the owner's files are seen */
    FILES_STAGED,    /* they are not seen */
    FILES_PREPARING, /* the input is sent */
    FILES_READY,
    FILES_COLLECTING,
    FILES_FOUND,
    FILES_FETCHING,
    FILES_OVER /* failed, or not needed */
};

struct remote_files {
    struct node_files base;
    struct remote *remote;
    struct remote_files *next;
    uint32_t id;
    enum files_state state;
    bool is_lost;               /* with the connection; the agent of a new one does not know them */
    bool is_asked;              /* for the file to fetch, over this connection */
    struct err due;             /* a failure to be told at the next tick; code 0: none */
    struct file_sender *sender; /* of the input */
    struct wire_found found;    /* what the worker left */
    struct file_receiver *receiver; /* of the file that is being fetched */
    size_t which;                   /* its number */
};

static struct remote_files *files_of(struct node_files *files)
{
    return (struct remote_files *)files;
}

uint32_t remote_files_id(const struct node_files *files)
{
    return files ? ((const struct remote_files *)files)->id : WIRE_NO_WORKER;
}

static void frame_send(const struct remote_files *f, enum frame_type type, struct str body)
{
    if (!f->is_lost && f->remote->state == REMOTE_UP)
        remote_send(f->remote, type, f->id, 0, body);
}

static void transfers_drop(struct remote_files *f)
{
    file_sender_free(steal_ptr(&f->sender));
    file_receiver_free(steal_ptr(&f->receiver));
}

static void fetches_start(struct remote *remote);

/* Tells a failure. The owner may free the files in its handler. */
static void fail_tell(struct remote_files *f, const struct err *why)
{
    struct remote *remote = f->remote;
    struct err told = *why;
    bool was_fetching = f->state == FILES_FETCHING;
    transfers_drop(f);
    f->state = FILES_OVER;
    f->base.handlers->failed(f->base.context, &told);
    if (was_fetching)
        fetches_start(remote);
}

/* ---- the input ---- */

static void flow_send(void *context, enum frame_type type, struct str body)
{
    frame_send(context, type, body);
}

static bool flow_has_room(void *context)
{
    const struct remote_files *f = context;
    return link_has_room(&f->remote->link);
}

static void on_sent(void *context, const struct err *why)
{
    if (why->code)
        fail_tell(context, why);
}

static const struct file_flow_handlers sender_handlers = {
    .send = flow_send, .has_room = flow_has_room, .ended = on_sent};

static int input_send(struct remote_files *f, const char *path, struct err *err)
{
    struct file_trace trace = {0};
    int fd, rc = file_trace_open(path, &trace, &fd, err);
    if (rc)
        return rc;
    f->sender = file_sender_new(f->remote->opts.loop, fd, &trace, 0, &sender_handlers, f);
    free(trace.path);
    file_sender_pump(f->sender);
    return 0;
}

static int prepare_send(struct remote_files *f, const struct prepare_request *request,
                        struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
    cleanup_free const char **options = xcalloc(request->n_asks + 1, sizeof(*options));
    cleanup_free const char **patterns = xcalloc(request->n_asks + 1, sizeof(*patterns));
    struct wire_body body = wire_body_to(&out);
    struct wire_prepare prepare = {
        .options = options, .patterns = patterns, .since_ns = (uint64_t)request->since_ns};
    for (size_t i = 0; i < request->n_asks; i++) {
        options[i] = request->asks[i].option;
        patterns[i] = request->asks[i].pattern ? request->asks[i].pattern : "";
    }
    snprintf(prepare.input_name, sizeof(prepare.input_name), "%s", request->input_name);
    snprintf(prepare.output_name, sizeof(prepare.output_name), "%s", request->output_name);
    wire_prepare(&body, &prepare);
    if (out.len > wire_body_max(FRAME_PREPARE))
        return fail(err, ERR_USAGE, "the names of its files are longer than %zu bytes",
                    wire_body_max(FRAME_PREPARE));
    frame_send(f, FRAME_PREPARE, buf_str(&out));
    return 0;
}

static int remote_prepare(struct node_files *files, const struct prepare_request *request,
                          struct err *err)
{
    struct remote_files *f = files_of(files);
    ASSERT(f->state == FILES_STAGED);
    f->state = FILES_PREPARING;
    int rc = prepare_send(f, request, err);
    if (rc == 0 && request->input_path)
        rc = input_send(f, request->input_path, err);
    return rc;
}

/* ---- what is fetched ---- */

static void fetch_send(struct remote_files *f)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct wire_fetch fetch = {f->found.files[f->which].trace, file_receiver_resume(f->receiver)};
    wire_fetch(&body, &fetch);
    f->is_lost = false;
    f->is_asked = true;
    frame_send(f, FRAME_FETCH, buf_str(&out));
}

/* Asks for files that wait for their turn, or for a connection. */
static void fetches_start(struct remote *remote)
{
    size_t n_asked = 0;
    if (remote->state != REMOTE_UP)
        return;
    for (const struct remote_files *f = remote->files; f; f = f->next)
        n_asked += f->state == FILES_FETCHING && f->is_asked;
    for (struct remote_files *f = remote->files; f && n_asked < FETCHES_MAX; f = f->next) {
        if (f->state != FILES_FETCHING || f->is_asked || file_receiver_is_whole(f->receiver))
            continue;
        fetch_send(f);
        n_asked++;
    }
}

static void on_received(void *context, const struct err *why)
{
    struct remote_files *f = context;
    struct remote *remote = f->remote;
    if (why->code) {
        fail_tell(f, why);
        return;
    }
    file_receiver_free(steal_ptr(&f->receiver));
    f->state = FILES_FOUND;
    f->is_asked = false;
    f->base.handlers->fetched(f->base.context);
    fetches_start(remote);
}

static const struct file_flow_handlers receiver_handlers = {.send = flow_send,
                                                            .ended = on_received};

static void remote_fetch(struct node_files *files, size_t which, const char *path)
{
    struct remote_files *f = files_of(files);
    ASSERT(f->state == FILES_FOUND && which < f->found.n_files);
    f->state = FILES_FETCHING;
    f->which = which;
    f->receiver = file_receiver_new(f->remote->opts.loop, path, f->found.files[which].trace.bytes,
                                    true, &receiver_handlers, f);
    fetches_start(f->remote);
}

static void remote_collect(struct node_files *files)
{
    struct remote_files *f = files_of(files);
    if (f->state != FILES_READY) { /* an agent that has given the files up does not answer */
        fail(&f->due, ERR_UNAVAILABLE, "its host had given its files up before it ended");
    } else if (f->is_lost || f->remote->state != REMOTE_UP) {
        fail(&f->due, ERR_UNAVAILABLE, "the connection to its host was lost");
    } else {
        f->state = FILES_COLLECTING;
        frame_send(f, FRAME_COLLECT, STR(""));
    }
}

/* ---- their life ---- */

static void files_free(struct remote_files *f)
{
    transfers_drop(f);
    wire_found_release(&f->found);
    free(f);
}

static void remote_unstage(struct node_files *files)
{
    struct remote_files *f = files_of(files), **at = &f->remote->files;
    frame_send(f, FRAME_UNSTAGE, STR(""));
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    files_free(f);
}

static const struct node_files_ops files_ops = {.prepare = remote_prepare,
                                                .collect = remote_collect,
                                                .fetch = remote_fetch,
                                                .unstage = remote_unstage};

int remote_stage(struct node *node, const struct stage_request *request, struct node_files **out,
                 struct err *err)
{
    struct remote *remote = (struct remote *)node;
    cleanup_buf struct buf bytes = BUF_INIT;
    struct wire_body body = wire_body_to(&bytes);
    struct wire_stage stage = {.needs_cwd = request->needs_cwd};
    if (remote->state != REMOTE_UP)
        return fail(err, ERR_UNAVAILABLE, "there is no connection to its host");
    struct remote_files *f = xcalloc(1, sizeof(*f));
    *f = (struct remote_files){.base = {&files_ops, request->handlers, request->context},
                               .remote = remote,
                               .next = remote->files,
                               .id = remote->next_files++};
    remote->files = f;
    snprintf(stage.probe_path, sizeof(stage.probe_path), "%s", request->probe_path);
    snprintf(stage.probe_token, sizeof(stage.probe_token), "%s", request->probe_token);
    wire_stage(&body, &stage);
    frame_send(f, FRAME_STAGE, buf_str(&bytes));
    *out = &f->base;
    return 0;
}

/* ---- frames from the agent ---- */

static void on_staged(struct remote_files *f, const struct frame *frame, struct wire_body *body)
{
    struct wire_staged staged = {0};
    wire_staged(body, &staged);
    if (!wire_body_is_whole(body) || f->state != FILES_ASKED) {
        remote_break(f->remote, frame, "that is malformed");
        return;
    }
    f->state = staged.is_shared ? FILES_OVER : FILES_STAGED;
    f->base.handlers->staged(f->base.context, staged.is_shared ? NULL : staged.folder);
}

static void on_ready(struct remote_files *f, const struct frame *frame, struct wire_body *body)
{
    uint64_t since_ns = 0;
    wire_u64(body, &since_ns);
    if (!wire_body_is_whole(body) || since_ns > INT64_MAX || f->state != FILES_PREPARING) {
        remote_break(f->remote, frame, "that was not expected");
        return;
    }
    file_sender_free(steal_ptr(&f->sender));
    f->state = FILES_READY;
    f->base.handlers->ready(f->base.context, (int64_t)since_ns);
}

static void on_found(struct remote_files *f, const struct frame *frame, struct wire_body *body)
{
    struct wire_found found = {0};
    wire_found(body, &found);
    if (!wire_body_is_whole(body) || f->state != FILES_COLLECTING) {
        wire_found_release(&found);
        remote_break(f->remote, frame, "that is malformed");
        return;
    }
    f->found = found;
    f->state = FILES_FOUND;
    f->base.handlers->found(f->base.context, found.files, found.n_files);
}

static void on_data(struct remote_files *f, const struct frame *frame, struct wire_body *body)
{
    (void)body;
    if (!f->receiver || !f->is_asked || !file_receiver_take(f->receiver, frame->body))
        remote_break(f->remote, frame, "with more bytes than were granted, or than the file had");
}

static void on_credit(struct remote_files *f, const struct frame *frame, struct wire_body *body)
{
    uint64_t granted = 0;
    wire_u64(body, &granted);
    if (f->sender && !file_sender_grant(f->sender, granted))
        remote_break(f->remote, frame, "for more than was sent");
}

static void on_end(struct remote_files *f, const struct frame *frame, struct wire_body *body)
{
    struct wire_file_end end = {0};
    wire_file_end(body, &end);
    if (!wire_body_is_whole(body) || !f->receiver || !f->is_asked ||
        !file_receiver_end(f->receiver, end.n_bytes, end.hash))
        remote_break(f->remote, frame, "that was not expected");
}

/* A failure there. A full disk of another machine does not stop the run. */
static void on_failed(struct remote_files *f, const struct frame *frame, struct wire_body *body)
{
    struct err err = {0};
    wire_error(body, &err);
    if (!wire_body_is_whole(body)) {
        remote_break(f->remote, frame, "that is malformed");
        return;
    }
    if (err.code == ERR_STOPPED)
        err.code = ERR_UNAVAILABLE;
    if (f->state != FILES_OVER)
        fail_tell(f, &err);
}

static void (*const frame_handlers[FRAME_TYPES_COUNT])(struct remote_files *f,
                                                       const struct frame *frame,
                                                       struct wire_body *body) = {
    [FRAME_STAGED] = on_staged,       [FRAME_READY] = on_ready,        [FRAME_FOUND] = on_found,
    [FRAME_FILE_DATA] = on_data,      [FRAME_FILE_CREDIT] = on_credit, [FRAME_FILE_END] = on_end,
    [FRAME_FILES_FAILED] = on_failed,
};

void remote_files_frame(struct remote *remote, const struct frame *frame)
{
    struct wire_body body = wire_body_of(frame->body);
    struct remote_files *f = remote->files;
    while (f && f->id != frame->worker)
        f = f->next;
    if (!frame_handlers[frame->type])
        remote_break(remote, frame, "that only the head sends");
    else if (frame->worker >= remote->next_files || (f && f->is_lost))
        remote_break(remote, frame, "about files that are not there");
    else if (f && f->state != FILES_OVER) /* else they were dropped meanwhile */
        frame_handlers[frame->type](f, frame, &body);
}

/* ---- the connection ---- */

/* The handlers may free the files that they are told of. */
void remote_files_tick(struct remote *remote)
{
    struct remote_files *f = remote->files;
    while (f) {
        struct err why = f->due;
        f->due = (struct err){0};
        if (why.code)
            fail_tell(f, &why);
        f = why.code ? remote->files : f->next;
    }
}

void remote_files_resume(struct remote *remote)
{
    for (struct remote_files *f = remote->files; f; f = f->next)
        if (f->sender)
            file_sender_pump(f->sender);
}

void remote_files_return(struct remote *remote)
{
    fetches_start(remote);
}

void remote_files_disconnect(struct remote *remote, bool is_final)
{
    bool is_up = remote->state == REMOTE_UP;
    for (struct remote_files *f = remote->files; f; f = f->next) {
        bool is_coming = f->state == FILES_FETCHING;
        bool rests = f->state == FILES_READY || f->state == FILES_FOUND || f->state == FILES_OVER;
        bool waits = is_coming && (!is_final || file_receiver_is_whole(f->receiver));
        f->is_lost = f->is_lost || !is_up;
        f->is_asked = f->is_asked && is_up;
        if (!waits && !rests)
            fail(&f->due, ERR_UNAVAILABLE, "the connection to its host %s",
                 is_up ? "is being ended" : "was lost");
    }
    remote_files_tick(remote);
}

void remote_files_free(struct remote *remote)
{
    while (remote->files) {
        struct remote_files *f = remote->files;
        remote->files = f->next;
        frame_send(f, FRAME_UNSTAGE, STR(""));
        files_free(f);
    }
}
