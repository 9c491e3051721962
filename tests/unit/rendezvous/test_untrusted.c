/* SPDX-License-Identifier: Apache-2.0
 *
 * What is not a muster of the run, at either end of a connection: it is closed, said, and disturbs nobody.
 */
#include "unit/rendezvous/ends.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define TOKEN STR("a token of 16 bytes or more")

/* A leader with one member, who must be served whatever untrusted peers do. */
static struct end leader, member;
static uint16_t port;

static void gang_open_with(struct str token)
{
    struct rendezvous_opts opts = opts_of(0);
    opts.token = token;
    lead(&leader, opts);
    port = opts.port = rendezvous_port(leader.r);
    follow(&member, opts, member_of(1, "hostA"));
    wait_for(&member, "welcomed 1\n", 1);
}

static int gang_open(void **state)
{
    (void)state;
    gang_open_with(STR(""));
    return 0;
}

static int gang_open_token(void **state)
{
    (void)state;
    gang_open_with(TOKEN);
    return 0;
}

static int gang_close(void **state)
{
    struct rendezvous_start start = {.n_members = 1, .world_size = 1, .master_port = 1};
    (void)state;
    rendezvous_order_start(leader.r, 1, &start);
    wait_for(&member, "start 0", 1);
    assert_int_equal(times_heard(&leader, "joined"), 1);
    assert_int_equal(times_heard(&leader, "left"), 0);
    assert_int_equal(times_heard(&member, "lost"), 0);
    end_close(&member);
    end_close(&leader);
    return ends_forget(state);
}

#define TEST_OF_GANG(name)  cmocka_unit_test_setup_teardown(name, gang_open, gang_close)
#define TEST_OF_TOKEN(name) cmocka_unit_test_setup_teardown(name, gang_open_token, gang_close)

/* ---- no muster ---- */

static void what_is_not_muster_is_closed_and_said(void **state)
{
    (void)state;
    static const struct {
        const char *says, *heard;
    } peers[] = {
        {"GET / HTTP/1.1\r\nHost: head\r\n\r\n",
         "what speaks there is not muster; it begins with \"GET / HTTP/1.1\\r\\nHost: head\\r\\n\\r\\n\"\n"},
        {"\026\003\001\002", "it begins with \"\\u0016\\u0003\\u0001\\u0002\"\n"},
        {"\n\001muster-wire-0\n", "it begins with \"\\n\\u0001muster-wire-0\\n\"\n"},
        {"\n\001muster-wire-1\nx, and then what is no frame",
         "bytes were changed, lost or repeated"},
    };
    for (size_t i = 0; i < countof(peers); i++) {
        int fd = socket_connect(port);
        socket_say(fd, str_of(peers[i].says));
        socket_wait_closed(fd);
        wait_for(&leader, peers[i].heard, 1);
        assert_int_equal(
            times_heard(&leader, "warned: a connection from 127.0.0.1 came to nothing: "), i + 1);
    }
}

/* As a port scanner does, or who looks whether the port is open. */
static void many_that_only_connect_are_said_once(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        close(socket_connect(port));
        turn();
    }
    wait_for(&leader, "warned", 1);
    turn_for(50);
    assert_int_equal(times_heard(&leader, "warned"), 1);
}

/* However often they differ, it is said a few times in a second. */
static void other_programs_do_not_fill_the_log(void **state)
{
    (void)state;
    uint64_t begin_ms = clock_now_ms();
    for (int i = 0; i < 200; i++) {
        char text[40];
        int fd = socket_connect(port);
        snprintf(text, sizeof(text), "program %d", i);
        socket_say(fd, str_of(text));
        socket_wait_closed(fd);
    }
    uint64_t seconds = (clock_now_ms() - begin_ms) / 1000 + 2;
    assert_true(times_heard(&leader, "warned") >= 4);
    assert_true(times_heard(&leader, "warned") <= 4 * seconds);
}

static void silence_has_an_end(void **state)
{
    (void)state;
    int fd = socket_connect(port), other = socket_connect(port);
    socket_say(other, STR(WIRE_PREAMBLE));
    turn_for(300);
    assert_int_equal(leader.r->leader.n_pending, 2);
    leader.later_ms = 9000;
    turn_for(20);
    assert_int_equal(leader.r->leader.n_pending, 2);
    leader.later_ms = 10100;
    socket_wait_closed(fd);
    socket_wait_closed(other);
    wait_for(&leader, "came to nothing: it did not say in time who it is\n", 1);
    assert_int_equal(leader.r->leader.n_pending, 0);
}

/* What an untrusted peer costs, at any time. */
static void memory_check(const struct peer *peer)
{
    assert_true(peer->link.reader.in.cap <= 8 * 1024);
    assert_true(peer->link.reader.noise.cap <= 8 * 1024);
    assert_true(peer->link.out.cap <= 16 * 1024);
    assert_true(peer->said.cap <= 8 * 1024);
}

static void nothing_that_another_program_sends_fills_the_memory(void **state)
{
    (void)state;
    static char many[1 << 20];
    struct buf bytes = BUF_INIT;
    struct wire_writer writer;
    wire_begin(&writer, &bytes); /* a frame of a type whose bodies may be long */
    wire_add(&writer, &bytes, &(struct frame){FRAME_SPAWN, 0, 0, {many, sizeof(many)}});
    int fd = socket_connect(port);
    socket_say(fd, (struct str){bytes.at, 1000});
    socket_wait_closed(fd);
    wait_for(&leader, "is longer than this end allows yet", 1);
    buf_reset(&bytes);
    wire_begin(&writer, &bytes);
    for (int i = 0; i < 500000; i++) /* questions, whose answers it does not read */
        wire_add(&writer, &bytes, &(struct frame){FRAME_PING, 0, WIRE_NO_WORKER, {many, 8}});
    size_t piece = bytes.len / 20;
    fd = socket_connect(port);
    for (size_t i = 0; i < 20 && times_heard(&leader, "it does not take what it is sent") == 0;
         i++) {
        socket_say(fd, (struct str){bytes.at + piece * i, piece});
        if (leader.r->peers->state != PEER_MEMBER)
            memory_check(leader.r->peers);
    }
    wait_for(&leader, "came to nothing: it does not take what it is sent\n", 1);
    close(fd);
    buf_release(&bytes);
}

static void a_crowd_that_says_nothing_does_not_keep_members_out(void **state)
{
    (void)state;
    enum {
        N = 100
    };
    int fds[N];
    struct end late;
    uint64_t begin_ms = clock_now_ms();
    for (int i = 0; i < N; i++) {
        fds[i] = socket_connect(port);
        turn();
    }
    assert_int_equal(leader.r->leader.n_pending, 64);
    follow(&late, opts_of(port), member_of(2, "hostB"));

    for (int i = 0; i < 10000 && times_heard(&late, "welcomed") == 0; i++) {
        turn();
        assert_true(leader.r->leader.n_pending <= 64);
    }
    wait_for(&late, "welcomed 2\n", 1);
    assert_true(clock_now_ms() - begin_ms < 6000); /* each has a second, not ten */
    assert_true(times_heard(&leader, "warned") <= 4 * 5);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    end_close(&late);
    wait_for(&leader, "left 2", 1);
    buf_reset(&leader.heard);
    buf_add_text(&leader.heard, "joined 1"); /* what gang_close counts */
}

/* ---- an untrusted peer that knows the protocol ---- */

struct raw {
    int fd;
    struct wire_writer writer;
    struct wire_reader reader;
    struct buf said; /* the bodies of the handshake, for proofs */
};

static void raw_send(struct raw *raw, enum frame_type type, struct str body)
{
    cleanup_buf struct buf out = BUF_INIT;
    wire_add(&raw->writer, &out, &(struct frame){type, 0, WIRE_NO_WORKER, body});
    socket_say(raw->fd, buf_str(&out));
}

/* The next frame; false: the connection was closed. */
static bool raw_hear(struct raw *raw, struct frame *frame)
{
    struct err err = {0};
    enum wire_result result;
    while ((result = wire_next(&raw->reader, frame, &err)) == WIRE_MORE) {
        cleanup_buf struct buf bytes = BUF_INIT;
        socket_hear(raw->fd, &bytes, 1);
        if (bytes.len == 0)
            return false;
        wire_feed(&raw->reader, buf_str(&bytes));
    }
    assert_int_equal(result, WIRE_FRAME);
    return true;
}

static void raw_begin(struct raw *raw, int fd)
{
    cleanup_buf struct buf out = BUF_INIT;
    *raw = (struct raw){.fd = fd};
    wire_begin(&raw->writer, &out);
    socket_say(raw->fd, buf_str(&out));
}

/* To a leader: up to and with its challenge. */
static struct raw raw_follower(void)
{
    struct raw raw;
    struct frame frame;
    raw_begin(&raw, socket_connect(port));
    assert_true(raw_hear(&raw, &frame));
    assert_int_equal(frame.type, FRAME_GANG_CHALLENGE);
    buf_add_str(&raw.said, frame.body);
    return raw;
}

static void raw_end(struct raw *raw)
{
    close(raw->fd);
    wire_reader_release(&raw->reader);
    buf_release(&raw->said);
}

static struct message_join join_of_test(void)
{
    return (struct message_join){.version = {RENDEZVOUS_PROTOCOL, "1.2.3"},
                                 .run_id = "run",
                                 .member = {2, 4, "hostB"},
                                 .n_nodes_max = 8,
                                 .nonce = "its own"};
}

static void proof_add(struct raw *raw, struct buf *body, struct str token, enum proof_role role)
{
    const struct proof_key key = proof_key_of(token);
    struct wire_body out = wire_body_to(body);
    buf_add_str(&raw->said, buf_str(body));
    struct proof proof = proof_make(&key, role, buf_str(&raw->said));
    message_proof(&out, &proof);
}

/* A GANG_JOIN with its proof. */
static void join_make(struct raw *raw, struct message_join join, struct str token, struct buf *out)
{
    struct wire_body body = wire_body_to(out);
    message_join(&body, &join);
    proof_add(raw, out, token, PROOF_OF_FOLLOWER);
}

static void another_protocol_is_refused_with_both_versions(void **state)
{
    (void)state;
    cleanup_buf struct buf body = BUF_INIT;
    struct raw raw = raw_follower();
    struct message_join join = join_of_test();
    struct frame frame;
    join.version = (struct message_version){7, "9.8"};
    join_make(&raw, join, STR(""), &body);
    raw_send(&raw, FRAME_GANG_JOIN, buf_str(&body));
    assert_true(raw_hear(&raw, &frame));
    assert_int_equal(frame.type, FRAME_GANG_REFUSED);
    struct message_refused refused = {0};
    struct wire_body in = wire_body_of(frame.body);
    message_refused(&in, &refused);
    assert_true(wire_body_is_whole(&in) && refused.is_final);
    assert_non_null(strstr(refused.why.text,
                           "the leader is muster 1.2.3 (protocol 4), the follower "
                           "muster 9.8 (protocol 7); install the same version"));
    wait_for(&leader, "warned: the machine at 127.0.0.1 was refused: the leader is muster 1.2.3",
             1);
    raw_end(&raw);
}

static void frames_out_of_turn_close_the_connection(void **state)
{
    (void)state;
    for (enum frame_type type = 0; type < FRAME_TYPES_COUNT; type++) {
        struct raw raw = raw_follower();
        struct frame frame;
        if (type == FRAME_GANG_JOIN || type == FRAME_PING || type == FRAME_PONG) {
            raw_end(&raw);
            continue;
        }
        raw_send(&raw, type, STR(""));
        assert_false(raw_hear(&raw, &frame));
        raw_end(&raw);
    }
    wait_for(&leader, "it sent a HELLO that was not expected\n", 1);
}

/* Whatever bit is changed of what a follower says, its proof is not good any more. */
static void a_proof_covers_all_that_is_said(void **state)
{
    (void)state;
    cleanup_buf struct buf first = BUF_INIT;
    struct raw raw = raw_follower();
    join_make(&raw, join_of_test(), TOKEN, &first);
    raw_end(&raw);
    for (size_t i = 0; i < first.len; i++) {
        cleanup_buf struct buf body = BUF_INIT;
        struct frame frame;
        raw = raw_follower();
        join_make(&raw, join_of_test(), TOKEN, &body);
        body.at[i] ^= 1;
        raw_send(&raw, FRAME_GANG_JOIN, buf_str(&body));
        if (raw_hear(&raw, &frame))
            assert_int_equal(frame.type, FRAME_GANG_REFUSED);
        raw_end(&raw);
    }
}

/* That which was good for one connection is good for no other. */
static void a_proof_cannot_be_used_again(void **state)
{
    (void)state;
    cleanup_buf struct buf body = BUF_INIT;
    struct frame frame;
    struct raw raw = raw_follower();
    join_make(&raw, join_of_test(), TOKEN, &body);
    raw_end(&raw);
    raw = raw_follower();
    raw_send(&raw, FRAME_GANG_JOIN, buf_str(&body));
    assert_true(raw_hear(&raw, &frame));
    assert_int_equal(frame.type, FRAME_GANG_REFUSED);
    raw_end(&raw);
}

/* That all this is not for want of a good one. */
static void a_good_proof_is_taken(void **state)
{
    (void)state;
    cleanup_buf struct buf body = BUF_INIT;
    struct frame frame;
    struct raw raw = raw_follower();
    join_make(&raw, join_of_test(), TOKEN, &body);
    raw_send(&raw, FRAME_GANG_JOIN, buf_str(&body));
    assert_true(raw_hear(&raw, &frame));
    assert_int_equal(frame.type, FRAME_GANG_WELCOME);
    assert_int_equal(times_heard(&leader, "joined 2 hostB 4\n"), 1);
    raw_end(&raw);
    wait_for(&leader, "left 2", 1);
    buf_reset(&leader.heard);
    buf_add_text(&leader.heard, "joined 1"); /* what gang_close counts */
}

/* ---- no leader ---- */

/* A port at which another program listens. */
static int listen_at_any(uint16_t *out)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 10), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *out = ntohs(at.sin_port);
    return fd;
}

static int accept_next(int listener)
{
    int fd = -1;
    while (fd < 0) {
        turn();
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            usleep(1000);
        else
            return fd;
    }
    return fd;
}

static int listen_with_follower(struct end *end, struct str token)
{
    struct rendezvous_opts opts = opts_of(0);
    int fd = listen_at_any(&opts.port);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    opts.token = token;
    follow(end, opts, member_of(1, "hostA"));
    return fd;
}

static void a_server_that_is_not_muster_is_named(void **state)
{
    (void)state;
    struct end one;
    int listener = listen_with_follower(&one, STR(""));
    int fd = accept_next(listener);
    socket_say(fd, STR("SSH-2.0-OpenSSH_9.2\r\n"));
    socket_wait_closed(fd);
    wait_for(&one,
             "cannot be had yet: 127.0.0.1: what speaks there is not muster; it begins with "
             "\"SSH-2.0-OpenSSH_9.2\\r\\n\"\n",
             1);
    fd = accept_next(listener); /* it asks again, and knows that it is connected */
    turn_for(50);
    one.later_ms = 10100;
    socket_wait_closed(fd);
    wait_for(&one, "it did not say in time who it is\n", 1);
    close(listener);
    end_close(&one);
}

/* After 0.2 s, 0.4 s, 0.8 s … */
static void the_pauses_between_tries_grow(void **state)
{
    (void)state;
    struct end one;
    int listener = listen_with_follower(&one, STR("")), n_tries = 0;
    for (uint64_t until_ms = clock_now_ms() + 1800; clock_now_ms() < until_ms; turn()) {
        int fd = accept(listener, NULL, NULL);
        n_tries += fd >= 0;
        if (fd >= 0)
            close(fd);
    }
    assert_true(n_tries >= 2 && n_tries <= 5);
    close(listener);
    end_close(&one);
}

static void challenge_say(struct raw *raw, uint32_t protocol)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct message_challenge challenge = {{protocol, "9.8"}, "random"};
    message_challenge(&body, &challenge);
    raw_send(raw, FRAME_GANG_CHALLENGE, buf_str(&out));
    buf_add_str(&raw->said, buf_str(&out));
}

static void a_leader_of_another_protocol_ends_the_follower(void **state)
{
    (void)state;
    struct end one;
    struct raw raw;
    struct frame frame;
    int listener = listen_with_follower(&one, STR(""));
    raw_begin(&raw, accept_next(listener));
    challenge_say(&raw, 7);
    wait_for(&one, "failed -5: the leader at 127.0.0.1, port ", 1);
    assert_int_equal(
        times_heard(&one, "refuses this machine: the leader is muster 9.8 (protocol 7), this is "
                          "muster 1.2.3 (protocol 4); install the same version on both machines\n"),
        1);
    assert_true(raw_hear(&raw, &frame)); /* so that it can say it there, too */
    assert_int_equal(frame.type, FRAME_GANG_JOIN);
    raw_end(&raw);
    close(listener);
    end_close(&one);
}

/* Somebody else listens at the port, and pretends to lead. */
static void a_leader_without_the_token_is_not_believed(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        static const struct str tokens[] = {{"", 0}, {"another token of as many", 24}};
        cleanup_buf struct buf body = BUF_INIT;
        struct message_welcome welcome = {1, 60000};
        struct wire_body out = wire_body_to(&body);
        struct end one;
        struct raw raw;
        struct frame frame;
        int listener = listen_with_follower(&one, TOKEN);
        raw_begin(&raw, accept_next(listener));
        challenge_say(&raw, RENDEZVOUS_PROTOCOL);
        assert_true(raw_hear(&raw, &frame));
        assert_int_equal(frame.type, FRAME_GANG_JOIN);
        buf_add(&raw.said, frame.body.at, frame.body.len - 1 - PROOF_BYTES);
        message_welcome(&out, &welcome);
        if (way == 0) /* the follower's own proof is sent back */
            buf_add(&body, frame.body.at + frame.body.len - 1 - PROOF_BYTES, 1 + PROOF_BYTES);
        else
            proof_add(&raw, &body, way >= 3 ? TOKEN : tokens[way - 1], PROOF_OF_LEADER);
        if (way == 4) /* another number than was proven */
            body.at[0] ^= 2;
        raw_send(&raw, FRAME_GANG_WELCOME, buf_str(&body));
        if (way == 3)
            wait_for(&one, "welcomed 1\n", 1);
        else
            wait_for(&one,
                     "cannot be had yet: 127.0.0.1: what answers there does not know the token\n",
                     1);
        assert_int_equal(times_heard(&one, "welcomed"), way == 3);
        raw_end(&raw);
        close(listener);
        end_close(&one);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    const struct CMUnitTest tests[] = {
        TEST_OF_GANG(what_is_not_muster_is_closed_and_said),
        TEST_OF_GANG(many_that_only_connect_are_said_once),
        TEST_OF_GANG(other_programs_do_not_fill_the_log),
        TEST_OF_GANG(silence_has_an_end),
        TEST_OF_GANG(nothing_that_another_program_sends_fills_the_memory),
        TEST_OF_GANG(a_crowd_that_says_nothing_does_not_keep_members_out),
        TEST_OF_GANG(another_protocol_is_refused_with_both_versions),
        TEST_OF_GANG(frames_out_of_turn_close_the_connection),
        TEST_OF_TOKEN(a_proof_covers_all_that_is_said),
        TEST_OF_TOKEN(a_proof_cannot_be_used_again),
        TEST_OF_TOKEN(a_good_proof_is_taken),
        TEST_OF_ENDS(a_server_that_is_not_muster_is_named),
        TEST_OF_ENDS(the_pauses_between_tries_grow),
        TEST_OF_ENDS(a_leader_of_another_protocol_ends_the_follower),
        TEST_OF_ENDS(a_leader_without_the_token_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
