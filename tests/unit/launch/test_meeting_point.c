/* SPDX-License-Identifier: Apache-2.0
 *
 * Where ranks can meet: invented interfaces, lines and answers.
 */
#include "unit/test.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "base/attr.h"
#include "base/cleanup.h"
#include "launch/meeting_point.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

enum {
    INTERFACES_MAX = 100
};

/* Interfaces of a machine: "10.0.0.1", "fd00::1". */
struct machine {
    struct ifaddrs at[INTERFACES_MAX];
    struct sockaddr_storage addresses[INTERFACES_MAX];
    size_t n;
};

static void interface_add(struct machine *machine, const char *address, unsigned flags)
{
    struct sockaddr_storage *to = &machine->addresses[machine->n];
    struct ifaddrs *interface = &machine->at[machine->n];
    interface->ifa_flags = flags;
    if (address) {
        to->ss_family = strchr(address, ':') ? AF_INET6 : AF_INET;
        void *bytes = to->ss_family == AF_INET ? (void *)&((struct sockaddr_in *)to)->sin_addr
                                               : &((struct sockaddr_in6 *)to)->sin6_addr;
        assert_int_equal(inet_pton(to->ss_family, address, bytes), 1);
        interface->ifa_addr = (struct sockaddr *)to;
    }
    if (machine->n > 0)
        machine->at[machine->n - 1].ifa_next = interface;
    machine->n++;
}

static void lists(const struct machine *machine, const char *expected)
{
    cleanup_buf struct buf out = BUF_INIT;
    meeting_addresses_add(machine->n > 0 ? machine->at : NULL, &out);
    assert_string_equal(buf_text(&out), expected);
}

static void a_host_lists_what_others_may_reach_it_by_and_its_loopback_last(void **state)
{
    (void)state;
    static struct machine machine;
    lists(&machine, " 127.0.0.1");
    interface_add(&machine, "127.0.0.1", IFF_UP | IFF_LOOPBACK);
    interface_add(&machine, "::1", IFF_UP | IFF_LOOPBACK);
    interface_add(&machine, NULL, IFF_UP);
    interface_add(&machine, "fe80::1", IFF_UP);
    interface_add(&machine, "fd00::7", IFF_UP);
    interface_add(&machine, "10.9.9.9", 0);
    interface_add(&machine, "10.0.0.1", IFF_UP);
    interface_add(&machine, "172.17.0.1", IFF_UP);
    machine.addresses[machine.n].ss_family = AF_UNIX; /* as AF_PACKET */
    machine.at[machine.n].ifa_flags = IFF_UP;
    machine.at[machine.n].ifa_addr = (struct sockaddr *)&machine.addresses[machine.n];
    machine.at[machine.n - 1].ifa_next = &machine.at[machine.n];
    lists(&machine, " 10.0.0.1 172.17.0.1 fd00::7 127.0.0.1");
}

static void a_host_with_very_many_addresses_lists_as_many_as_are_read(void **state)
{
    (void)state;
    static struct machine machine;
    static struct meeting_point point;
    cleanup_buf struct buf line = BUF_INIT;
    char address[32];
    for (unsigned i = 0; i < INTERFACES_MAX; i++) {
        snprintf(address, sizeof(address), "10.0.1.%u", i);
        interface_add(&machine, address, IFF_UP);
    }
    buf_add_text(&line, "29500 " TOKEN);
    meeting_addresses_add(machine.at, &line);
    assert_true(meeting_point_read(buf_str(&line), &point));
    assert_int_equal(point.n_addresses, MEETING_ADDRESSES_MAX);
    assert_string_equal(point.addresses[0], "10.0.1.0");
    assert_string_equal(point.addresses[MEETING_ADDRESSES_MAX - 1], "127.0.0.1");
}

static void a_line_has_a_port_a_token_and_addresses(void **state)
{
    (void)state;
    struct meeting_point point;
    assert_true(meeting_point_read(STR("65535 " TOKEN " 10.0.0.1 fd00::7 127.0.0.1"), &point));
    assert_int_equal(point.port, 65535);
    assert_string_equal(point.token, TOKEN);
    assert_int_equal(point.n_addresses, 3);
    assert_string_equal(point.addresses[1], "fd00::7");
}

static void a_line_that_is_anything_else_is_malformed(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        " ",
        "29500",
        "29500 ",
        "29500 " TOKEN,
        "29500 " TOKEN " ",
        "29500  " TOKEN " 10.0.0.1",
        "0 " TOKEN " 10.0.0.1",
        "65536 " TOKEN " 10.0.0.1",
        "-1 " TOKEN " 10.0.0.1",
        "29500 " TOKEN "0 10.0.0.1",
        "29500 0123 10.0.0.1",
        "29500 " TOKEN " 10.0.0.1 example.org",
        "29500 " TOKEN " 10.0.0.1,10.0.0.2",
        "29500 " TOKEN " 10.0.0",
        "29500 " TOKEN " fe80::1%eth0",
        "29500 " TOKEN " 10.0.0.1 --token=x",
        "29500 " TOKEN " 0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000",
        "29500 " TOKEN " 10.0.0.1\x1b[31m",
    };
    for (size_t i = 0; i < countof(lines); i++) {
        struct meeting_point point;
        if (meeting_point_read(str_of(lines[i]), &point))
            fail_msg("'%s' is taken", lines[i]);
    }
}

static struct meeting_point point_of(const char *addresses)
{
    struct meeting_point point;
    cleanup_buf struct buf line = BUF_INIT;
    buf_addf(&line, "29500 " TOKEN " %s", addresses);
    assert_true(meeting_point_read(buf_str(&line), &point));
    return point;
}

static void the_first_address_that_all_reach_is_chosen(void **state)
{
    (void)state;
    const struct meeting_point point = point_of("10.0.0.1 10.0.0.10 fd00::7 127.0.0.1");
    const struct meeting_answer answers[] = {
        {"b", STR("10.0.0.1 10.0.0.10 fd00::7\n")},
        {"c", STR("fd00::7 10.0.0.10\n")},
        {"d", STR("10.0.0.1 10.0.0.10 fd00::7 192.0.2.9\n")},
    };
    assert_string_equal(meeting_point_choose(&point, answers, 0), "10.0.0.1");
    assert_string_equal(meeting_point_choose(&point, answers, 1), "10.0.0.1");
    assert_string_equal(meeting_point_choose(&point, answers, 3), "10.0.0.10");
    assert_string_equal(meeting_point_choose(&point, answers + 1, 1), "10.0.0.10");
}

static void an_address_that_begins_like_another_is_not_that_one(void **state)
{
    (void)state;
    const struct meeting_point point = point_of("10.0.0.1");
    const struct meeting_answer answers[] = {{"b", STR("10.0.0.10 110.0.0.1 10.0.0\n")},
                                             {"c", STR("")}};
    assert_null(meeting_point_choose(&point, answers, 1));
    assert_null(meeting_point_choose(&point, answers + 1, 1));
}

static void says(const struct meeting_point *point, const struct meeting_answer *answers, size_t n,
                 const char *expected)
{
    cleanup_buf struct buf out = BUF_INIT;
    meeting_point_unreached_add(point, answers, n, &out);
    assert_string_equal(buf_text(&out), expected);
}

static void
who_does_not_reach_all_is_named_with_what_it_reaches_and_nothing_else_that_it_says(void **state)
{
    (void)state;
    const struct meeting_point point = point_of("10.0.0.1 fd00::7");
    const struct meeting_answer answers[] = {
        {"b", STR("10.0.0.1 fd00::7\n")},
        {"c", STR("\n")},
        {"d", STR("fd00::7 \x1b[31mlies\n")},
        {"e", STR("")},
        {"f", STR("10.0.0.1 10.0.0.1")},
        {"g", STR("")},
        {"h", STR("")},
    };
    says(&point, answers, 1, "");
    says(&point, answers, 3, "c reaches none; d reaches fd00::7");
    says(
        &point, answers, 7,
        "c reaches none; d reaches fd00::7; e reaches none; f reaches 10.0.0.1; and so on for 2 more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_lists_what_others_may_reach_it_by_and_its_loopback_last),
        cmocka_unit_test(a_host_with_very_many_addresses_lists_as_many_as_are_read),
        cmocka_unit_test(a_line_has_a_port_a_token_and_addresses),
        cmocka_unit_test(a_line_that_is_anything_else_is_malformed),
        cmocka_unit_test(the_first_address_that_all_reach_is_chosen),
        cmocka_unit_test(an_address_that_begins_like_another_is_not_that_one),
        cmocka_unit_test(
            who_does_not_reach_all_is_named_with_what_it_reaches_and_nothing_else_that_it_says),
    };
    return cmocka_run_group_tests_name("where ranks can meet", tests, NULL, NULL);
}
