/* SPDX-License-Identifier: Apache-2.0
 *
 * Many jobs, and no memory: malloc, calloc and realloc can be told to fail. dag_scene.h says what the scenes
 * mean.
 */
#include "unit/core/dag_scene.h"

/* ---- views ---- */

static void followers_are_those_that_need_a_job(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0));
    ADD(&scene, ONE, NEEDS(1, 0));
    uint32_t n = 9;
    const uint32_t *followers = dag_followers(scene.dag, 0, &n);
    assert_int_equal(n, 2);
    assert_int_equal(followers[0], 1);
    assert_int_equal(followers[1], 2);
    ADD(&scene, ONE, NEEDS(2));
    followers = dag_followers(scene.dag, 2, &n);
    assert_int_equal(n, 1);
    assert_int_equal(followers[0], 3);
    dag_followers(scene.dag, 3, &n);
    assert_int_equal(n, 0);
    scene_close(&scene);
}

static void a_failure_at_the_begin_of_a_long_chain(void **state)
{
    (void)state;
    enum {
        LONG = 1000000
    };
    struct scene scene = SCENE(DEVICES(1));
    for (uint32_t i = 0; i < LONG; i++)
        dag_add(scene.dag, &(struct dag_job){ONE, .needs = (uint32_t[]){i - 1}, .n_needs = i > 0});
    play(&scene, "tick 0, end 0 failed", "0@0, 0 failed, over");
    assert_int_equal(dag_view(scene.dag).n_of[DAG_BLOCKED], LONG - 1);
    assert_int_equal(dag_job_view(scene.dag, 0).path_ms, LONG * (uint64_t)DAG_UNKNOWN_MS);
    play(&scene, "retry 0, end 0 well", "0@0, 0 done, 1@0");
    assert_int_equal(dag_view(scene.dag).n_of[DAG_WAITS], LONG - 2);
    scene_close(&scene);
}

/* Two hundred wants that do not fit beside what runs, in any order, hide no other. */
static void a_job_is_found_behind_many_that_do_not_fit(void **state)
{
    (void)state;
    static const struct dag_device device[] = {{0, 80 * GIB, true}};
    struct scene scene = SCENE(.devices = device, .n_devices = 1, .keeps_going = true);
    ADD(&scene, .want = {1, 1, 0, 80 * GIB, 0, 0}, .priority = 9);
    for (uint32_t i = 0; i < 1000; i++)
        ADD(&scene, .want = {1, 1, 0, (1 + i * 37 % 1000) << 20, 0, 0}, .priority = 8);
    ADD(&scene, .want = {0, 0, 0, 0, 1, 0});
    play(&scene, "tick 0", "0@0, 1001@h0");
    scene_close(&scene);
}

/* While others run, a step does not look at all that does not fit: there will be another one. */
static void a_step_has_an_end(void **state)
{
    (void)state;
    static const struct dag_device devices[] = {{0, 80 * GIB, true}, {0, 80 * GIB, true}};
    struct scene scene = SCENE(.devices = devices, .n_devices = 2, .keeps_going = true);
    ADD(&scene, .want = {1, 1, 0, 79 * GIB, 0, 0}, .priority = 9);
    for (uint32_t i = 0; i < 300; i++)
        ADD(&scene, .want = {2, 2, 0, (30 * GIB) + i, 0, 0}, .priority = 8);
    for (uint32_t i = 0; i < 5000; i++)
        ADD(&scene, .want = {2, 2, 0, (80 * GIB) - i, 0, 0}, .priority = 7);
    ADD(&scene, .want = {0, 0, 0, 0, 1, 0});
    play(&scene, "tick 0", "0@0");
    play(&scene, "cancel 0, end 0 ended", "end 0, 0 cancelled, 300@0+1, 299@0+1");
    scene_close(&scene);
}

/* Nor does it pass over all. */
static void a_glance_has_an_end(void **state)
{
    (void)state;
    static const struct dag_device device[] = {{0, 80 * GIB, true}};
    struct scene scene = SCENE(.devices = device, .n_devices = 1, .keeps_going = true);
    ADD(&scene, .want = {1, 1, 0, 80 * GIB, 0, 0}, .priority = 9);
    for (uint32_t i = 0; i < 5000; i++)
        ADD(&scene, .want = {1, 1, 0, 1 + i, 0, 0}, .priority = 8);
    ADD(&scene, .want = {0, 0, 0, 0, 1, 0});
    play(&scene, "tick 0", "0@0");
    scene_close(&scene);
}

/* As many jobs with two devices as there are places for: the others wait. */
static void there_are_so_many_places_for_sets_of_devices(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    for (uint32_t i = 0; i < 100; i++)
        ADD(&scene, .want = {2, 2, 1, 0, 0, 0});
    tell(&scene, (struct dag_event){.kind = DEV_TICK});
    assert_int_equal(dag_view(scene.dag).n_of[DAG_RUNS], 96);
    buf_reset(&scene.said);
    play(&scene, "end 0 well", "0 done, 96@0+1");
    scene_close(&scene);
}

/* In a large graph paths are worked out anew only from time to time. */
static void paths_of_many_jobs_are_worked_out_now_and_then(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    for (uint32_t i = 0; i < 30000; i++)
        ADD(&scene, ONE, .expected_ms = 10);
    play(&scene, "tick 0", "0@0");
    ADD(&scene, ONE, .expected_ms = 100, NEEDS(7));
    play(&scene, "tick 1", "");
    assert_int_equal(dag_job_view(scene.dag, 7).path_ms, 10);
    play(&scene, "tick 20", "");
    assert_int_equal(dag_job_view(scene.dag, 7).path_ms, 110);
    play(&scene, "end 0 well", "0 done, 7@0");
    scene_close(&scene);
}

/* ---- memory runs out ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);

static unsigned fails_after = UINT32_MAX; /* so many allocations */

void *__wrap_malloc(size_t size)
{
    return fails_after > 0 && fails_after-- > 0 ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_after > 0 && fails_after-- > 0 ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *at, size_t size)
{
    return fails_after > 0 && fails_after-- > 0 ? __real_realloc(at, size) : NULL;
}

static struct dag *dag_or_null(unsigned n_allocations)
{
    static const uint32_t cpus = 4;
    static const uint8_t distance[16];
    const struct dag_config config = {
        .devices = plain, .n_devices = 4, .distance = distance, .host_cpus = &cpus, .n_hosts = 1};
    fails_after = n_allocations;
    struct dag *dag = dag_new(&config);
    fails_after = UINT32_MAX;
    return dag;
}

static void a_dag_for_which_there_is_no_memory(void **state)
{
    (void)state;
    unsigned n = 0;
    struct dag *dag = NULL;
    for (; !dag; n++)
        dag = dag_or_null(n);
    assert_in_range(n, 10, 40);
    dag_free(dag);
    dag_free(NULL);
}

static void a_job_for_which_there_is_no_memory_is_not_added(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    unsigned n_refused = 0;
    for (uint32_t i = 0, needs[1]; i < 1000; i++) {
        const struct dag_job job = {
            .want = {1, 1, 1 + i, 0, 0, 0}, .needs = needs, .n_needs = i > 0, .n_batch_steps = i};
        uint32_t number = DAG_NO_JOB;
        needs[0] = i / 2;
        for (unsigned n = 0; number == DAG_NO_JOB; n_refused += number == DAG_NO_JOB) {
            fails_after = n++;
            number = dag_add(scene.dag, &job);
            fails_after = UINT32_MAX;
        }
        assert_int_equal(number, i);
    }
    assert_true(n_refused > 20);
    fails_after = 0;
    for (uint32_t i = 1; i < 100; i++)
        dag_expect(scene.dag, i, 0, i);
    fails_after = UINT32_MAX;
    play(&scene, "tick 0, end 0 well, end 1 well", "0@0, 0 done, 1@0, 1 done, 3@0, 2@0");
    scene_close(&scene);
}

/* Only the last of the places to which it is to move lacks its host. */
static void a_job_for_whose_move_there_is_no_memory_keeps_its_place(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    uint32_t place = 1;
    ADD(&scene, ONE);
    fails_after = 0;
    for (; place < DAG_PLACES_MAX && dag_move(scene.dag, 0, place); place++)
        dag_allow(scene.dag, place, 0);
    fails_after = UINT32_MAX;
    assert_in_range(place, 2, DAG_PLACES_MAX - 1);
    play(&scene, "tick 0", "0@0");
    assert_true(dag_move(scene.dag, 0, place));
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(followers_are_those_that_need_a_job),
        cmocka_unit_test(a_failure_at_the_begin_of_a_long_chain),
        cmocka_unit_test(a_job_is_found_behind_many_that_do_not_fit),
        cmocka_unit_test(a_step_has_an_end),
        cmocka_unit_test(a_glance_has_an_end),
        cmocka_unit_test(there_are_so_many_places_for_sets_of_devices),
        cmocka_unit_test(paths_of_many_jobs_are_worked_out_now_and_then),
        cmocka_unit_test(a_dag_for_which_there_is_no_memory),
        cmocka_unit_test(a_job_for_which_there_is_no_memory_is_not_added),
        cmocka_unit_test(a_job_for_whose_move_there_is_no_memory_keeps_its_place),
    };
    return cmocka_run_group_tests_name("dag large", tests, NULL, NULL);
}
