/* SPDX-License-Identifier: Apache-2.0
 *
 * A head and an agent that means ill: whatever frames come, and in whatever order, a worker's owner hears of its end
 * once and of nothing behind it, what is kept for it stays bounded, and a stream that breaks the protocol is given up.
 *
 * The input is a list of steps: frames of the agent with right checksums, and actions of the owner. Before them the agent
 * may have to be started by a script, whose words are the input's too.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "node/remote_impl.h"

enum {
    WORKERS_MAX = 4,
    FILES_MAX = 3
};

/* The transport: a worker of a machine that has no other. */
static struct node_worker transport;
static bool transport_is_there, transport_is_read;
static struct buf to_agent;

/* A worker on the far side, as its owner sees it. */
static struct owner {
    struct node_worker *process;
    bool is_gone, has_left_error;
    uint64_t n_bytes;
} owners[WORKERS_MAX];
static unsigned n_taken, n_lost;

/* ---- the transport ---- */

static int near_spawn(struct node *node, const struct spawn_request *request,
                      struct node_worker **out, struct err *err)
{
    (void)node, (void)err;
    transport.handlers = request->handlers;
    transport.context = request->context;
    transport_is_there = true;
    *out = &transport;
    return 0;
}

static ssize_t near_write(struct node_worker *worker, enum worker_stream stream, struct str bytes)
{
    (void)worker, (void)stream;
    if (!transport_is_read)
        return 0;
    buf_add_str(&to_agent, bytes);
    return (ssize_t)bytes.len;
}

static void near_finish(struct node_worker *worker, enum worker_stream stream)
{
    (void)worker, (void)stream;
}

static bool near_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    return worker && stream == STREAM_IN;
}

static void near_end(struct node_worker *worker, enum worker_end how)
{
    (void)worker, (void)how;
}

static void near_release(struct node_worker *worker)
{
    (void)worker;
    transport_is_there = false;
}

static const struct node_ops near_ops = {.spawn = near_spawn,
                                         .write = near_write,
                                         .finish = near_finish,
                                         .is_open = near_is_open,
                                         .end = near_end,
                                         .release = near_release};

/* ---- the owner ---- */

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct owner *owner = context;
    ASSERT(!owner->is_gone && owner->process && stream != STREAM_IN);
    owner->n_bytes += bytes.len;
}

static void on_writable(void *context, enum worker_stream stream)
{
    const struct owner *owner = context;
    ASSERT(!owner->is_gone && owner->process);
    ssize_t put = node_write(owner->process, stream, STR("more"));
    ASSERT(put >= 0 && put <= 4);
}

static void on_closed(void *context, enum worker_stream stream)
{
    const struct owner *owner = context;
    ASSERT(!owner->is_gone && !node_is_open(owner->process, stream));
}

static void on_input(void *context, enum input_fact fact)
{
    ASSERT(!((struct owner *)context)->is_gone && fact <= INPUT_WAITS_PERHAPS);
}

static void on_stands(void *context, const struct proc_stand *stand)
{
    ASSERT(!((struct owner *)context)->is_gone && stand->state && stand->pid >= 0);
    ASSERT(strlen(stand->place) < sizeof(stand->place));
}

static void on_where(void *context, struct str text)
{
    ASSERT(!((struct owner *)context)->is_gone && text.len <= NODE_WHERE_BYTES);
}

static void on_error_file(void *context, struct str bytes, int64_t clock_ahead_ms)
{
    struct owner *owner = context;
    (void)clock_ahead_ms;
    ASSERT(!owner->is_gone && !owner->has_left_error &&
           bytes.len <= wire_body_max(FRAME_ERROR_FILE));
    owner->has_left_error = true;
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct owner *owner = context;
    (void)exit;
    ASSERT(!owner->is_gone);
    owner->is_gone = true;
}

static void on_warned(void *context, const char *text)
{
    ASSERT(!((struct owner *)context)->is_gone && strlen(text) <= 4096);
}

static const struct worker_handlers worker_handlers = {.output = on_output,
                                                       .writable = on_writable,
                                                       .closed = on_closed,
                                                       .input = on_input,
                                                       .stands = on_stands,
                                                       .where = on_where,
                                                       .gone = on_gone,
                                                       .error_file = on_error_file,
                                                       .warned = on_warned};

static void on_taken(void *context, const struct wire_taken *taken)
{
    (void)context;
    ASSERT(taken->n_seats > 0);
    n_taken++;
}

static void on_lost(void *context, const struct err *why)
{
    (void)context;
    ASSERT(why->code != 0 && why->text[0]);
    n_lost++;
}

static void on_sampled(void *context, const struct device_sample *sample)
{
    (void)context, (void)sample;
}

static void on_said(void *context, struct str line)
{
    (void)context;
    ASSERT(line.len > 0 && line.len <= 4096 && !memchr(line.at, '\n', line.len));
}

static const struct remote_handlers remote_handlers = {
    .taken = on_taken, .lost = on_lost, .sampled = on_sampled, .said = on_said};

static void worker_spawn(struct node *node, struct owner *owner)
{
    static const char *const argv[] = {"cat", NULL}, *const envp[] = {"A=1", NULL};
    static const struct seat seat = {.host = 1};
    const struct spawn_request request = {.argv = argv,
                                          .envp = envp,
                                          .seat = &seat,
                                          .has_input = true,
                                          .answers = true,
                                          .channel = CHANNEL_DESCRIPTOR,
                                          .error_variable = owner == owners ? "ERROR" : NULL,
                                          .handlers = &worker_handlers,
                                          .context = owner};
    struct err err = {0};
    if (owner->process)
        return;
    owner->is_gone = owner->has_left_error = false;
    if (node_spawn(node, &request, &owner->process, &err) != 0)
        owner->process = NULL;
}

static void worker_use(struct owner *owner, unsigned action, unsigned stream)
{
    static char bytes[100000];
    if (!owner->process)
        return;
    if (owner->is_gone) {
        node_release(steal_ptr(&owner->process));
        return;
    }
    switch (action) {
    case 0:
        if (node_is_open(owner->process, STREAM_IN))
            ASSERT(node_write(owner->process, STREAM_IN, (struct str){bytes, sizeof(bytes)}) <=
                   (ssize_t)sizeof(bytes));
        return;
    case 1:
        node_finish(owner->process, STREAM_IN);
        return;
    case 2:
        node_drop(owner->process, stream);
        return;
    case 3:
        node_ask_rest(owner->process, stream * 100);
        node_ask_stand(owner->process, stream * 100);
        node_ask_where(owner->process);
        return;
    case 4:
        node_pause(owner->process, stream, true);
        return;
    case 5:
        node_pause(owner->process, stream, false);
        return;
    default:
        node_end(owner->process, END_AT_ONCE);
        return;
    }
}

/* ---- files ---- */

/* The files of a worker, as their owner sees them. */
static struct files_owner {
    struct node_files *files;
    unsigned n_staged, n_ready, n_found, n_fetched, n_failed;
    size_t n_left;
    bool is_due; /* for node_prepare or node_fetch */
} files_owners[FILES_MAX];
static uv_loop_t loop;

static void on_staged(void *context, const char *folder)
{
    struct files_owner *owner = context;
    ASSERT(owner->files && owner->n_staged++ == 0 && owner->n_failed == 0);
    ASSERT(!folder || (folder[0] == '/' && strlen(folder) < 4096));
    owner->is_due = folder != NULL;
    if (!folder)
        node_unstage(steal_ptr(&owner->files));
}

static void on_ready(void *context, int64_t since_ns)
{
    struct files_owner *owner = context;
    ASSERT(owner->n_staged == 1 && owner->n_ready++ == 0 && owner->n_failed == 0 && since_ns >= 0);
}

static void on_found(void *context, const struct left_file *files, size_t n_files)
{
    struct files_owner *owner = context;
    ASSERT(owner->n_ready == 1 && owner->n_found++ == 0 && owner->n_failed == 0);
    for (size_t i = 0; i < n_files; i++)
        ASSERT(strlen(files[i].trace.path) < 4096 && files[i].name);
    owner->n_left = n_files;
    owner->is_due = true;
}

static void on_fetched(void *context)
{
    struct files_owner *owner = context;
    ASSERT(owner->n_found == 1 && owner->n_fetched < owner->n_left && owner->n_failed == 0);
    owner->n_fetched++;
    owner->is_due = true;
}

static void on_files_failed(void *context, const struct err *why)
{
    struct files_owner *owner = context;
    ASSERT(owner->files && owner->n_failed++ == 0 && why->code != 0 && why->code != ERR_STOPPED);
}

static const struct node_files_handlers files_handlers = {.staged = on_staged,
                                                          .ready = on_ready,
                                                          .found = on_found,
                                                          .fetched = on_fetched,
                                                          .failed = on_files_failed};

static void files_begin(struct node *node, struct files_owner *owner)
{
    static const struct seat seat = {.host = 1};
    const struct stage_request request = {.seat = &seat,
                                          .probe_path = "/run/probe",
                                          .probe_token = "0123",
                                          .handlers = &files_handlers,
                                          .context = owner};
    struct err err = {0};
    *owner = (struct files_owner){0};
    if (node_stage(node, &request, &owner->files, &err) != 0)
        owner->files = NULL;
}

/* What its owner does next. A file is never whole here: its path is in no folder. */
static void files_use(struct node *node, struct files_owner *owner, unsigned action)
{
    static const struct left_ask asks[] = {{.option = "--collect", .pattern = "a*"}, {.path = "o"}};
    const struct prepare_request request = {
        .input_name = "", .output_name = "o", .asks = asks, .n_asks = countof(asks)};
    struct err err = {0};
    if (!owner->files) {
        files_begin(node, owner);
    } else if (action == 0 || owner->n_failed > 0) {
        node_unstage(steal_ptr(&owner->files));
    } else if (action == 1 && owner->n_ready == 1 && owner->n_found == 0) {
        if (!owner->is_due)
            node_collect(owner->files);
        owner->is_due = true;
    } else if (owner->is_due && owner->n_found == 1 && owner->n_fetched < owner->n_left) {
        node_fetch(owner->files, owner->n_fetched, "/proc/none/file");
        owner->is_due = false;
    } else if (owner->is_due && owner->n_staged == 1 && owner->n_ready == 0) {
        ASSERT(node_prepare(owner->files, &request, &err) == 0);
        owner->is_due = false;
    }
}

/* ---- steps ---- */

static unsigned byte_take(struct str *input)
{
    return fuzz_choice(input);
}

/* One that is as it should be, so that what comes behind it is reached. */
static void handshake(struct wire_writer *writer, struct buf *out)
{
    cleanup_buf struct buf bytes = BUF_INIT;
    struct wire_body body = wire_body_to(&bytes);
    struct wire_hello hello = {.protocol = WIRE_PROTOCOL};
    struct device device = {.uuid = "cpu-0"};
    struct seat seat = {.n_devices = 1, .label = "cpu_0"};
    struct wire_taken taken = {&device, &seat, 1, 1, NULL};
    wire_hello(&body, &hello);
    wire_add(writer, out, &(struct frame){FRAME_HELLO, 0, WIRE_NO_WORKER, buf_str(&bytes)});
    buf_reset(&bytes);
    wire_taken(&body, &taken);
    wire_add(writer, out, &(struct frame){FRAME_TAKEN, 0, WIRE_NO_WORKER, buf_str(&bytes)});
}

static void frame_play(struct wire_writer *writer, struct str *input)
{
    cleanup_buf struct buf out = BUF_INIT, body = BUF_INIT;
    enum frame_type type = byte_take(input) % FRAME_TYPES_COUNT;
    unsigned stream = byte_take(input), worker = byte_take(input), len = byte_take(input);
    size_t n = MIN((size_t)len, input->len);
    static char long_data[WIRE_DATA_MAX_BYTES];
    if (!transport_is_there)
        return;
    buf_add(&body, input->at, n);
    *input = (struct str){input->at + n, input->len - n};
    if (type == FRAME_DATA && len == 255) {
        buf_reset(&body);
        buf_add(&body, long_data, sizeof(long_data));
    }
    if (body.len > wire_body_max(type))
        buf_consume(&body, body.len - wire_body_max(type));
    wire_add(writer, &out,
             &(struct frame){type, (uint8_t)(stream % 6),
                             worker == 255 ? WIRE_NO_WORKER : worker % 6, buf_str(&body)});
    transport.handlers->output(transport.context, STREAM_OUT, buf_str(&out));
}

/* What the script there says: some bytes of the input, then that it starts the agent. */
static void script_play(struct node *node, struct str *input)
{
    static const struct str go = {BOOTSTRAP_MARK "go kept /a\n",
                                  sizeof(BOOTSTRAP_MARK "go kept /a\n") - 1};
    size_t wanted = byte_take(input), n = MIN(wanted, input->len);
    node_flush(node);
    transport.handlers->output(transport.context, STREAM_OUT, (struct str){input->at, n});
    *input = (struct str){input->at + n, input->len - n};
    transport.handlers->writable(transport.context, STREAM_IN);
    transport.handlers->output(transport.context, STREAM_OUT, go);
}

static void invariants_check(const struct remote *remote)
{
    for (uint32_t id = 0; id < remote->n_ids; id++)
        for (unsigned stream = 0; remote->workers[id] && stream < WORKER_STREAMS; stream++)
            ASSERT(remote->workers[id]->streams[stream].held.len <= WIRE_CREDIT_BYTES);
    ASSERT(remote->link.out.len - remote->link.n_sent <= LINK_QUEUE_BYTES + (4 << 20));
    if (remote->state == REMOTE_AWAY)
        for (unsigned i = 0; i < WORKERS_MAX; i++)
            ASSERT(!owners[i].process || owners[i].is_gone);
}

static void play(struct node *node, struct wire_writer *writer, struct str *input)
{
    unsigned first = byte_take(input);
    struct owner *owner = &owners[first / 8 % WORKERS_MAX];
    switch (first % 8) {
    case 0:
    case 1:
    case 2:
        frame_play(writer, input);
        break;
    case 4:
        worker_spawn(node, owner);
        break;
    case 5:
        worker_use(owner, first / 32, byte_take(input) % WORKER_STREAMS);
        break;
    case 6:
        transport_is_read = first & 16;
        node_hold(node, first & 32);
        node_flush(node);
        break;
    case 3:
        files_use(node, &files_owners[first / 8 % FILES_MAX], first / 64);
        uv_run(&loop, UV_RUN_NOWAIT);
        break;
    default:
        if (transport_is_there && first & 64)
            transport.handlers->output(transport.context, STREAM_ERR, *input);
        if (transport_is_there)
            transport.handlers->writable(transport.context, STREAM_IN);
        node_tick(node);
        break;
    }
    invariants_check((const struct remote *)node);
}

/* One whose bytes are there already. */
static struct bundles *bundles_of_test(void)
{
    static struct bundle bundle = {.machine = "m"};
    static struct bundles bundles = {.at = &bundle, .len = 1, .program = "0123"};
    if (bundle.packed[BUNDLE_GZIP].len == 0)
        for (unsigned i = 0; i < 10000; i++)
            buf_add_text(&bundle.packed[BUNDLE_GZIP], "a program ");
    return &bundles;
}

int fuzz_target(const uint8_t *data, size_t size)
{
    static struct node near = {&near_ops};
    static const char *const words[] = {"transport", NULL};
    struct str input = {(const char *)data, MIN(size, (size_t)4096)};
    const struct remote_opts opts = {.local = &near,
                                     .argv = words,
                                     .envp = words,
                                     .version = "1",
                                     .bundles = byte_take(&input) % 2 ? bundles_of_test() : NULL,
                                     .loop = &loop,
                                     .silence_limit_ms = 30000,
                                     .handlers = &remote_handlers};
    struct wire_writer writer;
    cleanup_buf struct buf begin = BUF_INIT;
    struct err err = {0};
    transport = (struct node_worker){.ops = &near_ops};
    memset(owners, 0, sizeof(owners));
    memset(files_owners, 0, sizeof(files_owners));
    ASSERT(uv_loop_init(&loop) == 0);
    transport_is_read = true;
    n_taken = n_lost = 0;
    struct node *node = remote_open(&opts);
    ASSERT(remote_connect(node, &err) == 0);
    if (opts.bundles)
        script_play(node, &input);
    wire_begin(&writer, &begin);
    if (byte_take(&input) % 8 != 0)
        handshake(&writer, &begin);
    transport.handlers->output(transport.context, STREAM_OUT, buf_str(&begin));
    for (unsigned i = 0; input.len > 0 && i < 1000; i++)
        play(node, &writer, &input);
    if (transport_is_there)
        transport.handlers->gone(transport.context, &(struct worker_exit){.has_exited = true});
    ASSERT(n_taken <= 1 && n_lost == 1 && !transport_is_there);
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        ASSERT(!owners[i].process || owners[i].is_gone);
        if (owners[i].process)
            node_release(owners[i].process);
    }
    for (unsigned i = 0; i < FILES_MAX; i++)
        node_unstage(files_owners[i].files);
    node_close(node);
    uv_run(&loop, UV_RUN_DEFAULT);
    ASSERT(uv_loop_close(&loop) == 0);
    buf_release(&to_agent);
    return 0;
}
