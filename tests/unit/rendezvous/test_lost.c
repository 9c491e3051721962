/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends that are silent, late, gone or back, and names that are not known, or not yet.
 */
#include "unit/rendezvous/ends.h"

#include <netdb.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

/* The machine of a member is gone without a word; it starts again, and comes back before its silence was noticed. */
static void a_silent_member_is_replaced_by_its_own_host(void **state)
{
    (void)state;
    struct end leader, one, two, other;
    struct rendezvous_opts opts = opts_of(0);
    opts.silence_limit_ms = 4000; /* a heartbeat a second */
    opts.port = pair_open(&leader, &one, opts);
    one.is_asleep = true;
    follow(&other, opts, member_of(1, "hostB"));
    wait_for(&other, "machine 1 is taken by hostA", 1);
    follow(&two, opts, member_of(1, "hostA"));
    wait_for(&two, "machine 1 is taken by hostA", 1); /* not silent for long enough */
    two.is_asleep = true;
    turn_for(2500); /* long enough for the one host, never for the other */
    assert_int_equal(times_heard(&other, "welcomed"), 0);
    two.is_asleep = false;
    wait_for(&two, "welcomed 1\n", 1);
    assert_int_equal(times_heard(&leader, "left 1: it has come back by another connection\n"
                                          "joined 1 hostA 4\n"),
                     1);
    turn_for(100);
    assert_int_equal(times_heard(&leader, "left"), 1);
    rendezvous_order_start(leader.r, 1, &start_of_test);
    wait_for(&two, START_HEARD, 1);
    end_close(&one);
    end_close(&two);
    end_close(&other);
    end_close(&leader);
}

/* The same where the leader gives the numbers, and has no other left. */
static void a_silent_member_without_a_number_is_replaced_by_its_own_host(void **state)
{
    (void)state;
    struct end leader, one, two;
    struct rendezvous_opts opts = opts_of(0);
    opts.silence_limit_ms = 4000;
    opts.n_nodes_max = 2;
    lead(&leader, opts);
    opts.port = rendezvous_port(leader.r);
    follow(&one, opts, member_of(RENDEZVOUS_ANY_NODE, "hostA"));
    wait_for(&one, "welcomed 1\n", 1);
    one.is_asleep = true;
    follow(&two, opts, member_of(RENDEZVOUS_ANY_NODE, "hostA"));
    wait_for(&two, "all 2 machines are there already\n", 1);
    wait_for(&two, "welcomed 1\n", 1);
    assert_int_equal(times_heard(&leader, "left 1: it has come back by another connection\n"), 1);
    end_close(&one);
    end_close(&two);
    end_close(&leader);
}

/* All were stopped, or one was, and nobody had time to hear. */
static void a_pause_of_an_end_itself_is_no_silence(void **state)
{
    (void)state;
    struct end leader, one;
    struct rendezvous_opts opts = opts_of(0);
    opts.silence_limit_ms = 400;
    opts.port = pair_open(&leader, &one, opts);
    usleep(900 * 1000);
    turn_for(600);
    assert_int_equal(times_heard(&leader, "left"), 0);
    assert_int_equal(times_heard(&one, "lost"), 0);
    pair_close(&leader, &one);
}

static void a_member_that_is_silent_for_too_long_has_left(void **state)
{
    (void)state;
    struct end leader, one;
    struct rendezvous_opts opts = opts_of(0);
    opts.silence_limit_ms = 400;
    opts.port = pair_open(&leader, &one, opts);
    turn_for(1000); /* heartbeats keep it */
    assert_int_equal(times_heard(&leader, "left"), 0);
    one.is_asleep = true;
    wait_for(&leader, "left 1: nothing was heard for 400 ms\n", 1);
    pair_close(&leader, &one);
}

static void a_follower_that_starts_first_waits(void **state)
{
    (void)state;
    struct end leader, one;
    struct rendezvous_opts opts = opts_of(free_port());
    follow(&one, opts, member_of(1, "hostA"));
    wait_for(&one, "cannot be had yet: 127.0.0.1: Connection refused\n", 1);
    turn_for(700);
    assert_int_equal(times_heard(&one, "warned"), 1);
    lead(&leader, opts);
    wait_for(&one, "welcomed 1\n", 1);
    pair_close(&leader, &one);
}

static void a_leader_that_dies_is_asked_for_again_until_it_is_too_late(void **state)
{
    (void)state;
    struct end leader, one;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    opts.join_ms = 700;
    follow(&one, opts, member_of(RENDEZVOUS_ANY_NODE, "hostA"));
    wait_for(&one, "welcomed 1\n", 1);
    turn_for(800); /* a member has no such limit */
    end_close(&leader);
    wait_for(&one, "lost: it closed the connection\n", 1);
    struct rendezvous_exit exit = exit_of(3, 0);
    rendezvous_tell_exit(one.r, &exit); /* forgotten */
    lead(&leader, opts);
    wait_for(&one, "welcomed 1\n", 2);
    end_close(&leader);
    wait_for(&one, "lost: ", 2);
    wait_for(&one, "failed -7: the leader at 127.0.0.1, port ", 1);
    assert_int_equal(
        times_heard(&one, "could not be had within 700 ms: 127.0.0.1: Connection refused\n"), 1);
    turn_for(300);
    assert_int_equal(times_heard(&one, "failed"), 1);
    end_close(&one);
}

static void a_connection_that_is_cut_is_made_again(void **state)
{
    (void)state;
    struct end leader, one, two;
    uv_os_fd_t fd;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    follow(&one, opts, member_of(RENDEZVOUS_ANY_NODE, "hostA"));
    wait_for(&one, "welcomed 1\n", 1);
    follow(&two, opts, member_of(RENDEZVOUS_ANY_NODE, "hostB"));
    wait_for(&two, "welcomed 2\n", 1);
    assert_int_equal(uv_fileno((uv_handle_t *)&two.r->follower.peer->tcp, &fd), 0);
    assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
    wait_for(&leader, "left 2 by itself: ", 1);
    wait_for(&two, "lost: ", 1);
    end_close(&one); /* so that 1 is free, which it is not given */
    wait_for(&two, "welcomed 2\n", 2);
    assert_int_equal(times_heard(&leader, "joined 2 hostB 4\n"), 2);
    end_close(&two);
    end_close(&leader);
}

/* A number that was given is asked for again, but not insisted on. */
static void who_has_no_number_of_its_own_takes_another(void **state)
{
    (void)state;
    struct end leader, one, two;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    follow(&one, opts, member_of(RENDEZVOUS_ANY_NODE, "hostA"));
    wait_for(&one, "welcomed 1\n", 1);
    one.is_asleep = true;
    end_close(&leader);
    lead(&leader, opts);
    follow(&two, opts, member_of(1, "hostB"));
    wait_for(&two, "welcomed 1\n", 1);
    one.is_asleep = false;
    wait_for(&one, "welcomed 2\n", 1);
    end_close(&one);
    end_close(&two);
    end_close(&leader);
}

/* The resolver, of which this file knows some names: linked with --wrap=getaddrinfo. */
static atomic_int n_lookups;
int __real_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out);
int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out);

int __wrap_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                       struct addrinfo **out)
{
    static const char *const moves[] = {"127.0.0.2", "127.0.0.3"};
    if (hints->ai_flags & AI_NUMERICHOST)
        return __real_getaddrinfo(name, service, hints, out);
    if (strcmp(name, "unknown.test") == 0)
        return EAI_NONAME;
    if (strcmp(name, "slow.test") == 0)
        sleep(5);
    if (strcmp(name, "moves.test") == 0)
        name = moves[atomic_fetch_add(&n_lookups, 1) > 0];
    return __real_getaddrinfo(name, service, hints, out);
}

/* Its address is another one when it is asked for again. */
static void a_name_is_looked_up_for_each_try(void **state)
{
    (void)state;
    struct end leader, one;
    struct rendezvous_opts opts = opts_of(0);
    opts.local_addr = "127.0.0.3";
    lead(&leader, opts);
    opts.port = rendezvous_port(leader.r);
    opts.local_addr = NULL;
    opts.host = "moves.test";
    follow(&one, opts, member_of(1, "hostA"));
    wait_for(&one, "welcomed 1\n", 1);
    assert_true(atomic_load(&n_lookups) >= 2);
    pair_close(&leader, &one);
}

static void a_name_server_that_does_not_answer_holds_nothing_up(void **state)
{
    (void)state;
    struct end one;
    struct rendezvous_opts opts = opts_of(1);
    uint64_t begin_ms = clock_now_ms();
    opts.host = "slow.test";
    opts.join_ms = 400;
    follow(&one, opts, member_of(1, "hostA"));
    wait_for(
        &one,
        "failed -7: the leader at slow.test, port 1, could not be had within 400 ms: no name server answers\n",
        1);
    end_close(&one);
    assert_true(clock_now_ms() - begin_ms < 3000);
}

static void a_name_that_is_not_known_is_asked_for_again(void **state)
{
    (void)state;
    struct end one;
    struct rendezvous_opts opts = opts_of(1);
    opts.host = "unknown.test";
    opts.join_ms = 1000;
    follow(&one, opts, member_of(1, "hostA"));
    wait_for(&one,
             "cannot be had yet: the name unknown.test is not known: Name or service not known\n",
             1);
    wait_for(&one, "failed -7: the leader at unknown.test, port 1, could not be had within", 1);
    end_close(&one);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    const struct CMUnitTest tests[] = {
        TEST_OF_ENDS(a_silent_member_is_replaced_by_its_own_host),
        TEST_OF_ENDS(a_silent_member_without_a_number_is_replaced_by_its_own_host),
        TEST_OF_ENDS(a_pause_of_an_end_itself_is_no_silence),
        TEST_OF_ENDS(a_member_that_is_silent_for_too_long_has_left),
        TEST_OF_ENDS(a_follower_that_starts_first_waits),
        TEST_OF_ENDS(a_leader_that_dies_is_asked_for_again_until_it_is_too_late),
        TEST_OF_ENDS(a_connection_that_is_cut_is_made_again),
        TEST_OF_ENDS(who_has_no_number_of_its_own_takes_another),
        TEST_OF_ENDS(a_name_is_looked_up_for_each_try),
        TEST_OF_ENDS(a_name_server_that_does_not_answer_holds_nothing_up),
        TEST_OF_ENDS(a_name_that_is_not_known_is_asked_for_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
