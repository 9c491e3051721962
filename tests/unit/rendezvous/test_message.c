/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies that are cut, changed, or as long as they may be; proofs of what was not said.
 */
#include "unit/test.h"

#include <signal.h>

#include "base/cleanup.h"
#include "node/wire.h"
#include "rendezvous/message.h"

static char long_text[RENDEZVOUS_TEXT_MAX * 2];

/* Reads a body and says whether it was taken; if `again`, it is written there. */
typedef bool (*reads)(struct str bytes, struct buf *again);

#define READS(name, type, function)                       \
    static bool name(struct str bytes, struct buf *again) \
    {                                                     \
        type message = {0};                               \
        struct wire_body in = wire_body_of(bytes);        \
        struct wire_body out = wire_body_to(again);       \
        function(&in, &message);                          \
        if (wire_body_is_whole(&in))                      \
            function(&out, &message);                     \
        return wire_body_is_whole(&in);                   \
    }

struct retry {
    uint64_t pause_ms;
    struct str why;
};

static void retry(struct wire_body *body, struct retry *retry)
{
    message_retry(body, &retry->pause_ms, &retry->why);
}

READS(reads_challenge, struct message_challenge, message_challenge)
READS(reads_join, struct message_join, message_join)
READS(reads_welcome, struct message_welcome, message_welcome)
READS(reads_proof, struct proof, message_proof)
READS(reads_refused, struct message_refused, message_refused)
READS(reads_start, struct rendezvous_start, message_start)
READS(reads_end, struct rendezvous_end, message_end)
READS(reads_retry, struct retry, retry)
READS(reads_over, struct rendezvous_over, message_over)
READS(reads_exit, struct rendezvous_exit, message_exit)
READS(reads_leave, struct str, message_leave)
READS(reads_stand, struct rendezvous_stand, message_stand)
READS(reads_ask, uint32_t, message_ask)
READS(reads_where, struct rendezvous_where, message_where)

/* A body that is right, cut at every byte, with every byte changed in every bit, and with one more byte. */
static void body_check(enum frame_type type, struct str good, reads read)
{
    cleanup_buf struct buf again = BUF_INIT;
    assert_true(good.len <= wire_body_max(type));
    assert_true(read(good, &again));
    assert_true(str_equal(good, buf_str(&again)));
    for (size_t len = 0; len < good.len; len++) {
        cleanup_free char *cut =
            malloc(len + 1); /* so that a byte too many that is read is noticed */
        memcpy(cut, good.at, len);
        assert_false(read((struct str){cut, len}, &again));
        free(steal_ptr(&cut));
    }
    for (size_t i = 0; i < 8 * good.len; i++) {
        cleanup_buf struct buf changed = BUF_INIT, same = BUF_INIT;
        buf_add_str(&changed, good);
        changed.at[i / 8] ^= (char)(1 << i % 8);
        if (read(buf_str(&changed), &same)) /* another message, of which nothing was lost */
            assert_true(str_equal(buf_str(&changed), buf_str(&same)));
    }
    cleanup_buf struct buf longer = BUF_INIT;
    buf_add_str(&longer, good);
    buf_add_char(&longer, 'x');
    assert_false(read(buf_str(&longer), &again));
}

static void bodies_are_taken_whole_or_not_at_all(void **state)
{
    (void)state;
    struct message_version version = {RENDEZVOUS_PROTOCOL, "1.2.3"};
    struct message_challenge challenge = {version, {1, 2, 3}};
    struct message_join join = {
        version, "run", {RENDEZVOUS_ANY_NODE, 4, "host", 9, 15000}, 4, {4, 5, 6}};
    struct message_welcome welcome = {4095, 60000};
    struct proof proof = {true, {7, 8, 9}};
    struct message_refused refused = {true, {ERR_USAGE, 0, "no"}};
    struct rendezvous_start start = {1, 2, 3, 4, 5, 6, 7};
    struct rendezvous_end end = {true, SIGTERM};
    uint64_t pause_ms = 500;
    struct rendezvous_over over = {255, true, STR("why")};
    struct rendezvous_exit exit = {1, 2, 3, 139, 11, 6, {"a\0b", 3}, STR("words")};
    struct rendezvous_stand stand = {
        1,   1023,  3,
        100, 60000, {.cpu_ms = 1, .pid = 7, .state = 'D', .tracer = 9, .place = "blocked"}};
    uint32_t asked = 1023;
    struct rendezvous_where where = {1, 2, STR("pid 7: cat\n")};
    struct str why = STR("why");
    enum {
        N = 14
    };
    struct buf bodies[N] = {0};
    struct wire_body out[N];
    for (int i = 0; i < N; i++)
        out[i] = wire_body_to(&bodies[i]);
    message_challenge(&out[0], &challenge);
    message_join(&out[1], &join);
    message_welcome(&out[2], &welcome);
    message_proof(&out[3], &proof);
    message_refused(&out[4], &refused);
    message_start(&out[5], &start);
    message_end(&out[6], &end);
    message_retry(&out[7], &pause_ms, &why);
    message_over(&out[8], &over);
    message_exit(&out[9], &exit);
    message_leave(&out[10], &why);
    message_stand(&out[11], &stand);
    message_ask(&out[12], &asked);
    message_where(&out[13], &where);
    const reads readers[N] = {reads_challenge, reads_join,  reads_welcome, reads_proof,
                              reads_refused,   reads_start, reads_end,     reads_retry,
                              reads_over,      reads_exit,  reads_leave,   reads_stand,
                              reads_ask,       reads_where};
    static const enum frame_type types[N] = {
        FRAME_GANG_CHALLENGE, FRAME_GANG_JOIN,  FRAME_GANG_WELCOME, FRAME_GANG_WELCOME,
        FRAME_GANG_REFUSED,   FRAME_GANG_START, FRAME_GANG_END,     FRAME_GANG_RETRY,
        FRAME_GANG_OVER,      FRAME_GANG_EXIT,  FRAME_GANG_LEAVE,   FRAME_GANG_STAND,
        FRAME_GANG_ASK,       FRAME_GANG_WHERE};
    for (int i = 0; i < N; i++) {
        body_check(types[i], buf_str(&bodies[i]), readers[i]);
        buf_release(&bodies[i]);
    }
}

/* What a gang would stumble over. */
static void numbers_beyond_their_limits_are_malformed(void **state)
{
    (void)state;
    static const struct rendezvous_start starts[] = {
        {.group_rank = 2, .n_members = 2, .world_size = 4, .master_port = 1},
        {.group_rank = 0, .n_members = 0, .world_size = 4, .master_port = 1},
        {.group_rank = 0, .n_members = 5000, .world_size = 9999, .master_port = 1},
        {.first_rank = 4, .n_members = 1, .world_size = 4, .master_port = 1},
        {.n_members = 1, .world_size = UINT32_MAX, .master_port = 1},
        {.n_members = 1, .world_size = 4, .master_port = 0},
    };
    static const struct rendezvous_exit exits[] = {
        {.local_rank = RENDEZVOUS_RANKS_MAX},
        {.status = -1},
        {.status = 256},
        {.exit_signal = -1},
        {.exit_signal = 65},
        {.pid = UINT32_MAX},
    };
    static const struct message_join joins[] = {
        {.member.n_ranks = 0, .n_nodes_max = 2},
        {.member.n_ranks = RENDEZVOUS_RANKS_MAX + 1, .n_nodes_max = 2},
        {.member.n_ranks = 1, .n_nodes_max = 0},
        {.member.n_ranks = 1, .n_nodes_max = RENDEZVOUS_NODES_MAX + 1}};
    static const struct message_welcome welcomes[] = {
        {RENDEZVOUS_NODES_MAX, 60000}, {1, 0}, {1, UINT64_MAX}};
#define EACH_IS_MALFORMED(messages, function, read)              \
    for (size_t i = 0; i < countof(messages); i++) {             \
        cleanup_buf struct buf out = BUF_INIT, again = BUF_INIT; \
        struct wire_body body = wire_body_to(&out);              \
        __typeof__((messages)[0]) copy = (messages)[i];          \
        function(&body, (void *)(uintptr_t)&copy);               \
        assert_false(read(buf_str(&out), &again));               \
    }
    EACH_IS_MALFORMED(starts, message_start, reads_start)
    EACH_IS_MALFORMED(exits, message_exit, reads_exit)
    EACH_IS_MALFORMED(joins, message_join, reads_join)
    EACH_IS_MALFORMED(welcomes, message_welcome, reads_welcome)
}

static void the_longest_bodies_fit_into_their_frames(void **state)
{
    (void)state;
    cleanup_buf struct buf join = BUF_INIT, retry_body = BUF_INIT, over_body = BUF_INIT,
                           exit_body = BUF_INIT, leave = BUF_INIT, refused_body = BUF_INIT;
    struct wire_body to_join = wire_body_to(&join), to_retry = wire_body_to(&retry_body),
                     to_over = wire_body_to(&over_body), to_exit = wire_body_to(&exit_body),
                     to_leave = wire_body_to(&leave), to_refused = wire_body_to(&refused_body);
    struct message_join longest = {0};
    struct message_refused refused = {.why.code = ERR_USAGE};
    struct proof proof = {.is_there = true};
    struct str text = {long_text, sizeof(long_text)};
    struct rendezvous_over over = {.text = text};
    struct rendezvous_exit exit = {.message = text, .tail = text};
    uint64_t pause_ms = 0;
    memset(longest.version.version, 'v', VERSION_MAX - 1);
    memset(longest.run_id, 'r', RUN_ID_MAX - 1);
    memset(longest.member.host, 'h', sizeof(longest.member.host) - 1);
    memset(refused.why.text, 't', sizeof(refused.why.text) - 1);
    message_join(&to_join, &longest);
    message_proof(&to_join, &proof);
    message_retry(&to_retry, &pause_ms, &text);
    message_over(&to_over, &over);
    message_exit(&to_exit, &exit);
    text = (struct str){long_text, sizeof(long_text)};
    message_leave(&to_leave, &text);
    message_refused(&to_refused, &refused);
    assert_true(join.len <= wire_body_max(FRAME_GANG_JOIN));
    assert_true(refused_body.len <= wire_body_max(FRAME_GANG_REFUSED));
    assert_true(retry_body.len <= wire_body_max(FRAME_GANG_RETRY));
    assert_true(over_body.len <= wire_body_max(FRAME_GANG_OVER));
    assert_true(exit_body.len > 2 * RENDEZVOUS_TEXT_MAX);
    assert_true(exit_body.len <= wire_body_max(FRAME_GANG_EXIT));
    assert_true(leave.len <= wire_body_max(FRAME_GANG_LEAVE));
}

static void a_proof_is_good_for_one_token_role_and_text(void **state)
{
    (void)state;
    const struct proof_key key = proof_key_of(STR("a token")), other = proof_key_of(STR("b token")),
                           none = proof_key_of(STR(""));
    const struct proof proof = proof_make(&key, PROOF_OF_FOLLOWER, STR("said"));
    const struct proof empty = proof_make(&none, PROOF_OF_FOLLOWER, STR("said"));
    assert_true(proof_is_good(&key, PROOF_OF_FOLLOWER, STR("said"), &proof));
    assert_false(proof_is_good(&key, PROOF_OF_LEADER, STR("said"), &proof));
    assert_false(proof_is_good(&key, PROOF_OF_FOLLOWER, STR("sais"), &proof));
    assert_false(proof_is_good(&other, PROOF_OF_FOLLOWER, STR("said"), &proof));
    assert_false(proof_is_good(&key, PROOF_OF_FOLLOWER, STR("said"), &empty));
    assert_false(proof_is_good(&none, PROOF_OF_FOLLOWER, STR("said"), &proof));
    assert_true(proof_is_good(&none, PROOF_OF_FOLLOWER, STR("said"), &empty));
    for (unsigned i = 0; i < 8 * PROOF_BYTES; i++) {
        struct proof changed = proof;
        changed.bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        assert_false(proof_is_good(&key, PROOF_OF_FOLLOWER, STR("said"), &changed));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_are_taken_whole_or_not_at_all),
        cmocka_unit_test(numbers_beyond_their_limits_are_malformed),
        cmocka_unit_test(the_longest_bodies_fit_into_their_frames),
        cmocka_unit_test(a_proof_is_good_for_one_token_role_and_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
