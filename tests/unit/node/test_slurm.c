/* SPDX-License-Identifier: Apache-2.0
 *
 * Slurm's lists of nodes, and its description of a job.
 */
#include "unit/test.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "node/launcher.h"
#include "slurm/job.h"
#include "slurm/node_names.h"

static void expect(const char *list, const char *wanted)
{
    struct env_list names = {0};
    struct err err = {0};
    cleanup_buf struct buf found = BUF_INIT;
    assert_int_equal(slurm_node_names(list, &names, &err), 0);
    for (size_t i = 0; i < names.len; i++)
        buf_addf(&found, "%s%s", i > 0 ? " " : "", names.at[i]);
    assert_string_equal(buf_text(&found), wanted);
    env_list_release(&names);
}

static void lists_of_nodes_are_expanded(void **state)
{
    (void)state;
    expect("n1", "n1");
    expect("n[1-3],m", "n1 n2 n3 m");
    expect("n[08-11,3]", "n08 n09 n10 n11 n3");
    expect("gpu-[1-2]-x,a.b", "gpu-1-x gpu-2-x a.b");
    expect("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2");
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",      ",",     "n[1",   "n[]",         "n[2-1]",
                                        "n[x]",  "n[1-2", "n 1",   "n[1-900000]", "$(x)",
                                        "n[1-]", "a,,b",  "n[-1]", "n[1--2]",     "n[1-2]]]["};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct env_list names = {0};
        struct err err = {0};
        if (slurm_node_names(wrong[i], &names, &err) != ERR_DATA)
            fail_msg("'%s' is taken for a list", wrong[i]);
        env_list_release(&names);
    }
}

static void tasks_are_those_of_the_node(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        uint32_t node, n_tasks; /* 0: refused */
    } rows[] = {{"1", 0, 1},       {"2(x3),1", 0, 2}, {"2(x3),1", 2, 2},  {"2(x3),1", 3, 1},
                {"2(x3),1", 4, 0}, {"4,2", 1, 2},     {"", 0, 0},         {"x", 0, 0},
                {"0", 0, 0},       {"2(x", 0, 0},     {"2(x)", 0, 0},     {"2(x0)", 0, 0},
                {"2()", 0, 0},     {"2)", 0, 0},      {"2,", 0, 0},       {"2(", 0, 0},
                {"2(x1)x", 0, 0},  {"-2", 0, 0},      {"2(x70000)", 0, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint32_t n_tasks = 0;
        int rc = slurm_task_count(rows[i].list, rows[i].node, &n_tasks, NULL);
        if (rows[i].n_tasks > 0 ? rc != 0 || n_tasks != rows[i].n_tasks : rc != ERR_DATA)
            fail_msg("'%s', node %u: %u tasks", rows[i].list, rows[i].node, n_tasks);
    }
}

static void gpus_are_those_of_the_node(void **state)
{
    (void)state;
    static const char job[] =
        "JobId=7 JobName=x\n   NumNodes=4 Gres=gpu:1\n"
        "     Nodes=n1 CPU_IDs=0-7 Mem=0 GRES=gpu:h200:8(IDX:0-7)\n"
        "     Nodes=n[2-3] CPU_IDs=0-3 Mem=0 GRES=gpu:h200:2(IDX:0,5),gpu:a100:1(IDX:0)\n"
        "     Nodes=n4 CPU_IDs=0 Mem=0 GRES=license:3\n";
    assert_int_equal(slurm_gpus(job, "n1"), 8);
    assert_int_equal(slurm_gpus(job, "n2"), 3);
    assert_int_equal(slurm_gpus(job, "n3"), 3);
    assert_int_equal(slurm_gpus(job, "n4"), 0);
    assert_int_equal(slurm_gpus(job, "n"), 0);
    assert_int_equal(slurm_gpus("", "n1"), 0);
}

static void a_step_has_none_of_slurms_variables(void **state)
{
    (void)state;
    struct env_list env = {0};
    static const char *const entries[] = {
        "PATH=/bin",    "SLURM_GPUS=3",  "SLURM_CONF=/etc/slurm.conf",
        "SRUN_DEBUG=1", "SBATCH_GPUS=1", "MY_SLURM_X=1"};
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
        env_list_add(&env, strdup(entries[i]));
    slurm_step_environment(&env);
    assert_int_equal(env.len, 3);
    assert_string_equal(env_get(&env, "SLURM_CONF"), "/etc/slurm.conf");
    assert_string_equal(env_get(&env, "MY_SLURM_X"), "1");
    assert_null(env_get(&env, "SLURM_GPUS"));
    env_list_release(&env);
}

static void secrets_are_known_by_their_names(void **state)
{
    (void)state;
    static const char *const secret[] = {"HF_TOKEN=1",    "AWS_ACCESS_KEY_ID=1",
                                         "OPENAI_APIKEY", "db_password2=x",
                                         "SECRET=",       "GH_TOKEN=a_b",
                                         "API_KEYS=a,b",  "MY_SECRETS=1",
                                         "SLURM_JWT=ey.J"};
    static const char *const plain[] = {"MAX_TOKENS=1", "TOKENIZERS_PARALLELISM=false",
                                        "KEYBOARD=de",  "PWD=/home/KEY",
                                        "A=B_TOKEN",    ""};
    for (size_t i = 0; i < sizeof(secret) / sizeof(*secret); i++)
        assert_true(env_is_secret(secret[i]));
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        assert_false(env_is_secret(plain[i]));
}

static void srun_hands_no_secret_on(void **state)
{
    (void)state;
    static char id[] = "7", none[] = "", job_name[] = "slurm-1", node_name[] = "n1";
    static const struct slurm_job job = {.id = id, .description = none};
    static const struct host hosts[] = {{.target = job_name, .is_job = true},
                                        {.target = node_name, .is_slurm = true}};
    const struct launcher_opts opts = {.job = &job, .job_name = "muster"};
    assert_int_equal(setenv("HF_TOKEN", "value", 1), 0);
    assert_int_equal(setenv("MAX_TOKENS", "9", 1), 0);
    for (size_t i = 0; i < 2; i++) {
        struct env_list words = {0}, env = {0};
        struct err err = {0};
        assert_int_equal(launcher_command(&opts, &hosts[i], &words, &env, &err), 0);
        assert_null(env_get(&env, "HF_TOKEN"));
        assert_string_equal(env_get(&env, "MAX_TOKENS"), "9");
        env_list_release(&words);
        env_list_release(&env);
    }
    unsetenv("HF_TOKEN");
    unsetenv("MAX_TOKENS");
}

static void times_of_jobs_are_read_and_other_lines_passed_over(void **state)
{
    (void)state;
    /* As Slurm 22.05 prints them; a job without a limit ends in a year. */
    struct str answer = STR("7 1795518405 1795518525\n"
                            "slurm_load_jobs error\n"
                            "8 N/A N/A\n"
                            "8 1795518405\n"
                            "8 1795518405 1795518404\n"
                            "8 1795518405 99999999999999999999\n"
                            "8 1795518405 1795518525 1\n"
                            "0 1795518405 1795518525\n"
                            "  12  1795518405  1827054405 \n"
                            "13 1795518405 1795518466");
    static const struct slurm_time wanted[] = {
        {7, 1795518405, 1795518525}, {12, 1795518405, 1827054405}, {13, 1795518405, 1795518466}};
    struct slurm_time time;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        assert_true(slurm_time_next(&answer, &time));
        assert_int_equal(time.job, wanted[i].job);
        assert_int_equal(time.begin_s, wanted[i].begin_s);
        assert_int_equal(time.end_s, wanted[i].end_s);
    }
    assert_false(slurm_time_next(&answer, &time));
    answer = STR("");
    assert_false(slurm_time_next(&answer, &time));
}

static void times_are_asked_for_in_seconds_and_without_the_users_filters(void **state)
{
    (void)state;
    struct env_list env = {0};
    static const char *const entries[] = {"SLURM_TIME_FORMAT=relative", "SQUEUE_PARTITION=gpu",
                                          "SLURM_CONF=/etc/slurm.conf"};
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
        env_list_add(&env, strdup(entries[i]));
    slurm_time_environment(&env);
    assert_int_equal(env.len, 2);
    assert_string_equal(env_get(&env, "SLURM_TIME_FORMAT"), "%s");
    env_list_release(&env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_nodes_are_expanded),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(tasks_are_those_of_the_node),
        cmocka_unit_test(gpus_are_those_of_the_node),
        cmocka_unit_test(a_step_has_none_of_slurms_variables),
        cmocka_unit_test(secrets_are_known_by_their_names),
        cmocka_unit_test(srun_hands_no_secret_on),
        cmocka_unit_test(times_of_jobs_are_read_and_other_lines_passed_over),
        cmocka_unit_test(times_are_asked_for_in_seconds_and_without_the_users_filters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
