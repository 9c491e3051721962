/* SPDX-License-Identifier: Apache-2.0
 *
 * A dag in virtual time: what is told of each start and end, and when all is over.
 */
#include "unit/test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "sim/dag_play.h"

struct told {
    struct buf said;
    uint32_t n_failures; /* that are left for job 1 */
};

static struct dag_play_end draw(void *context, uint32_t job, const struct dag_placement *placement)
{
    struct told *told = context;
    (void)placement;
    bool fails = job == 1 && told->n_failures > 0;
    told->n_failures -= fails;
    return (struct dag_play_end){.run_ms = 100 * (job + 1ull),
                                 .end = fails ? DEND_FAILED : DEND_WELL};
}

static void started(void *context, uint32_t job, const struct dag_placement *at, uint64_t now_ms)
{
    struct told *told = context;
    buf_addf(&told->said, "%u@%u at %lu, ", job, at->devices[0], now_ms);
}

static void ended(void *context, uint32_t job, enum dag_end end, uint64_t now_ms)
{
    struct told *told = context;
    buf_addf(&told->said, "%u %s at %lu, ", job, end == DEND_WELL ? "well" : "failed", now_ms);
}

/* Two devices, and four jobs of which the last needs the others. */
static struct dag *small_dag(uint32_t n_retries)
{
    static const struct dag_device devices[] = {{0, 0, true}, {0, 0, true}};
    static const uint32_t cpus = 4, needs[] = {0, 1, 2};
    struct dag *dag = dag_new(&(struct dag_config){
        .devices = devices, .n_devices = 2, .host_cpus = &cpus, .n_hosts = 1, .keeps_going = true});
    for (uint32_t i = 0; i < 4; i++)
        dag_add(dag, &(struct dag_job){.want = {1, 1, 0, 0, 0, 0},
                                       .n_retries = n_retries,
                                       .needs = needs,
                                       .n_needs = i == 3 ? 3 : 0});
    return dag;
}

static void each_start_and_end_is_told(void **state)
{
    (void)state;
    struct told told = {.n_failures = 1};
    struct dag *dag = small_dag(1);
    uint64_t end_ms = dag_play(&(struct dag_play){.dag = dag,
                                                  .from_ms = 1000,
                                                  .context = &told,
                                                  .draw = draw,
                                                  .started = started,
                                                  .ended = ended});
    assert_int_equal(end_ms, 1800);
    assert_string_equal(buf_text(&told.said),
                        "0@0 at 1000, 1@1 at 1000, 0 well at 1100, 2@0 at 1100, "
                        "1 failed at 1200, 1@1 at 1200, 2 well at 1400, 1 well at 1400, "
                        "3@0 at 1400, 3 well at 1800, ");
    buf_release(&told.said);
    dag_free(dag);
}

static void it_ends_when_nothing_can_start(void **state)
{
    (void)state;
    struct told told = {.n_failures = 9};
    struct dag *dag = small_dag(0);
    uint64_t end_ms = dag_play(&(struct dag_play){.dag = dag, .context = &told, .draw = draw});
    assert_int_equal(end_ms, 400);
    assert_int_equal(dag_view(dag).n_of[DAG_BLOCKED], 1);
    assert_true(dag_view(dag).is_over);
    dag_free(dag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_start_and_end_is_told),
        cmocka_unit_test(it_ends_when_nothing_can_start),
    };
    return cmocka_run_group_tests_name("dag_play", tests, NULL, NULL);
}
