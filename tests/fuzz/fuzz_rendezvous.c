/* SPDX-License-Identifier: Apache-2.0
 *
 * Untrusted peers at a leader's port, and in the place of a leader: whatever bytes and frames come,
 * in whatever order, the owner hears of members that come and go in their order, nobody is a member
 * who does not know the token, and what a connection takes stays bounded.
 *
 * The input is a list of steps of up to three connections, over real sockets.
 */
#include "fuzz.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/end_signals.h"
#include "rendezvous/rendezvous_impl.h"

enum {
    CONNECTIONS = 3,
    STEPS_MAX = 200,
    NODES = 5,
    RANKS = 4
};

static const struct str right_token = {"a token of 16 bytes or more", 27};
static const struct str wrong_token = {"another token of as many", 24};

static struct {
    struct rendezvous *r;
    uv_loop_t loop;
    struct str token;
    bool is_member[NODES]; /* of the leader's */
    bool is_welcome, is_final;
    bool is_proven; /* a proof with the right token has been sent */
    uint64_t later_ms;
} end;

static struct connection {
    int fd; /* -1: not connected */
    struct wire_writer writer;
    struct buf heard; /* from the other end, all of it */
    struct buf said;  /* the bodies of the handshake */
    unsigned char nonce;
} connections[CONNECTIONS];
static int listener = -1;

/* ---- what the owner hears ---- */

static void on_joined(void *context, const struct rendezvous_member *member)
{
    (void)context;
    ASSERT(member->node > 0 && member->node < NODES && !end.is_member[member->node]);
    ASSERT(member->n_ranks >= 1 && member->n_ranks <= RENDEZVOUS_RANKS_MAX);
    ASSERT(end.token.len == 0 || end.is_proven);
    for (const char *c = member->host; *c; c++)
        ASSERT((unsigned char)*c >= ' ' || *c == '\t');
    end.is_member[member->node] = true;
}

static void on_exited(void *context, uint32_t node, const struct rendezvous_exit *exit)
{
    (void)context;
    ASSERT(node < NODES && end.is_member[node] && exit->generation == 1);
    ASSERT(exit->local_rank < end.r->leader.members[node]->member.n_ranks);
    ASSERT(exit->status >= 0 && exit->status <= 255 && exit->tail.len <= RENDEZVOUS_TEXT_MAX);
}

static void on_stands(void *context, uint32_t node, const struct rendezvous_stand *stand)
{
    (void)context;
    ASSERT(node < NODES && end.is_member[node] && stand->generation == 1 && stand->stand.state);
    ASSERT(stand->busy_percent >= -1 && stand->busy_percent <= 100);
    ASSERT(stand->local_rank < end.r->leader.members[node]->member.n_ranks);
}

static void on_where(void *context, uint32_t node, const struct rendezvous_where *where)
{
    (void)context;
    ASSERT(node < NODES && end.is_member[node] && where->generation == 1);
    ASSERT(where->local_rank < end.r->leader.members[node]->member.n_ranks);
    ASSERT(where->text.len <= NODE_WHERE_BYTES);
}

static void on_asked(void *context, uint32_t local_rank)
{
    (void)context;
    ASSERT(end.is_welcome && local_rank < RENDEZVOUS_RANKS_MAX);
}

static void on_left(void *context, uint32_t node, const struct err *why, bool has_closed)
{
    (void)context, (void)has_closed;
    ASSERT(node < NODES && end.is_member[node] && why->code != 0);
    end.is_member[node] = false;
}

static void on_welcomed(void *context, uint32_t node)
{
    (void)context;
    ASSERT(node < RENDEZVOUS_NODES_MAX && !end.is_welcome && !end.is_final);
    ASSERT(end.token.len == 0 || end.is_proven);
    end.is_welcome = true;
}

static void on_start(void *context, const struct rendezvous_start *start)
{
    (void)context;
    ASSERT(end.is_welcome && start->first_rank < start->world_size && start->master_port > 0);
}

static void on_end(void *context, const struct rendezvous_end *how)
{
    (void)context;
    ASSERT(end.is_welcome && (how->at_once || end_signal_is(how->signal)));
}

static void on_retry(void *context, uint64_t pause_ms, struct str why)
{
    (void)context, (void)pause_ms;
    ASSERT(end.is_welcome && why.len <= RENDEZVOUS_TEXT_MAX);
}

static void on_over(void *context, const struct rendezvous_over *over)
{
    (void)context;
    ASSERT(end.is_welcome && !end.is_final && over->status >= 0 && over->status <= 255);
    end.is_final = true;
    end.is_welcome = false;
}

static void on_lost(void *context, const struct err *why)
{
    (void)context;
    ASSERT(end.is_welcome && !end.is_final && why->code != 0);
    end.is_welcome = false;
}

static void on_failed(void *context, const struct err *why)
{
    (void)context;
    ASSERT(!end.is_welcome && !end.is_final && why->code != 0);
    end.is_final = true;
}

static void on_warned(void *context, const char *text)
{
    (void)context;
    for (const char *c = text; *c; c++)
        ASSERT((unsigned char)*c >= ' ' || *c == '\t');
}

static const struct rendezvous_handlers handlers = {.joined = on_joined,
                                                    .exited = on_exited,
                                                    .stands = on_stands,
                                                    .where = on_where,
                                                    .asked = on_asked,
                                                    .left = on_left,
                                                    .welcomed = on_welcomed,
                                                    .start = on_start,
                                                    .end = on_end,
                                                    .retry = on_retry,
                                                    .over = on_over,
                                                    .lost = on_lost,
                                                    .failed = on_failed,
                                                    .warned = on_warned};

static void memory_check(void)
{
    for (const struct peer *peer = end.r->peers; peer; peer = peer->next) {
        bool is_member = peer->state == PEER_MEMBER;
        ASSERT(peer->link.reader.in.cap <= (is_member ? 512u : 8u) * 1024);
        ASSERT(peer->said.cap <= 8 * 1024);
        ASSERT(peer->link.out.len - peer->link.n_sent <= 128 * 1024);
    }
    ASSERT(end.r->leader.n_pending <= CONNECTIONS + 1);
}

static void turn(void)
{
    rendezvous_tick(end.r, clock_now_ms() + end.later_ms);
    for (int i = 0; i < 3; i++)
        uv_run(&end.loop, UV_RUN_NOWAIT);
    rendezvous_flush(end.r, clock_now_ms() + end.later_ms);
    memory_check();
}

/* ---- untrusted peers ---- */

static struct sockaddr_in here(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* By a reset, which leaves no port in use. */
static void connection_leave(struct connection *connection)
{
    const struct linger now = {.l_onoff = 1};
    if (connection->fd >= 0) {
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(connection->fd);
    }
    buf_release(&connection->heard);
    buf_release(&connection->said);
    *connection = (struct connection){.fd = -1};
}

static void connection_come(struct connection *connection)
{
    connection_leave(connection);
    if (listener >= 0) {
        connection->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        return;
    }
    const struct sockaddr_in at = here(rendezvous_port(end.r));
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT(connection->fd >= 0);
    if (connect(connection->fd, (const struct sockaddr *)&at, sizeof(at)) != 0)
        connection_leave(connection);
}

/* Each frame arrives at once, and does not wait for an acknowledgement of the one before. */
static void connection_say(const struct connection *connection, struct str bytes)
{
    const int on = 1;
    if (connection->fd >= 0)
        setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connection->fd >= 0 && bytes.len > 0)
        (void)!send(connection->fd, bytes.at, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    turn();
}

static void connection_hear(struct connection *connection)
{
    char bytes[8192];
    ssize_t got =
        connection->fd >= 0 ? recv(connection->fd, bytes, sizeof(bytes), MSG_DONTWAIT) : -1;
    if (got > 0)
        buf_add(&connection->heard, bytes, (size_t)got);
}

static void frame_say(struct connection *connection, enum frame_type type, struct str body)
{
    cleanup_buf struct buf out = BUF_INIT;
    if (body.len > wire_body_max(type))
        body.len = wire_body_max(type);
    wire_add(&connection->writer, &out, &(struct frame){type, 0, WIRE_NO_WORKER, body});
    connection_say(connection, buf_str(&out));
}

static void preamble_say(struct connection *connection)
{
    cleanup_buf struct buf out = BUF_INIT;
    wire_begin(&connection->writer, &out);
    connection_say(connection, buf_str(&out));
}

/* The body of the last frame of this type that was heard; at NULL: there was none. */
static struct str heard_find(const struct connection *connection, enum frame_type type,
                             struct wire_reader *reader)
{
    struct str found = {NULL, 0};
    struct err err = {0};
    struct frame frame;
    wire_feed(reader, buf_str(&connection->heard));
    while (wire_next(reader, &frame, &err) == WIRE_FRAME)
        if (frame.type == type)
            found = frame.body;
    return found;
}

static void proof_add(struct connection *connection, struct buf *body, enum proof_role role,
                      unsigned choice)
{
    struct str token = choice % 8 == 0 ? wrong_token : choice % 8 == 1 ? STR("") : right_token;
    const struct proof_key key = proof_key_of(token);
    struct wire_body out = wire_body_to(body);
    buf_add_str(&connection->said, buf_str(body));
    struct proof proof = proof_make(&key, role, buf_str(&connection->said));
    end.is_proven |= str_equal(token, right_token);
    message_proof(&out, &proof);
}

/* As a follower does that knows the protocol. */
static void join_say(struct connection *connection, struct str *input)
{
    unsigned choice = fuzz_choice(input), node = fuzz_choice(input), ranks = fuzz_choice(input);
    struct wire_reader reader = {0};
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct message_join join = {
        .version = {choice & 64 ? 2 : RENDEZVOUS_PROTOCOL, "1"},
        .member = {node % 8 == 7 ? RENDEZVOUS_ANY_NODE : node % 8, ranks % 8, "host"}};
    snprintf(join.run_id, RUN_ID_MAX, "%s", choice & 32 ? "other" : "run");
    connection_hear(connection);
    struct str challenge = heard_find(connection, FRAME_GANG_CHALLENGE, &reader);
    if (challenge.at)
        buf_add_str(&connection->said, challenge);
    message_join(&body, &join);
    proof_add(connection, &out, PROOF_OF_FOLLOWER, choice);
    frame_say(connection, FRAME_GANG_JOIN, buf_str(&out));
    wire_reader_release(&reader);
}

/* As a leader does. */
static void challenge_say(struct connection *connection, struct str *input)
{
    unsigned choice = fuzz_choice(input);
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct message_challenge challenge = {{choice % 16 == 0 ? 2 : RENDEZVOUS_PROTOCOL, "1"}, "n"};
    message_challenge(&body, &challenge);
    buf_add_str(&connection->said, buf_str(&out));
    frame_say(connection, FRAME_GANG_CHALLENGE, buf_str(&out));
}

static void welcome_say(struct connection *connection, struct str *input)
{
    unsigned choice = fuzz_choice(input), node = fuzz_choice(input);
    struct wire_reader reader = {0};
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct message_welcome welcome = {node, 1000};
    connection_hear(connection);
    struct str join = heard_find(connection, FRAME_GANG_JOIN, &reader);
    size_t n_proof = end.token.len > 0 ? 1 + PROOF_BYTES : 1;
    if (join.at && join.len > n_proof)
        buf_add(&connection->said, join.at, join.len - n_proof);
    message_welcome(&body, &welcome);
    proof_add(connection, &out, PROOF_OF_LEADER, choice);
    frame_say(connection, FRAME_GANG_WELCOME, buf_str(&out));
    wire_reader_release(&reader);
}

/* ---- steps ---- */

static struct str bytes_take(struct str *input, size_t len)
{
    struct str taken = {input->at, MIN(len, input->len)};
    *input = (struct str){input->at + taken.len, input->len - taken.len};
    return taken;
}

static void order(struct str *input)
{
    unsigned choice = fuzz_choice(input);
    const struct rendezvous_start start = {
        .generation = 1, .n_members = 1, .world_size = RANKS, .master_port = 1};
    const struct rendezvous_exit exit = {.generation = 1, .tail = STR("words")};
    bool leads = rendezvous_leads(end.r);
    if (!leads && choice % 4 == 0) {
        rendezvous_leave(end.r, STR("enough"));
        end.is_final = true;
        end.is_welcome = false;
    } else if (!leads) {
        rendezvous_tell_exit(end.r, &exit);
        rendezvous_tell_stand(end.r,
                              &(struct rendezvous_stand){.generation = 1, .stand.state = 'S'});
    } else if (choice % 4 == 0) {
        rendezvous_order_start(end.r, choice / 4 % 8, &start);
    } else if (choice % 4 == 1) {
        rendezvous_order_end(end.r, choice / 4 % 8,
                             &(struct rendezvous_end){.at_once = choice & 128, .signal = SIGTERM});
        rendezvous_ask_where(end.r, choice / 4 % 8, 0);
    } else if (choice % 4 == 2) {
        rendezvous_say_retry(end.r, 100, STR("why"));
    } else {
        rendezvous_say_over(end.r, &(struct rendezvous_over){.text = STR("why")});
    }
}

/* A follower's pause ends. */
static void time_pass(struct str *input)
{
    uv_timer_t *timer = &end.r->follower.timer;
    end.later_ms += 50 * fuzz_choice(input);
    if (!rendezvous_leads(end.r) && uv_is_active((uv_handle_t *)timer))
        uv_timer_start(timer, timer->timer_cb, 0, 0);
}

static void step(struct str *input)
{
    unsigned first = fuzz_choice(input);
    struct connection *connection = &connections[first / 16 % CONNECTIONS];
    switch (first % 16) {
    case 0:
    case 1:
        connection_come(connection);
        break;
    case 2:
        connection_leave(connection);
        break;
    case 3:
    case 4:
        preamble_say(connection);
        break;
    case 5:
        connection_say(connection, bytes_take(input, fuzz_choice(input)));
        break;
    case 6:
    case 7:
    case 8:
        join_say(connection, input);
        break;
    case 9:
        challenge_say(connection, input);
        break;
    case 10:
        welcome_say(connection, input);
        break;
    case 11:
        order(input);
        break;
    case 12:
        time_pass(input);
        break;
    default: {
        enum frame_type type = fuzz_choice(input) % FRAME_TYPES_COUNT;
        frame_say(connection, type, bytes_take(input, fuzz_choice(input)));
    }
    }
    turn();
}

static void begin(unsigned choice)
{
    static const struct rendezvous_member self = {1, RANKS, "host"};
    struct sockaddr_in at = here(0);
    socklen_t len = sizeof(at);
    struct err err = {0};
    memset(&end, 0, sizeof(end));
    end.token = choice & 2 ? right_token : STR("");
    ASSERT(uv_loop_init(&end.loop) == 0);
    struct rendezvous_opts opts = {.loop = &end.loop,
                                   .host = "127.0.0.1",
                                   .local_addr = "127.0.0.1",
                                   .run_id = "run",
                                   .token = end.token,
                                   .version = "1",
                                   .n_nodes_max = NODES,
                                   .silence_limit_ms = 1000,
                                   .join_ms = choice & 4 ? 3000 : 0,
                                   .handlers = &handlers};
    if (choice & 1) {
        listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        ASSERT(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 8) == 0);
        ASSERT(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
        opts.port = ntohs(at.sin_port);
    }
    int rc = choice & 1 ? rendezvous_follow(&opts, &self, &end.r, &err)
                        : rendezvous_lead(&opts, &end.r, &err);
    if (rc)
        BUG("%s", err.text);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str input = {(const char *)data, MIN(size, (size_t)4096)};
    for (unsigned i = 0; i < CONNECTIONS; i++)
        connections[i] = (struct connection){.fd = -1};
    signal(SIGPIPE, SIG_IGN);
    begin(fuzz_choice(&input));
    turn();
    for (unsigned i = 0; input.len > 0 && i < STEPS_MAX; i++)
        step(&input);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        connection_leave(&connections[i]);
    turn();
    rendezvous_close(end.r);
    fd_close(&listener);
    uv_run(&end.loop, UV_RUN_DEFAULT);
    ASSERT(uv_loop_close(&end.loop) == 0);
    return 0;
}
