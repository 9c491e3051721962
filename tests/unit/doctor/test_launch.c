/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment says: Slurm, ranks, threads, and what hides devices.
 */
#include "kit.h"

#include <sys/stat.h>

static void slurm(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(4);
    const char **env = facts->env.at;
    expect(slurm_judge, facts, "ok no Slurm here");
    facts->slurm = (struct slurm_facts){.has_sbatch = true, .has_srun = true};
    expect(slurm_judge, facts, "ok sbatch and srun are here; this is not inside a job");
    env[ENV_SLURM_JOB_ID] = "17";
    expect(slurm_judge, facts, "ok inside job 17");
    env[ENV_SLURM_GPUS_ON_NODE] = "4";
    expect(slurm_judge, facts, "ok inside job 17");
    env[ENV_SLURM_GPUS_ON_NODE] = "8";
    expect(slurm_judge, facts,
           "warn SLURM_GPUS_ON_NODE: job 17 has 8 GPUs on this node, 4 are seen");
    env[ENV_SLURM_GPUS_ON_NODE] = NULL;
    env[ENV_SLURM_NTASKS] = "4"; /* a batch script: one muster, whatever the tasks */
    expect(slurm_judge, facts, "ok inside job 17");
    env[ENV_SLURM_STEP_ID] = env[ENV_SLURM_PROCID] = "0";
    expect(slurm_judge, facts, "warn SLURM_NTASKS: this is one of 4 tasks of job 17");
    env[ENV_SLURM_STEP_ID] = NULL;
    facts->slurm.has_srun = false;
    expect(slurm_judge, facts, "warn SLURM_JOB_ID: job 17, and there is no srun here");
    facts->has_slurm = false;
    expect(slurm_judge, facts, "fail PATH: not searched within 4000 ms");
    machine_free(facts);
}

static void programs_are_looked_for_on_the_path(void **state)
{
    (void)state;
    struct slurm_facts facts = {0};
    char *root = root_new();
    file_put(root, "/a/sbatch", "");
    file_put(root, "/b/srun", "");
    char *path_list = xasprintf("/nowhere:%s/a:%s/b", root, root);
    char *srun = xasprintf("%s/b/srun", root);
    slurm_gather(path_list, &facts);
    assert_true(!facts.has_sbatch && !facts.has_srun);
    assert_int_equal(chmod(srun, 0700), 0);
    slurm_gather(path_list, &facts);
    assert_true(!facts.has_sbatch && facts.has_srun);
    slurm_gather("", &facts);
    free(srun);
    free(path_list);
    root_free(root);
}

static void ranks(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(1);
    expect(ranks_judge, facts, "ok no rank is set in the environment");
    facts->env.at[ENV_RANK] = "0";
    facts->env.at[ENV_WORLD_SIZE] = "8";
    expect(ranks_judge, facts, "warn set in the environment: RANK=0 WORLD_SIZE=8");
    machine_free(facts);
}

static void threads(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(8); /* 32 cores */
    expect(threads_judge, facts,
           "ok OMP_NUM_THREADS is not set: muster map gives each worker its share of 32 cores");
    facts->env.at[ENV_OMP_NUM_THREADS] = "4";
    expect(threads_judge, facts, "ok OMP_NUM_THREADS=4");
    facts->env.at[ENV_OMP_NUM_THREADS] = "5";
    expect(threads_judge, facts,
           "warn OMP_NUM_THREADS: =5 for 8 workers on 32 cores; 4 would fill them");
    facts->env.at[ENV_OMP_NUM_THREADS] = "5,2"; /* nested */
    expect_begin(threads_judge, facts, "warn OMP_NUM_THREADS: =5 for 8 workers");
    static const char *const odd[] = {"", "0", "all", "-1", "4.5"};
    for (size_t i = 0; i < countof(odd); i++) {
        facts->env.at[ENV_OMP_NUM_THREADS] = odd[i];
        expect_begin(threads_judge, facts, "warn OMP_NUM_THREADS: =");
    }
    facts->env.at[ENV_OMP_NUM_THREADS] = "5";
    facts->devices.at[0].is_lost = facts->devices.at[1].is_lost = true;
    expect(threads_judge, facts, "ok OMP_NUM_THREADS=5");
    facts->cgroup.cpus_max = 6;
    expect(threads_judge, facts,
           "warn OMP_NUM_THREADS: =5 for 6 workers on 6 cores; 1 would fill them");
    facts->env.at[ENV_OMP_NUM_THREADS] = NULL;
    facts->env.at[ENV_MKL_NUM_THREADS] = "64";
    facts->env.at[ENV_CUDA_LAUNCH_BLOCKING] = "1";
    expect(threads_judge, facts,
           "warn MKL_NUM_THREADS: =64 for 6 workers on 6 cores; 1 would fill them; "
           "warn CUDA_LAUNCH_BLOCKING: =1");
    machine_free(facts);
}

static void only_what_a_run_would_use_is_counted(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(5); /* 32 cores */
    facts->devices.at[4].is_integrated = true;
    facts->env.at[ENV_OMP_NUM_THREADS] = "9";
    facts->env.at[ENV_SLURM_JOB_ID] = "17";
    facts->env.at[ENV_SLURM_GPUS_ON_NODE] = "4";
    facts->slurm.has_srun = true;
    expect(slurm_judge, facts, "ok inside job 17");
    expect(threads_judge, facts,
           "warn OMP_NUM_THREADS: =9 for 4 workers on 32 cores; 8 would fill them");
    const size_t shown[] = {3, 1, 4};
    facts->visible = device_list_pick(&facts->devices, shown, countof(shown));
    expect(threads_judge, facts, "ok OMP_NUM_THREADS=9");
    expect(slurm_judge, facts,
           "warn SLURM_GPUS_ON_NODE: job 17 has 4 GPUs on this node, 2 are seen");
    facts->driver.is_asked = false; /* -g cpu:2: nobody knows what the job has */
    expect(slurm_judge, facts, "ok inside job 17");
    facts->devices.at[1].is_lost = facts->devices.at[3].is_lost = true;
    facts->env.at[ENV_OMP_NUM_THREADS] = "32";
    expect(threads_judge, facts, "ok OMP_NUM_THREADS=32");
    machine_free(facts);
}

static void lists_that_hide_devices(void **state)
{
    (void)state;
    static const struct {
        const char *list, *wanted;
    } cases[] = {
        {"0,3", "ok CUDA_VISIBLE_DEVICES: =0,3 leaves 2 of 4 devices"},
        {"", "fail CUDA_VISIBLE_DEVICES: ='' hides every GPU"},
        {"-1", "fail CUDA_VISIBLE_DEVICES: ='-1' hides every GPU"},
        {"0,9,1", "warn CUDA_VISIBLE_DEVICES: '9' is not on this machine, which "
                  "hides it and all after it"},
        {"1,1", "warn CUDA_VISIBLE_DEVICES: '1' is listed twice"},
        {"x", "fail CUDA_VISIBLE_DEVICES: 'x' is neither"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct facts *facts = fit_machine(4);
        facts->env.at[ENV_CUDA_VISIBLE_DEVICES] = cases[i].list;
        expect_begin(visible_judge, facts, cases[i].wanted);
        assert_int_equal(facts->devices.len, 4);
        machine_free(facts);
    }
}

static void the_order_matters_among_different_gpus(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(2);
    expect(visible_judge, facts, "ok no variable hides a device");
    snprintf(facts->devices.at[1].name, 8, "T4");
    expect(visible_judge, facts, "warn CUDA_DEVICE_ORDER: not set, and the GPUs differ");
    facts->env.at[ENV_CUDA_DEVICE_ORDER] = "FASTEST_FIRST";
    expect(visible_judge, facts, "warn CUDA_DEVICE_ORDER: FASTEST_FIRST, and the GPUs differ");
    facts->env.at[ENV_CUDA_DEVICE_ORDER] = "PCI_BUS_ID";
    expect(visible_judge, facts, "ok no variable hides a device");
    machine_free(facts);
}

static void amd_lists_count_in_what_the_first_leaves(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(6);
    for (size_t i = 2; i < 6; i++) {
        facts->devices.at[i].kind = DEVICE_ROCM;
        facts->devices.at[i].physical = (int)i - 2;
    }
    facts->env.at[ENV_ROCR_VISIBLE_DEVICES] = "2,3";
    expect(visible_judge, facts, "ok ROCR_VISIBLE_DEVICES: =2,3 leaves 2 of 4 devices");
    facts->env.at[ENV_HIP_VISIBLE_DEVICES] = "1";
    expect(visible_judge, facts,
           "ok ROCR_VISIBLE_DEVICES: =2,3 leaves 2 of 4 devices; "
           "ok HIP_VISIBLE_DEVICES: =1 leaves 1 of 2 devices");
    facts->env.at[ENV_HIP_VISIBLE_DEVICES] = "2,3";
    expect_begin(visible_judge, facts,
                 "ok ROCR_VISIBLE_DEVICES: =2,3 leaves 2 of 4 devices; "
                 "fail HIP_VISIBLE_DEVICES: '2' is not on this machine");
    machine_free(facts);
}

static void two_layers_count_within_each_other(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    facts->env.at[ENV_ROCR_VISIBLE_DEVICES] = "3";
    expect(visible_judge, facts, "ok no variable hides a device");
    facts->env.at[ENV_HIP_VISIBLE_DEVICES] = "3";
    expect(visible_judge, facts, "warn ROCR_VISIBLE_DEVICES: =3, and HIP_VISIBLE_DEVICES=3");
    facts->env.at[ENV_HIP_VISIBLE_DEVICES] = NULL;
    facts->env.at[ENV_ROCR_VISIBLE_DEVICES] = NULL;
    facts->env.at[ENV_NVIDIA_VISIBLE_DEVICES] = "void";
    expect(visible_judge, facts, "warn NVIDIA_VISIBLE_DEVICES: 'void'");
    machine_free(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slurm),
        cmocka_unit_test(programs_are_looked_for_on_the_path),
        cmocka_unit_test(ranks),
        cmocka_unit_test(threads),
        cmocka_unit_test(only_what_a_run_would_use_is_counted),
        cmocka_unit_test(lists_that_hide_devices),
        cmocka_unit_test(the_order_matters_among_different_gpus),
        cmocka_unit_test(amd_lists_count_in_what_the_first_leaves),
        cmocka_unit_test(two_layers_count_within_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
