/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of workers, on a machine that does not see the files of the head (node/remote_files.c is the head's end). The
 * agent finds out whether it sees them: the head sends a token and the path of a file that holds the token.
 * Everything that reads or writes a disk runs in another thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"
#include "node/background.h"
#include "node/file_flow.h"

enum files_state {
    FILES_PROBING,   /* finds out whether this machine sees the head's files */
    FILES_STAGED,    /* this machine does not see them */
    FILES_RECEIVING, /* receives the input */
    FILES_LOOKING,   /* looks at the files that exist before the worker starts */
    FILES_READY,
    FILES_COLLECTING,
    FILES_FOUND,
    FILES_OVER /* failed, or this machine sees the head's files */
};

struct agent_files {
    struct agent *agent;
    struct agent_files *next;
    uint32_t id;
    enum files_state state;
    bool is_shared;
    struct wire_stage stage;
    struct wire_prepare names;
    char *input_path, *output_path;
    struct left_ask *asks;      /* [n_asks] */
    struct file_traces *before; /* [n_asks] */
    size_t n_asks;
    struct wire_found found;
    struct file_receiver *receiver; /* of the input */
    struct file_sender *sender;     /* of a file that was found */
    struct background beside;
    int rc; /* the result of the other thread's work */
    struct err err;
};

static void frame_send(const struct agent_files *f, enum frame_type type, struct str body)
{
    agent_send(f->agent, type, f->id, 0, body);
}

/* Tells the head of the failure. The head then drops these files. */
static void give_up(struct agent_files *f, const struct err *why)
{
    struct err err = *why;
    f->state = FILES_OVER;
    if (errno_means_full(err.sys) && scratch_is_full(&f->agent->scratch))
        fail(&err, ERR_UNAVAILABLE, "%s: %s", f->agent->scratch.path, errno_room(err.sys));
    agent_error_send(f->agent, FRAME_FILES_FAILED, f->id, &err);
}

/* ---- their life ---- */

static struct agent_files *files_new(struct agent *agent, uint32_t id)
{
    struct agent_files *f = xcalloc(1, sizeof(*f));
    *f = (struct agent_files){.agent = agent, .next = agent->files, .id = id};
    agent->files = f;
    background_open(&f->beside, shell_uv_loop(agent->shell), f);
    return f;
}

static void files_closed(uv_handle_t *handle)
{
    struct agent_files *f = handle->data;
    for (size_t i = 0; i < f->n_asks; i++)
        file_traces_release(&f->before[i]);
    wire_prepare_release(&f->names);
    wire_found_release(&f->found);
    free(f->before);
    free(f->asks);
    free(f->input_path);
    free(f->output_path);
    free(f);
}

static void files_drop(struct agent_files *f)
{
    struct agent_files **at = &f->agent->files;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    file_receiver_free(f->receiver);
    file_sender_free(f->sender);
    background_close(&f->beside, files_closed);
    if (f->output_path)
        unlink(f->output_path);
    if (f->input_path)
        unlink(f->input_path);
}

static struct agent_files *files_find(const struct agent *agent, uint32_t id)
{
    struct agent_files *f = agent->files;
    while (f && f->id != id)
        f = f->next;
    return f;
}

bool agent_files_free(struct agent *agent)
{
    bool is_due = false;
    for (const struct agent_files *f = agent->files; f; f = f->next)
        is_due = is_due || f->state == FILES_FOUND;
    while (agent->files) {
        if (is_due) /* only the record goes: the files on the disk stay */
            free(steal_ptr(&agent->files->output_path));
        files_drop(agent->files);
    }
    return is_due;
}

/* ---- before the worker ---- */

static void look_run(void *context)
{
    struct agent_files *f = context;
    f->rc = 0;
    if (f->output_path) {
        cleanup_free char *folder = path_dirname(f->output_path);
        f->rc = mkdir_parents(folder, 0700, &f->err);
    }
    for (size_t i = 0; f->rc == 0 && i < f->n_asks && f->names.since_ns == 0; i++)
        f->rc = left_files_before(&f->asks[i], &f->before[i], &f->err);
}

static void on_looked(void *context)
{
    struct agent_files *f = context;
    if (f->rc) {
        give_up(f, &f->err);
        return;
    }
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    uint64_t since_ns = (uint64_t)clock_file_ns();
    wire_u64(&body, &since_ns);
    f->state = FILES_READY;
    frame_send(f, FRAME_READY, buf_str(&out));
}

static void look(struct agent_files *f)
{
    f->state = FILES_LOOKING;
    background_start(&f->beside, look_run, on_looked);
}

static void flow_send(void *context, enum frame_type type, struct str body)
{
    frame_send(context, type, body);
}

static bool flow_has_room(void *context)
{
    const struct agent_files *f = context;
    return link_has_room(&f->agent->link);
}

static void on_received(void *context, const struct err *why)
{
    struct agent_files *f = context;
    if (why->code)
        give_up(f, why);
    else
        look(f);
    file_receiver_free(steal_ptr(&f->receiver));
}

static const struct file_flow_handlers receiver_handlers = {.send = flow_send,
                                                            .ended = on_received};

/* Reads the file at the head's path. If it holds the head's token, it is the head's file. */
static void probe_run(void *context)
{
    struct agent_files *f = context;
    char found[sizeof(f->stage.probe_token)];
    struct err ignored = {0};
    cleanup_fd int fd = -1;
    size_t len = strlen(f->stage.probe_token);
    if (len == 0 || plain_file_open(f->stage.probe_path, &fd, &ignored) != 0)
        return;
    ssize_t got = read(fd, found, sizeof(found));
    f->is_shared = got == (ssize_t)len && memcmp(found, f->stage.probe_token, len) == 0;
}

static void staged_send(const struct agent_files *f)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct wire_staged staged = {.is_shared = f->is_shared};
    if (!f->is_shared)
        snprintf(staged.folder, sizeof(staged.folder), "%s", f->agent->scratch.path);
    wire_staged(&body, &staged);
    frame_send(f, FRAME_STAGED, buf_str(&out));
}

static void on_probed(void *context)
{
    struct agent_files *f = context;
    struct err err = {0};
    f->is_shared = f->is_shared && (!f->stage.needs_cwd || f->agent->cwd);
    if (!f->is_shared && agent_scratch_take(f->agent, &err) != 0) {
        give_up(f, &err);
        return;
    }
    f->state = f->is_shared ? FILES_OVER : FILES_STAGED;
    staged_send(f);
}

/* ---- after the worker ---- */

static void collect_run(void *context)
{
    struct agent_files *f = context;
    f->found.files = xcalloc(f->n_asks + 1, sizeof(*f->found.files));
    f->rc = 0;
    for (size_t i = 0; f->rc == 0 && i < f->n_asks; i++) {
        struct left_file *file = &f->found.files[f->found.n_files++];
        cleanup_fd int fd = -1;
        f->rc = left_file_find(&f->asks[i], &f->before[i], file, &f->err);
        if (file->is_absent)
            f->err.sys = ENOENT;
        if (f->rc == 0) /* a file that cannot be opened is reported now */
            f->rc = left_file_open(&file->trace, &fd, &f->err);
    }
}

static void on_collected(void *context)
{
    struct agent_files *f = context;
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    if (f->rc) {
        give_up(f, &f->err);
        return;
    }
    f->state = FILES_FOUND;
    wire_found(&body, &f->found);
    frame_send(f, FRAME_FOUND, buf_str(&out));
}

static void on_sent(void *context, const struct err *why)
{
    struct agent_files *f = context;
    if (why->code)
        give_up(f, why);
}

static const struct file_flow_handlers sender_handlers = {
    .send = flow_send, .has_room = flow_has_room, .ended = on_sent};

void agent_files_resume(struct agent *agent)
{
    for (struct agent_files *f = agent->files; f; f = f->next)
        if (f->sender)
            file_sender_pump(f->sender);
}

void agent_files_room_tell(struct agent *agent, uint32_t id)
{
    struct agent_files *f = files_find(agent, id);
    struct err err = {0};
    if (!f || f->state != FILES_READY || !scratch_is_full(&agent->scratch))
        return;
    fail(&err, ERR_UNAVAILABLE, "%s is full", agent->scratch.path);
    give_up(f, &err);
}

/* ---- frames ---- */

/* True if the name is a path below the folder, which cannot lead out of the folder. */
static bool is_below(const char *name)
{
    struct str rest = str_of(name), part;
    bool is_good = name[0] != '/';
    while (is_good && rest.len > 0 && str_next(&rest, '/', &part))
        is_good = part.len > 0 && !str_equal(part, STR("..")) && !str_equal(part, STR("."));
    return is_good;
}

static void names_take(struct agent_files *f)
{
    const char *folder = f->agent->scratch.path;
    if (f->names.input_name[0])
        f->input_path = path_join(folder, f->names.input_name);
    if (f->names.output_name[0])
        f->output_path = path_join(folder, f->names.output_name);
    while (f->names.patterns[f->n_asks])
        f->n_asks++;
    f->asks = xcalloc(f->n_asks + 1, sizeof(*f->asks));
    f->before = xcalloc(f->n_asks + 1, sizeof(*f->before));
    for (size_t i = 0; i < f->n_asks; i++) {
        const char *pattern = f->names.patterns[i];
        f->asks[i] = (struct left_ask){.option = f->names.options[i],
                                       .pattern = pattern[0] ? pattern : NULL,
                                       .path = f->output_path,
                                       .since_ns = (int64_t)f->names.since_ns};
    }
}

/* Without an output, every file must have a pattern. */
static bool names_are_good(const struct wire_prepare *names)
{
    bool are = is_below(names->input_name) && is_below(names->output_name);
    for (size_t i = 0; names->patterns[i]; i++)
        are = are && (names->patterns[i][0] || names->output_name[0]);
    return are;
}

static void take_stage(struct agent *agent, const struct frame *frame)
{
    struct wire_body body = wire_body_of(frame->body);
    struct agent_files *f = files_new(agent, frame->worker);
    wire_stage(&body, &f->stage);
    if (!wire_body_is_whole(&body)) {
        agent_break(agent, frame, "that is malformed");
        return;
    }
    cleanup_free char *run = path_dirname(f->stage.probe_path);
    agent_run_name(agent, run);
    background_start(&f->beside, probe_run, on_probed);
}

static void take_prepare(struct agent_files *f, const struct frame *frame, struct wire_body *body)
{
    if (f->state != FILES_STAGED || f->names.patterns) {
        agent_break(f->agent, frame, "that was not expected");
        return;
    }
    wire_prepare(body, &f->names);
    if (!wire_body_is_whole(body) || !names_are_good(&f->names)) {
        agent_break(f->agent, frame, "that is malformed");
        return;
    }
    names_take(f);
    if (!f->input_path) {
        look(f);
        return;
    }
    f->state = FILES_RECEIVING;
    f->receiver = file_receiver_new(shell_uv_loop(f->agent->shell), f->input_path, FILE_ANY_BYTES,
                                    false, &receiver_handlers, f);
}

static void take_collect(struct agent_files *f, const struct frame *frame, struct wire_body *body)
{
    (void)body;
    if (f->state != FILES_READY) {
        agent_break(f->agent, frame, "that was not expected");
        return;
    }
    f->state = FILES_COLLECTING;
    background_start(&f->beside, collect_run, on_collected);
}

static void take_fetch(struct agent_files *f, const struct frame *frame, struct wire_body *body)
{
    struct wire_fetch fetch = {0};
    struct err err = {0};
    int fd = -1;
    wire_fetch(body, &fetch);
    if (!wire_body_is_whole(body) || f->state != FILES_FOUND) {
        free(fetch.trace.path);
        agent_break(f->agent, frame, "that is malformed");
        return;
    }
    file_sender_free(steal_ptr(&f->sender));
    if (left_file_open(&fetch.trace, &fd, &err) != 0) {
        give_up(f, &err);
    } else {
        f->sender = file_sender_new(shell_uv_loop(f->agent->shell), fd, &fetch.trace, fetch.from,
                                    &sender_handlers, f);
        file_sender_pump(f->sender);
    }
    free(fetch.trace.path);
}

static void take_data(struct agent_files *f, const struct frame *frame, struct wire_body *body)
{
    (void)body;
    if (!f->receiver || !file_receiver_take(f->receiver, frame->body))
        agent_break(f->agent, frame, "with more bytes than were granted");
}

static void take_credit(struct agent_files *f, const struct frame *frame, struct wire_body *body)
{
    uint64_t granted = 0;
    wire_u64(body, &granted);
    if (f->sender && !file_sender_grant(f->sender, granted))
        agent_break(f->agent, frame, "for more than was sent");
}

static void take_end(struct agent_files *f, const struct frame *frame, struct wire_body *body)
{
    struct wire_file_end end = {0};
    wire_file_end(body, &end);
    if (!wire_body_is_whole(body) || !f->receiver ||
        !file_receiver_end(f->receiver, end.n_bytes, end.hash))
        agent_break(f->agent, frame, "that was not expected");
}

static void (*const takers[FRAME_TYPES_COUNT])(struct agent_files *f, const struct frame *frame,
                                               struct wire_body *body) = {
    [FRAME_PREPARE] = take_prepare, [FRAME_COLLECT] = take_collect,    [FRAME_FETCH] = take_fetch,
    [FRAME_FILE_DATA] = take_data,  [FRAME_FILE_CREDIT] = take_credit, [FRAME_FILE_END] = take_end,
};

void agent_files_frame(struct agent *agent, const struct frame *frame)
{
    struct wire_body body = wire_body_of(frame->body);
    struct agent_files *f = files_find(agent, frame->worker);
    if (!f && frame->type == FRAME_FETCH) { /* files that an earlier agent has found */
        f = files_new(agent, frame->worker);
        f->state = FILES_FOUND;
    }
    if (frame->type == FRAME_STAGE && !f)
        take_stage(agent, frame);
    else if (frame->type == FRAME_UNSTAGE && f)
        files_drop(f);
    else if (!takers[frame->type] || !f)
        agent_break(agent, frame, "that was not expected");
    else if (f->state != FILES_OVER) /* if they are over, the head has not heard of it yet */
        takers[frame->type](f, frame, &body);
}
