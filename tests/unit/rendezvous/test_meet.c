/* SPDX-License-Identifier: Apache-2.0
 *
 * Musters that find each other, work, and lose each other.
 */
#include "unit/rendezvous/ends.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

static void a_gang_comes_together_works_and_ends(void **state)
{
    (void)state;
    struct end leader, one, two;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    follow(&one, opts, member_of(5, "hostA"));
    follow(&two, opts, member_of(RENDEZVOUS_ANY_NODE, "host\033B"));
    wait_for(&one, "welcomed 5\n", 1);
    wait_for(&two, "welcomed 1\n", 1);
    assert_int_equal(times_heard(&leader, "joined 5 hostA 4\n"), 1);
    assert_int_equal(times_heard(&leader, "joined 1 host\\u001bB 4\n"), 1);
    rendezvous_order_start(leader.r, 5, &start_of_test);
    rendezvous_order_start(leader.r, 7, &start_of_test); /* not there: passed over */
    wait_for(&one, START_HEARD, 1);
    rendezvous_order_end(leader.r, 5, &(struct rendezvous_end){.signal = SIGINT});
    rendezvous_order_end(leader.r, 5, &(struct rendezvous_end){.at_once = true});
    wait_for(&one, "end by SIGINT\nend at once\n", 1);
    struct rendezvous_exit exit = exit_of(3, 2);
    rendezvous_tell_exit(one.r, &exit);
    wait_for(&leader,
             "exited 5: generation 3 rank 2 pid 4711 status 139 signal 11 7 s ago 'it\nbroke' "
             "'last words'\n",
             1);
    rendezvous_say_retry(leader.r, 500, STR("rank 2 failed"));
    wait_for(&one, "retry in 500 ms: rank 2 failed\n", 1);
    wait_for(&two, "retry in 500 ms: rank 2 failed\n", 1);
    rendezvous_say_over(leader.r,
                        &(struct rendezvous_over){.status = 3, .text = STR("no restart is left")});
    assert_false(rendezvous_is_flushed(leader.r));
    wait_for(&one, "over 3: no restart is left\n", 1);
    wait_for(&two, "over 3: no restart is left\n", 1);
    wait_for(&leader, "left 5", 1);
    assert_true(rendezvous_is_flushed(leader.r));
    turn_for(300); /* nothing follows */
    assert_int_equal(times_heard(&one, "lost"), 0);
    assert_int_equal(times_heard(&one, "warned"), 0);
    assert_int_equal(times_heard(&leader, "warned"), 0);
    end_close(&one);
    end_close(&two);
    end_close(&leader);
}

static void an_exit_of_an_earlier_generation_or_connection_tells_nothing(void **state)
{
    (void)state;
    struct end leader, one;
    pair_open(&leader, &one, opts_of(0));
    struct rendezvous_exit exit = exit_of(3, 0);
    rendezvous_tell_exit(one.r, &exit); /* nothing was started */
    rendezvous_flush(one.r, clock_now_ms());
    turn_for(50);
    assert_int_equal(times_heard(&leader, "exited"), 0);
    rendezvous_order_start(leader.r, 1, &start_of_test);
    wait_for(&one, START_HEARD, 1);
    exit.generation = 2;
    rendezvous_tell_exit(one.r, &exit);
    exit.generation = 3;
    rendezvous_tell_exit(one.r, &exit);
    wait_for(&leader, "exited 1: generation 3", 1);
    turn_for(50);
    assert_int_equal(times_heard(&leader, "exited"), 1);
    exit.local_rank = 4; /* it has 4 */
    rendezvous_tell_exit(one.r, &exit);
    wait_for(&leader, "left 1: it speaks of a rank that it does not have\n", 1);
    pair_close(&leader, &one);
}

static void long_texts_are_cut_where_the_least_is_lost(void **state)
{
    (void)state;
    struct end leader, one;
    static char message[RENDEZVOUS_TEXT_MAX + 1000], tail[RENDEZVOUS_TEXT_MAX + 1000];
    memset(message, 'm', sizeof(message));
    memset(tail, 't', sizeof(tail));
    message[0] = 'B';
    tail[sizeof(tail) - 1] = 'E';
    pair_open(&leader, &one, opts_of(0));
    rendezvous_order_start(leader.r, 1, &start_of_test);
    wait_for(&one, START_HEARD, 1);
    struct rendezvous_exit exit = exit_of(3, 0);
    exit.message = (struct str){message, sizeof(message)};
    exit.tail = (struct str){tail, sizeof(tail)};
    for (int i = 0; i < 400; i++) /* 13 MB: more than the kernel takes at once */
        rendezvous_tell_exit(one.r, &exit);
    assert_false(rendezvous_is_flushed(one.r));
    uint64_t until_ms = clock_now_ms() + WAIT_MS;
    while (leader.heard.len < 400 * 2 * RENDEZVOUS_TEXT_MAX && clock_now_ms() < until_ms)
        turn();
    turn_for(50);
    assert_true(rendezvous_is_flushed(one.r));
    assert_int_equal(times_heard(&leader, "7 s ago 'Bmm"), 400);
    assert_int_equal(times_heard(&leader, "mm' 'tt"), 400);
    assert_int_equal(times_heard(&leader, "ttE'\n"), 400);
    pair_close(&leader, &one);
}

static void the_same_token_is_proof_at_both_ends(void **state)
{
    (void)state;
    struct end leader, one;
    struct rendezvous_opts opts = opts_of(0);
    opts.token = STR("a token of 16 bytes or more");
    opts.port = pair_open(&leader, &one, opts);
    wait_for(&leader, "joined 1 hostA 4\n", 1);
    pair_close(&leader, &one);
}

/* One pair of tokens that differ, and what both ends say. */
static void tokens_differ(struct str leaders, struct str followers, const char *words)
{
    struct end leader, one;
    struct rendezvous_opts opts = opts_of(0);
    char there[200], here[300];
    opts.token = leaders;
    lead(&leader, opts);
    opts.port = rendezvous_port(leader.r);
    opts.token = followers;
    follow(&one, opts, member_of(1, "hostA"));
    snprintf(there, sizeof(there), "warned: the machine at 127.0.0.1 was refused: %s", words);
    snprintf(here, sizeof(here),
             "failed %d: the leader at 127.0.0.1, port %u, refuses this machine: %s",
             ERR_UNAVAILABLE, opts.port, words);
    wait_for(&one, here, 1);
    wait_for(&leader, there, 1);
    turn_for(300); /* it does not ask again */
    assert_int_equal(times_heard(&leader, "joined"), 0);
    assert_int_equal(times_heard(&leader, "warned"), 1);
    pair_close(&leader, &one);
}

static void another_token_or_none_is_said_at_both_ends(void **state)
{
    (void)state;
    tokens_differ(STR("a token of 16 bytes or more"), STR("another token of as many"),
                  "the leader's token is not the follower's; give a --rdzv-token-file with the "
                  "same content on all machines\n");
    tokens_differ(STR("a token of 16 bytes or more"), STR(""),
                  "the leader was given a token, the follower none");
    tokens_differ(STR(""), STR("a token of 16 bytes or more"),
                  "the follower was given a token, the leader none");
}

static void another_run_is_refused_for_good(void **state)
{
    (void)state;
    struct end leader, one;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    opts.run_id = "other";
    follow(&one, opts, member_of(1, "hostA"));
    char wanted[300];
    snprintf(
        wanted, sizeof(wanted),
        "failed %d: the leader at 127.0.0.1, port %u, refuses this machine: the leader's run is "
        "'run', the follower's 'other'",
        ERR_USAGE, opts.port);
    wait_for(&one, wanted, 1);
    assert_int_equal(times_heard(&leader, "joined"), 0);
    pair_close(&leader, &one);
}

static void numbers_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct end leader, one, two;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    follow(&one, opts, member_of(8, "hostA"));
    follow(&two, opts, member_of(0, "hostA"));
    wait_for(&one, "machine 8: the leader expects 8 machines, from 0 to 7\n", 1);
    wait_for(&two, "machine 0 is the leader itself\n", 1);
    assert_int_equal(times_heard(&one, "failed -3: "), 1);
    assert_int_equal(times_heard(&two, "failed -3: "), 1);
    end_close(&one);
    end_close(&two);
    end_close(&leader);
}

static void a_taken_number_is_asked_for_again_until_it_is_free(void **state)
{
    (void)state;
    struct end leader, one, two;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    follow(&one, opts, member_of(1, "hostA"));
    wait_for(&one, "welcomed 1\n", 1);
    follow(&two, opts, member_of(1, "hostB"));
    wait_for(&two, "it refuses this machine: machine 1 is taken by hostA (127.0.0.1)\n", 1);
    turn_for(700); /* more tries, of which nothing new is to be said */
    assert_int_equal(times_heard(&two, "warned"), 1);
    assert_int_equal(times_heard(&leader, "warned"), 1);
    assert_int_equal(times_heard(&leader, "left"), 0);
    rendezvous_leave(one.r, STR("its \033 end"));
    wait_for(&leader, "left 1 by itself: it left: its \\u001b end\n", 1);
    wait_for(&two, "welcomed 1\n", 1);
    assert_int_equal(times_heard(&one, "lost"), 0);
    end_close(&one);
    end_close(&two);
    end_close(&leader);
}

static void who_has_left_hears_nothing_more(void **state)
{
    (void)state;
    struct end leader, one;
    pair_open(&leader, &one, opts_of(0));
    rendezvous_leave(one.r, STR("it is told to end"));
    rendezvous_order_start(leader.r, 1, &start_of_test); /* which crosses the message */
    rendezvous_order_end(leader.r, 1, &(struct rendezvous_end){.at_once = true});
    rendezvous_say_over(leader.r, &(struct rendezvous_over){0});
    wait_for(&leader, "left 1 by itself: it left: it is told to end\n", 1);
    turn_for(50);
    assert_string_equal(buf_text(&one.heard), "welcomed 1\n");
    end_close(&one);
    follow(&one, opts_of(rendezvous_port(leader.r)), member_of(1, "hostA"));
    while (!one.r->follower.peer || one.r->follower.peer->state != PEER_ASKS)
        turn();
    rendezvous_leave(one.r, STR("it is told to end")); /* before it is a member */
    turn_for(300);
    assert_string_equal(buf_text(&one.heard), "");
    pair_close(&leader, &one);
}

static void a_node_too_many_waits_for_a_place(void **state)
{
    (void)state;
    struct end leader, one, two;
    struct rendezvous_opts opts = opts_of(0);
    opts.n_nodes_max = 2;
    lead(&leader, opts);
    opts.port = rendezvous_port(leader.r);
    follow(&one, opts, member_of(RENDEZVOUS_ANY_NODE, "hostA"));
    wait_for(&one, "welcomed 1\n", 1);
    follow(&two, opts, member_of(RENDEZVOUS_ANY_NODE, "hostB"));
    wait_for(&two, "all 2 machines are there already\n", 1);
    end_close(&one);
    wait_for(&two, "welcomed 1\n", 1);
    end_close(&two);
    end_close(&leader);
}

static void a_taken_number_ends_in_time(void **state)
{
    (void)state;
    struct end leader, one, two;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    follow(&one, opts, member_of(1, "hostA"));
    wait_for(&one, "welcomed 1\n", 1);
    opts.join_ms = 500;
    follow(&two, opts, member_of(1, "hostB"));
    wait_for(&two, "failed -7: ", 1);
    assert_int_equal(times_heard(&two, "could not be had within 500 ms: 127.0.0.1: it refuses this "
                                       "machine: machine 1 is taken by hostA"),
                     1);
    end_close(&one);
    end_close(&two);
    end_close(&leader);
}

static bool has_ipv6(void)
{
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

static void one_leader_is_there_for_ipv6_and_ipv4(void **state)
{
    (void)state;
    struct end leader, one, two, three;
    if (!has_ipv6())
        return;
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    follow(&one, opts, member_of(1, "hostA"));
    opts.host = "::1";
    follow(&two, opts, member_of(2, "hostB"));
    opts.host = "localhost";
    opts.local_addr = "lo";
    follow(&three, opts, member_of(3, "hostC"));
    wait_for(&one, "welcomed 1\n", 1);
    wait_for(&two, "welcomed 2\n", 1);
    wait_for(&three, "welcomed 3\n", 1);
    end_close(&one);
    end_close(&two);
    end_close(&three);
    end_close(&leader);
}

static void a_leader_with_an_address_listens_there_alone(void **state)
{
    (void)state;
    struct end leader, one, two;
    struct rendezvous_opts opts = opts_of(0);
    opts.local_addr = "127.0.0.2";
    lead(&leader, opts);
    opts.port = rendezvous_port(leader.r);
    opts.local_addr = "127.0.0.3";
    follow(&one, opts, member_of(1, "hostA"));
    wait_for(&one, "Connection refused", 1);
    opts.host = "127.0.0.2";
    follow(&two, opts, member_of(2, "hostB"));
    wait_for(&two, "welcomed 2\n", 1);
    assert_string_equal(leader.r->leader.members[2]->address, "127.0.0.3");
    end_close(&one);
    end_close(&two);
    end_close(&leader);
}

static void an_address_of_another_machine_is_refused(void **state)
{
    (void)state;
    struct end end;
    struct rendezvous_opts opts = opts_of(0);
    struct rendezvous_member self = member_of(1, "hostA");
    struct err err = {0};
    end_open(&end, &opts);
    opts.local_addr = "192.0.2.1";
    assert_int_equal(rendezvous_follow(&opts, &self, &end.r, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "'192.0.2.1' is no address of this machine, which has "));
    assert_non_null(strstr(err.text, "127.0.0.1 (lo)"));
    assert_int_equal(rendezvous_lead(&opts, &end.r, &err), ERR_UNAVAILABLE);
    assert_null(end.r);
    end_close(&end);
}

static void the_first_at_an_own_address_leads(void **state)
{
    (void)state;
    struct end one, two, three;
    struct err err = {0};
    struct rendezvous_opts opts = opts_of(free_port());
    struct rendezvous_member self = member_of(RENDEZVOUS_ANY_NODE, "hostA");
    end_open(&one, &opts);
    assert_int_equal(rendezvous_meet(&opts, &self, &one.r, &err), 0);
    assert_true(rendezvous_leads(one.r));
    assert_int_equal(rendezvous_port(one.r), opts.port);
    end_open(&two, &opts);
    assert_int_equal(rendezvous_meet(&opts, &self, &two.r, &err), 0);
    assert_false(rendezvous_leads(two.r));
    wait_for(&two, "welcomed 1\n", 1);
    opts.host = "192.0.2.1"; /* of no machine */
    opts.port = free_port();
    end_open(&three, &opts);
    assert_int_equal(rendezvous_meet(&opts, &self, &three.r, &err), 0);
    assert_false(rendezvous_leads(three.r));
    end_close(&one);
    end_close(&two);
    end_close(&three);
}

static void a_port_in_use_is_said(void **state)
{
    (void)state;
    struct end leader, end;
    struct err err = {0};
    lead(&leader, opts_of(0));
    struct rendezvous_opts opts = opts_of(rendezvous_port(leader.r));
    end_open(&end, &opts);
    assert_int_equal(rendezvous_lead(&opts, &end.r, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "Address already in use; end what listens there"));
    end_close(&end);
    end_close(&leader);
}

static void three_hundred_members_are_served(void **state)
{
    (void)state;
    enum {
        N = 300
    };
    static struct end leader, ends[N];
    struct rendezvous_opts opts = opts_of(0);
    opts.n_nodes_max = N + 1;
    lead(&leader, opts);
    opts.port = rendezvous_port(leader.r);
    uint64_t begin_ms = clock_now_ms();
    for (unsigned i = 0; i < N; i++)
        follow(&ends[i], opts, member_of(i + 1, "host"));
    wait_for(&leader, "joined ", N);
    print_message("# %u members joined in %lu ms\n", N, clock_now_ms() - begin_ms);
    for (unsigned i = 0; i < N; i++)
        rendezvous_order_start(leader.r, i + 1, &start_of_test);
    rendezvous_say_over(leader.r, &(struct rendezvous_over){0});
    for (unsigned i = 0; i < N; i++)
        wait_for(&ends[i], START_HEARD "over 0: \n", 1);
    wait_for(&leader, "left ", N);
    assert_int_equal(times_heard(&leader, "warned"), 0);
    for (unsigned i = 0; i < N; i++)
        end_close(&ends[i]);
    end_close(&leader);
}

/* Whatever it hears first, the owner may close there and then. */
static void an_owner_may_close_in_any_handler(void **state)
{
    (void)state;
    struct end leader, one;
    lead(&leader, opts_of(0));
    uint16_t port = rendezvous_port(leader.r);
    follow(&one, opts_of(port), member_of(1, "hostA"));
    leader.closes_itself = true; /* in joined */
    wait_for(&leader, "joined", 1);
    one.closes_itself = true; /* in welcomed, lost or warned */
    wait_for(&one, "e", 1);
    end_close(&leader);
    end_close(&one);
    lead(&leader, opts_of(port));
    struct rendezvous_opts opts = opts_of(port);
    opts.run_id = "other";
    follow(&one, opts, member_of(1, "hostA"));
    one.closes_itself = leader.closes_itself = true; /* in failed, and in warned */
    wait_for(&one, "failed", 1);
    end_close(&leader);
    end_close(&one);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN); /* as the program does */
    const struct CMUnitTest tests[] = {
        TEST_OF_ENDS(a_gang_comes_together_works_and_ends),
        TEST_OF_ENDS(an_exit_of_an_earlier_generation_or_connection_tells_nothing),
        TEST_OF_ENDS(long_texts_are_cut_where_the_least_is_lost),
        TEST_OF_ENDS(the_same_token_is_proof_at_both_ends),
        TEST_OF_ENDS(another_token_or_none_is_said_at_both_ends),
        TEST_OF_ENDS(another_run_is_refused_for_good),
        TEST_OF_ENDS(numbers_that_cannot_be_are_refused),
        TEST_OF_ENDS(a_taken_number_is_asked_for_again_until_it_is_free),
        TEST_OF_ENDS(who_has_left_hears_nothing_more),
        TEST_OF_ENDS(a_node_too_many_waits_for_a_place),
        TEST_OF_ENDS(a_taken_number_ends_in_time),
        TEST_OF_ENDS(one_leader_is_there_for_ipv6_and_ipv4),
        TEST_OF_ENDS(a_leader_with_an_address_listens_there_alone),
        TEST_OF_ENDS(an_address_of_another_machine_is_refused),
        TEST_OF_ENDS(the_first_at_an_own_address_leads),
        TEST_OF_ENDS(a_port_in_use_is_said),
        TEST_OF_ENDS(three_hundred_members_are_served),
        TEST_OF_ENDS(an_owner_may_close_in_any_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
