/* SPDX-License-Identifier: Apache-2.0
 *
 * What is bad about invented measurements.
 */
#include "unit/test.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "mesh/judge.h"

static const char *const names[] = {"one", "two", "three"};
static const struct mesh_hosts hosts = {names, countof(names)};

/* So many ranks on each host, all of which have met; all links alike and good. */
static struct told mesh_of(uint32_t n_hosts, uint32_t n_each)
{
    struct told told;
    told_init(&told, n_hosts * n_each);
    told.pairs = xcalloc((size_t)told.n_ranks * told.n_ranks + 1, sizeof(*told.pairs));
    told.has_plan = true;
    for (uint32_t i = 0; i < told.n_ranks; i++) {
        told.ranks[i].has_machine = told.ranks[i].has_sum = true;
        told.ranks[i].machine = (struct rank_machine){.rank = i,
                                                      .group = i / n_each,
                                                      .name = "name",
                                                      .address = "10.0.0.1",
                                                      .interface = "eth0",
                                                      .by_name = "10.0.0.1",
                                                      .speed_mbit = 10000,
                                                      .mtu = 1500};
        told.ranks[i].sum = (struct sum_told){.rank = i,
                                              .to = (i + 1) % told.n_ranks,
                                              .from = (i + told.n_ranks - 1) % told.n_ranks,
                                              .result = {.took_ns = 2000000}};
        for (uint32_t k = 0; k < told.n_ranks; k++)
            if (k != i)
                told.pairs[told.n_pairs++] =
                    (struct pair_told){.from = i,
                                       .to = k,
                                       .address = "10.0.0.9",
                                       .port = 4000,
                                       .result = {.has_in = true,
                                                  .round_trip_ns = i < k ? 50000 : 0,
                                                  .least_ns = i < k ? 40000 : 0,
                                                  .n_bytes = 100 << 20,
                                                  .took_ns = 100000000,
                                                  .n_sent_segments = 10000}};
    }
    told.n_planned = told.n_possible = told.n_pairs / 2;
    return told;
}

/* What rank `from` tells of its link to rank `to`. */
static struct pair_result *link_of(struct told *told, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < told->n_pairs; i++)
        if (told->pairs[i].from == from && told->pairs[i].to == to)
            return &told->pairs[i].result;
    fail_msg("there is no such link");
    return NULL;
}

/* All findings but those that are ok: "fail links rank 0 to rank 1: …", a line each. */
static void expect(struct told *told, const char *wanted)
{
    struct findings findings = {0};
    cleanup_buf struct buf text = BUF_INIT;
    mesh_judge(told, &hosts, &findings);
    for (size_t i = 0; i < findings.len; i++) {
        const struct finding *finding = &findings.at[i];
        bool is_ok = finding->level == FINDING_OK;
        assert_true(is_ok == (finding->means[0] == '\0'));
        assert_true(is_ok == (finding->cure[0] == '\0'));
        if (!is_ok)
            buf_addf(&text, "%s %s %s: %s\n", finding_level_name(finding->level), finding->check,
                     finding->subject, finding->found);
    }
    if (strcmp(buf_text(&text), wanted) != 0)
        fail_msg("expected\n%sfound\n%s", wanted, buf_text(&text));
    findings_release(&findings);
    told_release(told);
}

static void test_good_links_are_well(void **state)
{
    (void)state;
    for (uint32_t n_hosts = 1; n_hosts <= 3; n_hosts++)
        for (uint32_t n_each = 1; n_each <= 3; n_each++) {
            struct told told = mesh_of(n_hosts, n_each);
            expect(&told, "");
        }
}

static void test_a_rank_that_did_not_come_is_named_with_its_reason(void **state)
{
    struct told told = mesh_of(2, 1);
    (void)state;
    told.ranks[1].why_absent = xstrdup("rank 0 is not reached");
    told.ranks[1].has_sum = false;
    told.n_pairs = told.n_planned = 0;
    expect(&told, "fail meeting rank 1 on two: rank 0 is not reached\n"
                  "fail allreduce : 1 of 2 ranks made the sum\n");
}

static void test_long_names_of_hosts_are_whole(void **state)
{
    static const char *const long_names[] = {"user@accelerator-node-001.cluster.example.org:2222",
                                             "user@accelerator-node-002.cluster.example.org:2222"};
    struct told told = mesh_of(2, 1);
    struct findings findings = {0};
    (void)state;
    link_of(&told, 0, 1)->out = LINK_SILENT;
    mesh_judge(&told, &(struct mesh_hosts){long_names, 2}, &findings);
    assert_string_equal(findings_worst(&findings)->subject,
                        "rank 0 on user@accelerator-node-001.cluster.example.org:2222 to rank 1 on "
                        "user@accelerator-node-002.cluster.example.org:2222");
    findings_release(&findings);
    told_release(&told);
}

static void test_a_closed_link_is_named_at_both_ends(void **state)
{
    struct told told = mesh_of(2, 1);
    (void)state;
    *link_of(&told, 0, 1) = (struct pair_result){.out = LINK_SILENT, .bytes = LINK_SILENT};
    *link_of(&told, 1, 0) = (struct pair_result){.out = LINK_REFUSED, .bytes = LINK_SILENT};
    expect(&told,
           "fail links rank 0 on one to rank 1 on two: 10.0.0.9 port 4000: no answer came\n"
           "fail links rank 1 on two to rank 0 on one: 10.0.0.9 port 4000: the connection was "
           "refused\n");
}

static void test_links_between_two_hosts_are_told_once(void **state)
{
    struct told told = mesh_of(2, 2);
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 2; k < 4; k++)
            link_of(&told, i, k)->out = LINK_UNREACHABLE;
    expect(&told, "fail links rank 0 on one to rank 2 on two: 10.0.0.9 port 4000: there is no "
                  "route; 3 more ways between these hosts likewise\n");
}

static void test_bytes_that_were_lost_or_changed_are_told_by_their_receiver(void **state)
{
    struct told told = mesh_of(2, 1);
    (void)state;
    link_of(&told, 1, 0)->bytes = LINK_CORRUPTED;
    link_of(&told, 1, 0)->bad_at = 4096;
    link_of(&told, 0, 1)->bytes = LINK_BROKEN; /* because rank 1 closed it */
    expect(&told, "fail links rank 0 on one to rank 1 on two: bytes were changed on the way, the "
                  "first after 4096 bytes\n");
    told = mesh_of(2, 1);
    *link_of(&told, 1, 0) = (struct pair_result){.has_in = true, .bytes = LINK_LARGE_LOST};
    *link_of(&told, 0, 1) =
        (struct pair_result){.has_in = true, .bytes = LINK_SILENT, .round_trip_ns = 50000};
    expect(&told, "fail links rank 0 on one to rank 1 on two: small packets pass, large ones do "
                  "not\n");
}

static void test_a_slow_way_is_compared_with_the_others_of_its_kind(void **state)
{
    struct told told = mesh_of(1, 8);
    (void)state;
    link_of(&told, 5, 3)->n_bytes = 1200 << 10;
    expect(&told, "warn speed rank 3 to rank 5: 12 MiB/s, 1 % of the median of 1000 MiB/s\n");
    told = mesh_of(1, 8);
    link_of(&told, 5, 3)->n_bytes = 15 << 20; /* other programs use the same cores */
    expect(&told, "");
    told = mesh_of(3, 1);
    link_of(&told, 2, 1)->n_bytes = 24 << 20;
    expect(&told, "warn speed rank 1 on two to rank 2 on three: 240 MiB/s from eth0 to eth0, 24 % "
                  "of the median of 1000 MiB/s, 20 % of the interfaces' speed of 1192 MiB/s\n");
}

static void test_a_slow_way_between_two_hosts_is_compared_with_their_interfaces(void **state)
{
    struct told told = mesh_of(2, 1);
    (void)state;
    link_of(&told, 1, 0)->n_bytes = 1 << 20;
    link_of(&told, 0, 1)->n_bytes = 1 << 20;
    link_of(&told, 0, 1)->bytes = LINK_SILENT; /* not all came in time: it is slow, not closed */
    expect(&told, "warn speed rank 0 on one to rank 1 on two: 10 MiB/s from eth0 to eth0, 0.84 % "
                  "of the interfaces' speed of 1192 MiB/s\n"
                  "warn speed rank 1 on two to rank 0 on one: 10 MiB/s from eth0 to eth0, 0.84 % "
                  "of the interfaces' speed of 1192 MiB/s\n");
    told = mesh_of(2, 1);
    for (uint32_t i = 0; i < 2; i++) {
        told.ranks[i].machine.speed_mbit = 0; /* as of most virtual machines */
        link_of(&told, i, 1 - i)->n_bytes = 10 << 20;
    }
    expect(&told, "");
}

static void test_late_and_lossy_links_are_told(void **state)
{
    struct told told = mesh_of(2, 1);
    (void)state;
    link_of(&told, 0, 1)->least_ns = 12500000;
    link_of(&told, 0, 1)->round_trip_ns = 13500000;
    link_of(&told, 1, 0)->n_resent_segments = 150;
    expect(&told, "warn latency rank 0 on one to rank 1 on two: a round trip of 12.5 ms at least\n"
                  "warn losses rank 1 on two to rank 0 on one: 150 of 10000 packets were sent "
                  "again\n");
}

static void test_interfaces_that_differ_are_told(void **state)
{
    struct told told = mesh_of(2, 1);
    (void)state;
    told.ranks[1].machine.mtu = 9000;
    told.ranks[0].machine.speed_mbit = 25000;
    expect(&told, "warn interface MTU: 1500 of eth0 on one, 9000 of eth0 on two\n"
                  "warn interface Mbit/s: 10000 of eth0 on two, 25000 of eth0 on one\n");
    told = mesh_of(3, 2);
    for (uint32_t i = 2; i < 6; i++)
        snprintf(told.ranks[i].machine.by_name, sizeof(told.ranks[i].machine.by_name), "127.0.1.1");
    expect(&told, "warn interface two: its own name, name, is 127.0.1.1 there; the same on 1 more "
                  "host\n");
}

static void test_an_interface_that_others_do_not_reach_is_told_once(void **state)
{
    struct told told = mesh_of(3, 1);
    struct address_told addresses[] = {
        {.from = 0, .to = 2, .address = "10.9.0.3", .interface = "eth1", .state = LINK_SILENT},
        {.from = 1, .to = 2, .address = "10.9.0.3", .interface = "eth1", .state = LINK_FINE},
        {.from = 0, .to = 1, .address = "10.8.0.2", .interface = "ib0", .state = LINK_FINE},
        {.from = 2, .to = 1, .address = "10.8.0.2", .interface = "ib0", .state = LINK_FINE},
    };
    (void)state;
    told.addresses = xcalloc(countof(addresses), sizeof(*addresses));
    memcpy(told.addresses, addresses, sizeof(addresses));
    told.n_addresses = countof(addresses);
    expect(&told, "warn interface eth1 of three: 10.9.0.3 is not reached from one (no answer "
                  "came)\n");
}

static void test_a_sum_that_is_wrong_or_missing_is_told_by_who_knows_most(void **state)
{
    struct told told = mesh_of(1, 3);
    (void)state;
    told.ranks[0].sum.result = (struct ring_result){.state = LINK_BROKEN};
    told.ranks[1].sum.result = (struct ring_result){.state = LINK_REFUSED, .is_of_next = true};
    told.ranks[2].sum.result = (struct ring_result){.state = LINK_SILENT};
    expect(&told, "fail allreduce rank 1 to rank 2: the sum was not made: the connection was "
                  "refused\n");
    told = mesh_of(1, 2);
    told.ranks[0].has_sum = told.ranks[1].has_sum = false;
    told.is_ring_broken = true;
    expect(&told,
           "fail allreduce : the all-reduce was not tried, because a link that it needs is bad\n");
    told = mesh_of(1, 3);
    told.ranks[2].sum.result = (struct ring_result){.state = LINK_CORRUPTED, .n_wrong = 3};
    expect(&told, "fail allreduce rank 2: 3 of 131072 numbers of the sum are wrong\n");
}

static void test_pairs_that_were_left_out_are_told(void **state)
{
    struct told told = mesh_of(1, 4);
    (void)state;
    told.n_left_out = 2;
    expect(&told, "warn links : 2 pairs were not measured\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_links_are_well),
        cmocka_unit_test(test_a_rank_that_did_not_come_is_named_with_its_reason),
        cmocka_unit_test(test_a_closed_link_is_named_at_both_ends),
        cmocka_unit_test(test_long_names_of_hosts_are_whole),
        cmocka_unit_test(test_links_between_two_hosts_are_told_once),
        cmocka_unit_test(test_bytes_that_were_lost_or_changed_are_told_by_their_receiver),
        cmocka_unit_test(test_a_slow_way_is_compared_with_the_others_of_its_kind),
        cmocka_unit_test(test_a_slow_way_between_two_hosts_is_compared_with_their_interfaces),
        cmocka_unit_test(test_late_and_lossy_links_are_told),
        cmocka_unit_test(test_interfaces_that_differ_are_told),
        cmocka_unit_test(test_an_interface_that_others_do_not_reach_is_told_once),
        cmocka_unit_test(test_a_sum_that_is_wrong_or_missing_is_told_by_who_knows_most),
        cmocka_unit_test(test_pairs_that_were_left_out_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
