/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rank a process is by its environment, under which name ranks meet, and what is said about
 * variables that cannot be.
 */
#include "unit/test.h"

#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "dist/place.h"
#include "muster/dist.h"

static const struct place_case {
    const char *variables; /* NAME=VALUE, separated by spaces */
    uint32_t rank, size, local_rank, local_size;
    const char *error; /* a part of it; NULL: none */
} place_cases[] = {
    {"", 0, 1, 0, 1, NULL},
    {"RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", 3, 8, 1, 2, NULL},
    {"RANK=3 WORLD_SIZE=8", 3, 8, 3, 0, NULL},
    {"RANK=3 WORLD_SIZE=8 GROUP_WORLD_SIZE=1", 3, 8, 3, 8, NULL},
    {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
     "OMPI_COMM_WORLD_LOCAL_SIZE=4",
     1, 4, 1, 4, NULL},
    {"PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1", 1, 4, 0, 1, NULL},
    {"SLURM_STEP_ID=0 SLURM_PROCID=5 SLURM_STEP_NUM_TASKS=6 SLURM_LOCALID=2 "
     "SLURM_STEP_NUM_NODES=2",
     5, 6, 2, 3, NULL},
    /* A batch script is no step: it has the number of tasks of a job that it has not started yet. */
    {"SLURM_PROCID=0 SLURM_NTASKS=6", 0, 1, 0, 1, NULL},
    {"RANK=0 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", 0, 2, 0, 0, NULL},
    {"RANK=3", 0, 1, 0, 1, "RANK is set, and WORLD_SIZE"},
    {"WORLD_SIZE=1", 0, 1, 0, 1, NULL},
    {"WORLD_SIZE=2", 0, 1, 0, 1, "WORLD_SIZE is 2, and RANK"},
    {"WORLD_SIZE=two", 0, 1, 0, 1, "WORLD_SIZE: 'two' is not a number"},
    {"RANK=8 WORLD_SIZE=8", 0, 1, 0, 1, "RANK is 8, and WORLD_SIZE is 8"},
    {"RANK=-1 WORLD_SIZE=8", 0, 1, 0, 1, "RANK: '-1' is not a number"},
    {"RANK=1x WORLD_SIZE=8", 0, 1, 0, 1, "RANK: '1x' is not a number"},
    {"RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=4", 0, 1, 0, 1, "LOCAL_WORLD_SIZE is 4, and WORLD_SIZE"},
};

static void environment_become(const char *variables)
{
    char text[300], output[16] = "", *rest = text;
    const char *cmocka = getenv("CMOCKA_MESSAGE_OUTPUT");
    snprintf(output, sizeof(output), "%s", cmocka ? cmocka : "STDOUT");
    clearenv();
    setenv("CMOCKA_MESSAGE_OUTPUT", output, 1);
    snprintf(text, sizeof(text), "%s", variables);
    for (char *word; (word = strsep(&rest, " "));) {
        char *value = strchr(word, '=');
        if (!value)
            continue;
        *value++ = '\0';
        setenv(word, value, 1);
    }
}

static void test_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(place_cases); i++) {
        const struct place_case *expected = &place_cases[i];
        struct md_place place;
        char error[200] = "";
        environment_become(expected->variables);
        int rc = md_place_read(&place, error, sizeof(error));
        if (expected->error ? rc != MUSTER_DIST_EENV || !strstr(error, expected->error) : rc != 0)
            fail_msg("%s: %d, %s", expected->variables, rc, error);
        assert_int_equal(place.rank, expected->rank);
        assert_int_equal(place.size, expected->size);
        assert_int_equal(place.local_rank, expected->local_rank);
        assert_int_equal(place.local_size, expected->local_size);
    }
}

/* Attempts and jobs have keys of their own, ranks of one job have the same. */
static void test_keys(void **state)
{
    (void)state;
    static const char *const variables[] = {
        "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a",
        "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 TORCHELASTIC_RESTART_COUNT=1",
        "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 TORCHELASTIC_RUN_ID=x",
        "RANK=0 WORLD_SIZE=3 MASTER_ADDR=a MASTER_PORT=1"};
    struct md_place places[countof(variables)];
    char error[200];
    for (size_t i = 0; i < countof(variables); i++) {
        environment_become(variables[i]);
        assert_int_equal(md_place_read(&places[i], error, sizeof(error)), 0);
    }
    for (size_t i = 1; i < 4; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(places[i].key, places[j].key);
    assert_string_equal(places[4].key, places[0].key);
}

/* What is asked for and cannot be. */
static void test_choice(void **state)
{
    (void)state;
    static const struct {
        const char *variables, *said;
    } cases[] = {
        {"RANK=0 WORLD_SIZE=2 MUSTER_DIST_BACKEND=smoke", "there is no backend 'smoke'"},
        {"RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MUSTER_DIST_BACKEND=shm",
         "2 of the 4 ranks are on this machine"},
        {"RANK=0 WORLD_SIZE=2 MUSTER_DIST_TIMEOUT=soon",
         "MUSTER_DIST_TIMEOUT: 'soon' is not a time"},
        {"RANK=0 WORLD_SIZE=2 MUSTER_DIST_TIMEOUT=200ms", "did not come within 0.2 s"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        environment_become(cases[i].variables);
        struct muster_dist *dist = muster_dist_open(NULL);
        if (muster_dist_code(dist) >= 0 || !strstr(muster_dist_error(dist), cases[i].said))
            fail_msg("%s: %s", cases[i].variables, muster_dist_error(dist));
        muster_dist_close(dist);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
