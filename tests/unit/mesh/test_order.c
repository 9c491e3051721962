/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines between ranks, and those that they print: both ways, cut, and changed.
 */
#include "unit/test.h"

#include "base/cleanup.h"
#include "mesh/addresses.h"
#include "mesh/order.h"
#include "mesh/told.h"

static void test_an_order_is_read_as_it_was_written(void **state)
{
    const struct order orders[] = {
        {.kind = ORDER_PAIR,
         .round = 7,
         .to = 3,
         .from = 3,
         .stream_ms = 150,
         .port = 65535,
         .address = "10.0.0.1"},
        {.kind = ORDER_RING,
         .round = 9,
         .to = 1,
         .from = 7,
         .index = 0,
         .count = 8,
         .port = 1,
         .address = "fd00::1"},
        {.kind = ORDER_ADDRESSES,
         .round = 8,
         .targets = STR("2/41234/10.0.0.1/eth0,3/5/fd00::1/ib0")},
        {.kind = ORDER_END},
    };
    (void)state;
    for (size_t i = 0; i < countof(orders); i++) {
        cleanup_buf struct buf line = BUF_INIT;
        cleanup_buf struct buf again = BUF_INIT;
        struct order order;
        order_format(&orders[i], &line);
        assert_true(line.at[line.len - 1] == '\n');
        assert_true(order_parse((struct str){line.at, line.len - 1}, &order));
        order_format(&order, &again);
        assert_string_equal(buf_text(&line), buf_text(&again));
        assert_int_equal(order.kind, orders[i].kind);
        for (size_t len = 0; len < line.len; len++) {
            cleanup_free char *cut = malloc(len + 1);
            memcpy(cut, line.at, len);
            (void)order_parse((struct str){cut, len}, &order);
        }
    }
}

static void test_what_is_no_order_is_refused(void **state)
{
    static const char *const lines[] = {
        "",
        "pair",
        "pair 1 2 3 4 5 6 7",
        "ring 1 2 3 0 0 0 1 10.0.0.1 ",
        "ring 1 2 3 5 5 0 1 10.0.0.1 ",
        "pair 1 2 3 4 5 6 70000 10.0.0.1 ",
        "pair 1 2 x 4 5 6 7 10.0.0.1 ",
        "pair 99999999999 2 3 4 5 6 7 a ",
        "GET / HTTP/1.1",
        "pair 1 2 3 4 5 6 7 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "};
    struct order order;
    (void)state;
    for (size_t i = 0; i < countof(lines); i++)
        if (order_parse(str_of(lines[i]), &order))
            fail_msg("taken for an order: %s", lines[i]);
}

static void test_an_arrival_without_the_token_is_refused(void **state)
{
    const struct arrival arrival = {
        .rank = 3, .world_size = 8, .group = 1, .port = 4242, .addresses = STR("10.0.0.1/eth0")};
    cleanup_buf struct buf line = BUF_INIT;
    struct arrival read;
    (void)state;
    arrival_format(&arrival, "secret", &line);
    struct str text = {line.at, line.len - 1};
    assert_true(arrival_parse(text, "secret", &read));
    assert_int_equal(read.rank, 3);
    assert_int_equal(read.world_size, 8);
    assert_int_equal(read.group, 1);
    assert_int_equal(read.port, 4242);
    assert_true(str_equal(read.addresses, STR("10.0.0.1/eth0")));
    assert_false(arrival_parse(text, "another", &read));
    assert_false(arrival_parse(STR("GET / HTTP/1.1"), "secret", &read));
    assert_false(arrival_parse(STR(""), "secret", &read));
    assert_false(arrival_parse(STR("muster-rank secret 1 2"), "secret", &read));
}

static void test_targets_are_cut_off_their_list(void **state)
{
    struct str list = STR("2/41234/10.0.0.1/eth0,3/5/fd00::1/ib0,bad");
    struct target target;
    (void)state;
    assert_true(target_next(&list, &target));
    assert_int_equal(target.rank, 2);
    assert_int_equal(target.port, 41234);
    assert_string_equal(target.address, "10.0.0.1");
    assert_string_equal(target.interface, "eth0");
    assert_true(target_next(&list, &target));
    assert_string_equal(target.address, "fd00::1");
    assert_false(target_next(&list, &target));
    list = STR("1/0/10.0.0.1/eth0");
    assert_false(target_next(&list, &target));
    list = STR("1/2//eth0");
    assert_false(target_next(&list, &target));
}

static void told_one(struct told *told, uint32_t rank, const struct buf *line)
{
    told_take(told, rank, buf_str(line));
}

static void test_what_ranks_print_is_read_again(void **state)
{
    struct told told;
    struct buf line = BUF_INIT;
    const struct rank_machine machine = {.rank = 1,
                                         .group = 1,
                                         .name = "n\"1",
                                         .address = "10.0.0.1",
                                         .interface = "eth0",
                                         .by_name = "127.0.1.1",
                                         .speed_mbit = 10000,
                                         .mtu = 1500};
    const struct pair_told pair = {.from = 1,
                                   .to = 0,
                                   .address = "10.0.0.2",
                                   .port = 7,
                                   .result = {.out = LINK_REFUSED,
                                              .has_in = true,
                                              .bytes = LINK_CORRUPTED,
                                              .round_trip_ns = 1,
                                              .least_ns = 2,
                                              .n_bytes = 3,
                                              .took_ns = 4,
                                              .bad_at = 5,
                                              .n_sent_segments = 6,
                                              .n_resent_segments = 7}};
    const struct sum_told sum = {
        .rank = 1,
        .to = 0,
        .from = 0,
        .result = {.state = LINK_SILENT, .is_of_next = true, .took_ns = 8, .n_wrong = 9}};
    const struct address_told address = {
        .from = 1, .to = 0, .address = "fd00::1", .interface = "ib0", .state = LINK_MUTE};
    const struct pair_plan plan = {.len = 10, .depth = PLAN_EACH_HOST, .n_possible = 12};
    (void)state;
    told_init(&told, 2);
    rank_machine_format(&machine, &line);
    pair_format(&pair, &line);
    sum_format(&sum, &line);
    address_format(&address, &line);
    told_one(&told, 1, &line);
    buf_reset(&line);
    pair_plan_format(&plan, 1, true, &line);
    absence_format(0, 0, "it is away", &line);
    told_one(&told, 0, &line);
    assert_true(told.ranks[1].has_machine);
    buf_reset(&line);
    rank_machine_format(&told.ranks[1].machine, &line);
    rank_machine_format(&machine, &line);
    assert_memory_equal(line.at, line.at + line.len / 2, line.len / 2);
    assert_int_equal(told.n_pairs, 1);
    buf_reset(&line);
    pair_format(&told.pairs[0], &line);
    pair_format(&pair, &line);
    assert_memory_equal(line.at, line.at + line.len / 2, line.len / 2);
    assert_string_equal(told.pairs[0].address, "10.0.0.2");
    assert_true(told.ranks[1].has_sum);
    assert_int_equal(told.ranks[1].sum.result.state, LINK_SILENT);
    assert_true(told.ranks[1].sum.result.is_of_next);
    assert_int_equal(told.ranks[1].sum.result.n_wrong, 9);
    assert_int_equal(told.n_addresses, 1);
    assert_int_equal(told.addresses[0].state, LINK_MUTE);
    assert_string_equal(told.addresses[0].interface, "ib0");
    assert_true(told.has_plan);
    assert_int_equal(told.depth, PLAN_EACH_HOST);
    assert_int_equal(told.n_left_out, 1);
    assert_true(told.is_ring_broken);
    assert_string_equal(told.ranks[0].why_absent, "it is away");
    buf_release(&line);
    told_release(&told);
}

static void test_lines_of_others_and_garbage_are_passed_over(void **state)
{
    static const struct str lines = STR(
        "hello\n{\n{}\n{\"from\":0,\"to\":1}\n{\"from\":1,\"to\":9,\"address\":\"a\",\"port\":1}\n"
        "{\"from\":99999999999,\"to\":1,\"tried\":\"a\"}\n{\"sum\":\"odd\"}\n{\"plan\":7}\n{\"address\":1}\n{\"absent\":3}");
    struct told told;
    (void)state;
    told_init(&told, 2);
    told_take(&told, 1, lines);
    assert_int_equal(told.n_pairs, 0);
    assert_int_equal(told.n_addresses, 0);
    assert_false(told.has_plan);
    assert_false(told.ranks[1].has_machine);
    assert_false(told.ranks[1].has_sum);
    assert_null(told.ranks[1].why_absent);
    told_release(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_order_is_read_as_it_was_written),
        cmocka_unit_test(test_what_is_no_order_is_refused),
        cmocka_unit_test(test_an_arrival_without_the_token_is_refused),
        cmocka_unit_test(test_targets_are_cut_off_their_list),
        cmocka_unit_test(test_what_ranks_print_is_read_again),
        cmocka_unit_test(test_lines_of_others_and_garbage_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
