/* SPDX-License-Identifier: Apache-2.0
 *
 * On which host the second copy of a late item is.
 */
#include "unit/core/scene.h"

/* Channel workers on hosts of these numbers; each has answered one item within 100 ms, and has its next. */
static void hosts_open(struct scene *scene, const uint32_t *host_of, uint32_t n, uint64_t n_items)
{
    scene_open(scene,
               &(struct feed_config){
                   .n_workers = n, .n_devices = n, .n_devices_max = n + 1, .host_of = host_of});
    TELL(scene, .kind = EV_INPUT, .count = n_items, .flag = true);
    for (uint32_t w = 0; w < n; w++)
        channel_up(scene, w, 1);
    scene->now_ms = 1100;
    for (uint32_t w = 0; w < n; w++) {
        TELL(scene, .kind = EV_DONE, .worker = w, .item = w);
        TELL(scene, .kind = EV_READY, .worker = w, .count = 1);
    }
    buf_reset(&scene->said);
}

static void answer(struct scene *scene, uint32_t worker, uint64_t item, uint64_t now_ms)
{
    scene->now_ms = now_ms;
    TELL(scene, .kind = EV_DONE, .worker = worker, .item = item);
    TELL(scene, .kind = EV_READY, .worker = worker, .count = 1);
    buf_reset(&scene->said);
}

static void look(struct scene *scene, uint64_t now_ms)
{
    scene->now_ms = now_ms;
    TELL(scene, .kind = EV_TICK);
}

static void of_two_late_items_that_of_another_host_is_copied(void **state)
{
    (void)state;
    struct scene scene;
    hosts_open(&scene, (uint32_t[]){0, 0, 1}, 3, 6);
    answer(&scene, 0, 3, 1200);
    look(&scene, 1249);
    expect(&scene, "");
    look(&scene, 1250);
    expect(&scene, "NOTE w0; SEND w0 5+1; ");
    scene_close(&scene);
    hosts_open(&scene, (uint32_t[]){1, 1, 1}, 3, 6);
    answer(&scene, 0, 3, 1200);
    look(&scene, 1250);
    expect(&scene, "NOTE w0; SEND w0 4+1; ");
    scene_close(&scene);
}

static void a_worker_that_waits_on_another_host_gets_the_copy_instead(void **state)
{
    (void)state;
    struct scene scene;
    hosts_open(&scene, (uint32_t[]){0, 0, 1}, 3, 6);
    answer(&scene, 0, 3, 1180);
    answer(&scene, 2, 5, 1190);
    look(&scene, 1249);
    expect(&scene, "NOTE w2; SEND w2 4+1; ");
    scene_close(&scene);
    hosts_open(&scene, (uint32_t[]){1, 1, 1}, 3, 6);
    answer(&scene, 0, 3, 1180);
    answer(&scene, 2, 5, 1190);
    look(&scene, 1249);
    expect(&scene, "NOTE w0; SEND w0 4+1; ");
    scene_close(&scene);
}

static void a_worker_that_is_idle_soon_on_another_host_is_waited_for_but_not_for_long(void **state)
{
    (void)state;
    struct scene scene;
    hosts_open(&scene, (uint32_t[]){0, 0, 1}, 3, 7);
    answer(&scene, 2, 5, 1200); /* it has item 6 now */
    answer(&scene, 0, 3, 1200);
    look(&scene, 1250);
    expect(&scene, "");
    look(&scene, 1290);
    expect(&scene, "NOTE w0; SEND w0 4+1; ");
    scene_close(&scene);
}

static void a_host_that_has_no_worker_to_spare_leaves_the_copy_to_the_same_host(void **state)
{
    (void)state;
    struct scene scene;
    hosts_open(&scene, (uint32_t[]){0, 0, 1}, 3, 7);
    answer(&scene, 2, 5, 1220); /* it has item 6 now, and is done with it long after 1250 */
    scene.now_ms = 1221;
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 2, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .worker = 2, .death = GONE_DEVICE_LOST);
    answer(&scene, 0, 3, 1222);
    answer(&scene, 0, 6, 1223);
    look(&scene, 1300);
    expect(&scene, "NOTE w0; SEND w0 4+1; ");
    scene_close(&scene);
}

/* Looks each millisecond until something is said, and returns when. */
static uint64_t due_ms(struct scene *scene)
{
    while (scene->said.len == 0)
        look(scene, scene->now_ms + 1);
    return scene->now_ms;
}

/* Worker 2, on another host, is idle and a little slower than worker 0; worker 1 is late. */
static void idle_elsewhere_open(struct scene *scene)
{
    hosts_open(scene, (uint32_t[]){0, 0, 1, 0}, 4, 8);
    answer(scene, 0, 4, 1150);
    answer(scene, 2, 6, 1199);
}

static void a_worker_that_has_just_ended_gets_no_copy(void **state)
{
    (void)state;
    struct scene scene;
    idle_elsewhere_open(&scene);
    uint64_t at_ms = due_ms(&scene);
    expect(&scene, "NOTE w2; SEND w2 5+1; ");
    scene_close(&scene);
    idle_elsewhere_open(&scene);
    answer(&scene, 3, 7, at_ms - 5); /* who is idle is known for a while from here on */
    TELL(&scene, .kind = EV_EXIT, .worker = 2, .death = GONE_CRASH);
    expect(&scene, "");
    look(&scene, at_ms);
    expect(&scene, "NOTE w0; SEND w0 5+1; ");
    scene_close(&scene);
}

static void a_worker_that_asks_for_nothing_gets_no_copy(void **state)
{
    (void)state;
    struct scene scene;
    hosts_open(&scene, (uint32_t[]){0, 0, 1}, 3, 6);
    answer(&scene, 0, 3, 1150);
    scene.now_ms = 1199;
    TELL(&scene, .kind = EV_DONE, .worker = 2, .item = 5);
    buf_reset(&scene.said);
    due_ms(&scene);
    expect(&scene, "NOTE w0; SEND w0 4+1; ");
    scene_close(&scene);
}

static void one_waits_open(struct scene *scene)
{
    scene_open(scene, &(struct feed_config){
                          .n_workers = 3, .n_devices = 3, .n_workers_max = 4, .n_devices_max = 4});
    TELL(scene, .kind = EV_INPUT, .count = 6, .flag = true);
    for (uint32_t w = 0; w < 3; w++)
        channel_up(scene, w, 1);
    for (uint32_t w = 0; w < 3; w++)
        answer(scene, w, w, 1100);
    answer(scene, 0, 3, 1150);
}

static void a_host_that_comes_while_a_copy_is_due_does_not_hold_it_up(void **state)
{
    (void)state;
    struct scene scene;
    one_waits_open(&scene);
    uint64_t at_ms = due_ms(&scene);
    expect(&scene, "NOTE w0; SEND w0 4+1; ");
    scene_close(&scene);
    one_waits_open(&scene);
    answer(&scene, 2, 5, at_ms - 5); /* who is idle is known for a while from here on */
    TELL(&scene, .kind = EV_DEVICE_UP, .worker = 3, .count = 7);
    look(&scene, at_ms);
    expect(&scene, "NOTE w0; SEND w0 4+1; ");
    scene_close(&scene);
}

static void devices_that_come_have_hosts_as_well(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 2, .n_devices = 2, .n_workers_max = 3, .n_devices_max = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 6, .flag = true);
    TELL(&scene, .kind = EV_DEVICE_UP, .worker = 2, .count = 7);
    TELL(&scene, .kind = EV_SEAT_UP, .worker = 2);
    for (uint32_t w = 0; w < 3; w++)
        channel_up(&scene, w, 1);
    for (uint32_t w = 0; w < 3; w++)
        answer(&scene, w, w, 1100);
    answer(&scene, 0, 3, 1200);
    look(&scene, 1250);
    expect(&scene, "NOTE w0; SEND w0 5+1; ");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_late_items_that_of_another_host_is_copied),
        cmocka_unit_test(a_worker_that_waits_on_another_host_gets_the_copy_instead),
        cmocka_unit_test(a_worker_that_is_idle_soon_on_another_host_is_waited_for_but_not_for_long),
        cmocka_unit_test(a_host_that_has_no_worker_to_spare_leaves_the_copy_to_the_same_host),
        cmocka_unit_test(a_worker_that_has_just_ended_gets_no_copy),
        cmocka_unit_test(a_worker_that_asks_for_nothing_gets_no_copy),
        cmocka_unit_test(a_host_that_comes_while_a_copy_is_due_does_not_hold_it_up),
        cmocka_unit_test(devices_that_come_have_hosts_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
