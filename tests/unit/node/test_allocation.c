/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices and seats of several hosts in one allocation.
 */
#include "unit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "node/allocation.h"
#include "node/environment.h"

static void host_add(struct allocation *a, const char *name, const char *label, size_t n_devices)
{
    struct device_list devices = {calloc(n_devices, sizeof(struct device)), n_devices};
    struct seat *seats = calloc(n_devices, sizeof(*seats));
    assert_true(devices.at && seats);
    for (size_t i = 0; i < n_devices; i++) {
        snprintf(devices.at[i].uuid, sizeof(devices.at[i].uuid), "%s-%zu", name, i);
        seats[i].n_devices = 1;
        seats[i].devices[0] = n_devices - 1 - i;
        snprintf(seats[i].label, sizeof(seats[i].label), "%s%zu", label, i);
    }
    uint32_t position =
        allocation_add_host(a, &(struct allocation_part){.name = name,
                                                         .node = (uint32_t)a->n_hosts,
                                                         .devices = &devices,
                                                         .seats = seats,
                                                         .n_seats = n_devices});
    assert_int_equal(position, a->n_hosts - 1);
    assert_int_equal(a->hosts[position].n_sets_left, n_devices);
    free(devices.at);
    free(seats);
}

static void hosts_lie_behind_each_other(void **state)
{
    (void)state;
    struct allocation a = {0};
    allocation_begin(&a, &(struct allocation_wish){0}, "/nowhere/muster");
    host_add(&a, "one", "gpu_", 2);
    host_add(&a, "two", "gpu_", 3);
    assert_int_equal(a.n_hosts, 3);
    assert_int_equal(a.n_chosen, 5);
    assert_int_equal(a.n_seats, 5);
    assert_int_equal(a.hosts[2].first_chosen, 2);
    assert_int_equal(a.hosts[2].first_seat, 2);
    assert_string_equal(a.seats[1].label, "one_gpu_1");
    assert_string_equal(a.seats[4].label, "two_gpu_2");
    assert_int_equal(a.seats[4].host, 2);
    assert_int_equal(a.seats[4].number, 2);
    assert_string_equal(a.devices.at[a.seats[4].devices[0]].uuid, "two-0");
    assert_int_equal(a.device_of[4], 2);
    assert_int_equal(a.first_of[2], 2);
    assert_int_equal(allocation_host_of(&a, 1), 1);
    assert_int_equal(allocation_host_of(&a, 4), 2);
    assert_int_equal(allocation_seat_of(&a, 4), 2);
    allocation_release(&a);
}

static void a_label_from_another_host_stays_in_its_folder(void **state)
{
    (void)state;
    struct allocation a = {0};
    allocation_begin(&a, &(struct allocation_wish){0}, "/nowhere/muster");
    host_add(&a, "one", "../../x\n\033[2J/", 1);
    assert_string_equal(a.seats[0].label, "one_..-..-x---2J-0");
    allocation_release(&a);
}

static void what_depends_on_the_machine_is_left_to_the_agent(void **state)
{
    (void)state;
    struct allocation a = {0};
    struct env_list env = {0};
    allocation_begin(&a, &(struct allocation_wish){0}, "/nowhere/muster");
    host_add(&a, "one", "gpu_", 2);
    seat_environment_add(&a, 1, &env);
    assert_int_equal(env.len, 2);
    assert_string_equal(env_get(&env, "MUSTER_WORKER"), "1");
    assert_string_equal(env_get(&env, "MUSTER_WORKERS"), "2");
    env_list_release(&env);
    allocation_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_lie_behind_each_other),
        cmocka_unit_test(a_label_from_another_host_stays_in_its_folder),
        cmocka_unit_test(what_depends_on_the_machine_is_left_to_the_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
