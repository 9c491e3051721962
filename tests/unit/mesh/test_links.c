/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ranks in threads of this process, and between them a link that does what links do: carries bytes, changes one, loses
 * what comes after the first, says nothing, is somebody else.
 */
#include "unit/test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "launch/master_port.h"
#include "mesh/pair.h"
#include "mesh/ring.h"

enum {
    STREAM_MS = 20,
    SHORT_MS = 800, /* until a silent link counts as closed here */
    LONG_MS = 2000  /* longer than a small message is waited for */
};

enum fault {
    CARRIES,
    CHANGES,     /* a byte, far in the stream */
    LOSES_LARGE, /* of what the one who connected sends, all that follows the small messages */
    SAYS_NOTHING,
    IS_ANOTHER_PROGRAM
};

struct listener {
    int fd;
    struct address address; /* of this machine */
};

static struct listener listener_open(void)
{
    struct listener listener;
    struct address own;
    struct address_list list;
    struct err err = {0};
    assert_int_equal(master_port_listen(&(struct master_port){0}, &listener.fd, &err), 0);
    assert_true(stream_own(listener.fd, &own));
    assert_true(address_parse("127.0.0.1", address_port(&own), &list));
    listener.address = list.at[0];
    return listener;
}

/* ---- the link ---- */

struct relay {
    struct listener at;
    struct address to;
    enum fault fault;
    bool has_lost; /* LOSES_LARGE: from here on */
    atomic_bool is_over;
    pthread_t thread;
};

/* What comes before the first full packet: eight bytes end the small messages. */
static ssize_t small_length(struct relay *relay, const char *bytes, ssize_t len)
{
    const char *end = memmem(bytes, (size_t)len, "\377\377\377\377\377\377\377\377", 8);
    if (relay->has_lost)
        return 0;
    relay->has_lost = end;
    return end ? end + 8 - bytes : len;
}

static bool bytes_pass(struct relay *relay, int from, int to, bool is_forth, size_t *n_passed)
{
    char bytes[65536];
    ssize_t got = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0)
        return got < 0;
    size_t begin = *n_passed;
    *n_passed += (size_t)got;
    if (is_forth && relay->fault == CHANGES && begin <= 900000 && *n_passed > 900000)
        bytes[900000 - begin] ^= 1;
    if (is_forth && relay->fault == LOSES_LARGE)
        got = small_length(relay, bytes, got);
    for (ssize_t put = 0, n; put < got; put += n)
        if ((n = send(to, bytes + put, (size_t)(got - put), MSG_NOSIGNAL)) <= 0)
            return false;
    return true;
}

static void connection_carry(struct relay *relay, int from)
{
    cleanup_fd int to = socket(AF_INET, SOCK_STREAM, 0);
    size_t n_forth = 0, n_back = 0;
    bool goes_on = connect(to, &relay->to.any, sizeof(relay->to.v4)) == 0;
    while (goes_on && !atomic_load(&relay->is_over)) {
        struct pollfd at[] = {{.fd = from, .events = POLLIN}, {.fd = to, .events = POLLIN}};
        if (poll(at, 2, 20) <= 0)
            continue;
        goes_on = (!at[0].revents || bytes_pass(relay, from, to, true, &n_forth)) &&
                  (!at[1].revents || bytes_pass(relay, to, from, false, &n_back));
    }
}

static void *relay_run(void *context)
{
    struct relay *relay = context;
    struct pollfd at = {.fd = relay->at.fd, .events = POLLIN};
    char words[GREETING_BYTES];
    while (!atomic_load(&relay->is_over)) {
        if (poll(&at, 1, 20) <= 0)
            continue;
        cleanup_fd int from = accept(relay->at.fd, NULL, NULL);
        if (relay->fault == IS_ANOTHER_PROGRAM)
            (void)!send(from, memset(words, 'x', sizeof(words)), sizeof(words), MSG_NOSIGNAL);
        if (relay->fault == IS_ANOTHER_PROGRAM || relay->fault == SAYS_NOTHING)
            while (!atomic_load(&relay->is_over))
                usleep(1000);
        else
            connection_carry(relay, from);
    }
    return NULL;
}

static void relay_begin(struct relay *relay, enum fault fault, const struct address *to)
{
    relay->at = listener_open();
    relay->to = *to;
    relay->fault = fault;
    assert_int_equal(pthread_create(&relay->thread, NULL, relay_run, relay), 0);
}

static void relay_end(struct relay *relay)
{
    atomic_store(&relay->is_over, true);
    pthread_join(relay->thread, NULL);
    close(relay->at.fd);
}

/* ---- a pair ---- */

struct side {
    struct greeting greeting;
    struct pair_result result;
};

static void *side_run(void *context)
{
    struct side *side = context;
    pair_measure(&side->greeting, STREAM_MS, &side->result);
    return NULL;
}

static struct greeting greeting_of(const struct listener *own, uint32_t self, uint32_t other,
                                   const struct address *to, uint64_t greet_ms)
{
    return (struct greeting){.listener = own->fd,
                             .token = "token",
                             .self = self,
                             .round = 3,
                             .to = other,
                             .from = other,
                             .address = *to,
                             .end_ms = clock_now_ms() + greet_ms};
}

/* A scanner, which has connected to a rank before the other rank does. */
static int intruder_open(const struct listener *at)
{
    char words[GREETING_BYTES];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, &at->address.any, sizeof(at->address.v4)), 0);
    memset(words, 'x', sizeof(words));
    assert_int_equal(send(fd, words, sizeof(words), MSG_NOSIGNAL), sizeof(words));
    return fd;
}

/* Rank 0 connects through the link with the fault, rank 1 as `back` says: NULL: directly. */
static void pair_run(enum fault fault, const struct address *back, struct side sides[2])
{
    struct listener own[] = {listener_open(), listener_open()};
    struct relay relay = {0};
    cleanup_fd int intruder = intruder_open(&own[1]);
    pthread_t other;
    bool is_closed = fault == SAYS_NOTHING || back;
    uint64_t greet_ms = fault == IS_ANOTHER_PROGRAM ? LONG_MS : is_closed ? SHORT_MS : GREET_MS;
    relay_begin(&relay, fault, &own[1].address);
    sides[0] = (struct side){.greeting = greeting_of(&own[0], 0, 1, &relay.at.address, greet_ms)};
    sides[1] = (struct side){
        .greeting = greeting_of(&own[1], 1, 0, back ? back : &own[0].address, greet_ms)};
    assert_int_equal(pthread_create(&other, NULL, side_run, &sides[1]), 0);
    side_run(&sides[0]);
    pthread_join(other, NULL);
    relay_end(&relay);
    close(own[0].fd);
    close(own[1].fd);
}

static struct address closed_address(void)
{
    struct listener listener = listener_open();
    close(listener.fd);
    return listener.address;
}

static void test_a_good_link_is_measured_both_ways(void **state)
{
    struct side sides[2];
    (void)state;
    pair_run(CARRIES, NULL, sides);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sides[i].result.out, LINK_FINE);
        assert_true(sides[i].result.has_in);
        assert_int_equal(sides[i].result.bytes, LINK_FINE);
        assert_true(sides[i].result.n_bytes > 0 && sides[i].result.took_ns > 0);
    }
    assert_true(sides[0].result.round_trip_ns > 0);
    assert_true(sides[0].result.least_ns > 0 &&
                sides[0].result.least_ns <= sides[0].result.round_trip_ns);
}

static void test_a_changed_byte_is_found_by_who_receives_it(void **state)
{
    struct side sides[2];
    (void)state;
    pair_run(CHANGES, NULL, sides);
    assert_int_equal(sides[1].result.bytes, LINK_CORRUPTED);
    assert_true(sides[1].result.bad_at > 890000 && sides[1].result.bad_at < 900000);
    assert_int_not_equal(sides[0].result.bytes, LINK_CORRUPTED);
}

static void test_a_link_that_loses_large_packets_is_told_from_a_slow_one(void **state)
{
    struct side sides[2];
    (void)state;
    pair_run(LOSES_LARGE, NULL, sides);
    assert_int_equal(sides[1].result.bytes, LINK_LARGE_LOST);
    assert_true(sides[0].result.round_trip_ns > 0);
}

static void test_where_one_way_is_closed_the_other_one_carries_the_measurement(void **state)
{
    struct side sides[2];
    (void)state;
    pair_run(SAYS_NOTHING, NULL, sides);
    assert_int_equal(sides[0].result.out, LINK_MUTE);
    assert_int_equal(sides[1].result.out, LINK_FINE);
    assert_true(sides[0].result.has_in && !sides[1].result.has_in);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sides[i].result.bytes, LINK_FINE);
    assert_true(sides[0].result.n_bytes > 0 && sides[1].result.n_bytes > 0);
}

/* Rank 0 knows so at once, rank 1 waits for it until the end of the greeting; then they measure all the same. */
static void test_another_program_is_not_taken_for_a_rank(void **state)
{
    struct side sides[2];
    (void)state;
    pair_run(IS_ANOTHER_PROGRAM, NULL, sides);
    assert_int_equal(sides[0].result.out, LINK_STRANGER);
    assert_int_equal(sides[1].result.out, LINK_FINE);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sides[i].result.bytes, LINK_FINE);
}

static void test_both_ends_say_why_a_link_is_closed(void **state)
{
    struct address closed = closed_address();
    struct side sides[2];
    (void)state;
    pair_run(SAYS_NOTHING, &closed, sides);
    assert_int_equal(sides[0].result.out, LINK_MUTE);
    assert_int_equal(sides[1].result.out, LINK_REFUSED);
    assert_false(sides[0].result.has_in || sides[1].result.has_in);
    assert_int_not_equal(sides[0].result.bytes, LINK_FINE);
}

/* ---- a ring ---- */

struct member {
    struct ring ring;
    struct ring_result result;
};

static void *member_run(void *context)
{
    struct member *member = context;
    ring_run(&member->ring, &member->result);
    return NULL;
}

static void ring_of(uint32_t count, struct member *members, const struct address *instead)
{
    struct listener own[8];
    pthread_t threads[8];
    for (uint32_t i = 0; i < count; i++)
        own[i] = listener_open();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = (i + 1) % count;
        const struct address *to = instead && i == 0 ? instead : &own[next].address;
        members[i] = (struct member){
            .ring = {.index = i,
                     .count = count,
                     .greeting = greeting_of(&own[i], i, next, to, instead ? SHORT_MS : GREET_MS)}};
        members[i].ring.greeting.from = (i + count - 1) % count;
        assert_int_equal(pthread_create(&threads[i], NULL, member_run, &members[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        close(own[i].fd);
    }
}

static void test_a_ring_of_any_size_makes_the_right_sum(void **state)
{
    struct member members[8];
    (void)state;
    for (uint32_t count = 1; count <= 8; count += 1 + count / 3) {
        ring_of(count, members, NULL);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(members[i].result.state, LINK_FINE);
            assert_int_equal(members[i].result.n_wrong, 0);
            assert_true(members[i].result.took_ns > 0);
        }
    }
}

static void test_a_changed_byte_makes_a_wrong_sum(void **state)
{
    struct listener two = listener_open();
    struct member members[2];
    struct listener own = listener_open();
    struct relay relay = {0};
    pthread_t other;
    (void)state;
    relay_begin(&relay, CHANGES, &two.address);
    members[0].ring = (struct ring){
        .index = 0, .count = 2, .greeting = greeting_of(&own, 0, 1, &relay.at.address, GREET_MS)};
    members[1].ring = (struct ring){
        .index = 1, .count = 2, .greeting = greeting_of(&two, 1, 0, &own.address, GREET_MS)};
    assert_int_equal(pthread_create(&other, NULL, member_run, &members[1]), 0);
    member_run(&members[0]);
    pthread_join(other, NULL);
    relay_end(&relay);
    assert_int_equal(members[1].result.state, LINK_CORRUPTED);
    assert_int_equal(members[1].result.n_wrong, 1);
    close(own.fd);
    close(two.fd);
}

static void test_a_ring_with_a_closed_link_says_which(void **state)
{
    struct address closed = closed_address();
    struct member members[3];
    (void)state;
    ring_of(3, members, &closed);
    assert_int_equal(members[0].result.state, LINK_REFUSED);
    assert_true(members[0].result.is_of_next);
    for (uint32_t i = 1; i < 3; i++)
        assert_int_not_equal(members[i].result.state, LINK_FINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_good_link_is_measured_both_ways),
        cmocka_unit_test(test_a_changed_byte_is_found_by_who_receives_it),
        cmocka_unit_test(test_a_link_that_loses_large_packets_is_told_from_a_slow_one),
        cmocka_unit_test(test_where_one_way_is_closed_the_other_one_carries_the_measurement),
        cmocka_unit_test(test_another_program_is_not_taken_for_a_rank),
        cmocka_unit_test(test_both_ends_say_why_a_link_is_closed),
        cmocka_unit_test(test_a_ring_of_any_size_makes_the_right_sum),
        cmocka_unit_test(test_a_changed_byte_makes_a_wrong_sum),
        cmocka_unit_test(test_a_ring_with_a_closed_link_says_which),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
