/* SPDX-License-Identifier: Apache-2.0
 *
 * What Slurm's commands say about a cluster, and what jobs it can run.
 */
#include "unit/test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/shell.h"
#include "slurm/cluster.h"
#include "slurm/judge.h"
#include "slurm/sbatch_options.h"

static const char config[] = "Configuration data as of 2026-11-24T20:29:43\n"
                             "AccountingStorageEnforce = none\n"
                             "JobSubmitPlugins        = (null)\n"
                             "MaxArraySize            = 1001\n"
                             "\n"
                             "Slurmctld(primary) at vm is UP\n";
static const char partitions[] =
    "PartitionName=gpu AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES DefaultTime=NONE "
    "MaxNodes=2 MaxTime=1-00:00:00 Nodes=n[1-4] OverSubscribe=NO State=UP TotalNodes=4\n"
    "PartitionName=cpu AllowGroups=ALL AllowAccounts=physics,math DenyAccounts=  Default=NO "
    "MaxNodes=UNLIMITED MaxTime=UNLIMITED OverSubscribe=NO State=UP TotalNodes=100\n"
    "PartitionName=mixed AllowAccounts=ALL DenyAccounts=math Default=NO MaxTime=2:00:00 "
    "OverSubscribe=NO State=UP TotalNodes=6\n"
    "PartitionName=old AllowAccounts=ALL Default=NO MaxTime=UNLIMITED State=INACTIVE\n"
    "PartitionName=night AllowAccounts=ALL Default=NO MaxTime=UNLIMITED State=DOWN\n"
    "PartitionName=whole AllowAccounts=ALL Default=NO OverSubscribe=EXCLUSIVE State=UP\n"
    "nonsense\n\n=\n";
static const char nodes[] = "gpu|3|64|512000|idle|gpu:h200:8(S:0-1)\n"
                            "gpu|1|64|512000|drained*|gpu:h200:8(S:0-1)\n"
                            "cpu|100|16|64000|mixed|(null)\n"
                            "mixed|4|64|512000|idle|gpu:h200:8\n"
                            "mixed|2|32|256000+|allocated|gpu:a100:4,license|x:2\n"
                            "whole|2|64|512000|idle|gpu:h200:8\n"
                            "broken|line\n|1|1|1|idle|\n";

static const struct str texts[CLUSTER_TEXTS] = {
    [CLUSTER_CONFIG] = {config, sizeof(config) - 1},
    [CLUSTER_PARTITIONS] = {partitions, sizeof(partitions) - 1},
    [CLUSTER_NODES] = {nodes, sizeof(nodes) - 1},
};

static void options_read(const char *line, struct sbatch_words *words)
{
    struct env_list typed = {0};
    struct err err = {0};
    assert_int_equal(shell_words(line, &typed, &err), 0);
    env_end(&typed);
    if (sbatch_words_read(NULL, (int)typed.len, typed.at, words, &err) != 0)
        fail_msg("'%s': %s", line, err.text);
    env_list_release(&typed);
}

static void facts_are_read_and_other_lines_passed_over(void **state)
{
    (void)state;
    struct cluster c;
    cluster_read(texts, &c);
    assert_int_equal(c.n_partitions, 6);
    assert_int_equal(c.n_kinds, 6);
    assert_int_equal(c.array_max, 1001);
    assert_false(c.may_change_jobs);
    const struct cluster_partition *gpu = cluster_partition_find(&c, STR("gpu"));
    assert_true(gpu && gpu->is_default && !gpu->is_exclusive && gpu->nodes_max == 2);
    assert_int_equal(gpu->time_max_s, 86400);
    assert_int_equal(cluster_partition_find(&c, STR("cpu"))->time_max_s, UINT64_MAX);
    assert_null(cluster_partition_find(&c, STR("gp")));
    assert_true(c.kinds[0].is_up && !c.kinds[1].is_up);
    assert_int_equal(c.kinds[4].mib, 256000);
    assert_int_equal(cluster_kind_gpus(&c.kinds[4], STR("A100")), 4);
    assert_int_equal(cluster_kind_gpus(&c.kinds[4], STR("")), 4);
    assert_int_equal(cluster_kind_gpus(&c.kinds[2], STR("")), 0);
    cluster_release(&c);
}

/* What is wrong with a job: a part of each sentence; NULL: nothing. */
static const struct {
    const char *line, *error, *warning;
} jobs[] = {
    {"", NULL, NULL},
    {"-p gpu,mixed -t 60", NULL, NULL},
    {"-p gpuu", "there is no partition 'gpuu' (did you mean 'gpu'?); there are gpu, cpu, mixed,",
     NULL},
    {"-p gpu,nix", "there is no partition 'nix'", NULL},
    {"-p old", "partition old takes no new jobs: its state is INACTIVE", NULL},
    {"-p night", NULL, "partition night is down"},
    {"-p cpu -A chemistry", "is not for --account=chemistry; it is for physics,math", NULL},
    {"-p cpu -A math", NULL, NULL},
    {"-p mixed -A math", "partition mixed is not for --account=math", NULL},
    {"-p mixed,gpu -A math", NULL, NULL},
    {"-t 2-00:00:00", "--time=2-00:00:00 is more than partition gpu allows: give --time=1-00:00:00",
     NULL},
    {"-t UNLIMITED", "is more than partition gpu allows", NULL},
    {"-t 2-0 -q long", NULL, "(unless --qos=long allows more)"},
    {"-p gpu,cpu -t 2-0", NULL, NULL},
    {"-N 3", "3 nodes are more than partition gpu allows a job: give --nodes=2", NULL},
    {"-N 3 -q wide", NULL, "(unless --qos=wide"},
    {"-p mixed -N 7", "7 nodes are asked for, and partition mixed has 6", NULL},
    {"-p mixed -N 5 --gpus-per-node=8", "partition mixed has 4 such of 6", NULL},
    {"-p mixed -N 6 --gpus-per-node=4", NULL, NULL},
    {"-p gpu -N 2", NULL, NULL},
    {"--gres=gpu:h100:2",
     "has GPUs of type 'h100'; there are h200 (8 a node); did you mean 'h200'?", NULL},
    {"-p mixed --gres=gpu:a100:8",
     "more than 4 of type a100: give --nodes=2 --gpus-per-node=a100:4", NULL},
    {"--gpus-per-node=9",
     "--gpus-per-node: 9 GPUs of one node are asked for, and no node of partition gpu has more than 8",
     NULL},
    {"-N2 -G 17", "give --nodes=3 --gpus-per-node=8", NULL},
    {"-N2 -G 16", NULL, NULL},
    {"-G 16", NULL, NULL}, /* Slurm takes as many nodes as it needs */
    {"-G 33", "--gpus: 33 are asked for, and partition gpu has 32", NULL},
    {"-N1 -n4 --gpus-per-task=3", "12 GPUs of one node", NULL},
    {"-p cpu -G 1", "no node of partition cpu has GPUs: those with GPUs are gpu, mixed, whole",
     NULL},
    {"--gpus=h200:2 --gres=gpu:1", "with a type (--gpus, h200) and without (--gres)", NULL},
    {"-N1 -n16 -c8",
     "128 CPUs of one node are asked for, and no node of partition gpu has more than 64", NULL},
    {"-N1 -n16 -c8 -O", NULL, NULL},
    {"-N2 -n16 -c8", NULL, NULL},
    {"--mem=1T", "1.0 TiB of memory on one node", NULL},
    {"-c64 --mem-per-cpu=9G", "576 GiB of memory on one node", NULL},
    {"-a 0-1000", NULL, NULL},
    {"-a 0-1001%4", "the highest number is 1001, and this cluster allows 1000 (MaxArraySize)",
     NULL},
    {"-N1 -w n[1-3]", NULL, "--nodelist names 3 nodes, and the job is one of 1: Slurm leaves out"},
    {"-N2 -w n[1-2]", NULL, NULL},
    {"-N1 -w ./file[1-3]", NULL, NULL},
};

static void says(const char *line, const struct env_list *said, const char *wanted)
{
    if (said->len != (wanted ? 1 : 0))
        fail_msg("'%s': %zu sentences: %s", line, said->len, said->len > 0 ? said->at[0] : wanted);
    if (wanted && !strstr(said->at[0], wanted))
        fail_msg("'%s': '%s' has no '%s'", line, said->at[0], wanted);
}

static void what_a_cluster_cannot_run_is_said_with_the_cure(void **state)
{
    (void)state;
    struct cluster c;
    cluster_read(texts, &c);
    for (size_t i = 0; i < countof(jobs); i++) {
        struct sbatch_words words;
        struct judgement found;
        options_read(jobs[i].line, &words);
        cluster_judge(&c, &words.options, &found);
        says(jobs[i].line, &found.errors, jobs[i].error);
        says(jobs[i].line, &found.warnings, jobs[i].warning);
        judgement_release(&found);
        sbatch_words_release(&words);
    }
    cluster_release(&c);
}

static void a_job_that_needs_nodes_that_are_down_is_told_that_it_waits(void **state)
{
    (void)state;
    struct cluster c;
    struct sbatch_words words;
    struct judgement found;
    static const char few[] = "gpu|1|64|512000|idle|gpu:8\ngpu|2|64|512000|down*|gpu:8\n";
    const struct str known[CLUSTER_TEXTS] = {
        STR(""), texts[CLUSTER_PARTITIONS], {few, sizeof(few) - 1}};
    cluster_read(known, &c);
    options_read("-N2", &words);
    cluster_judge(&c, &words.options, &found);
    says("-N2", &found.errors, NULL);
    says("-N2", &found.warnings,
         "1 of the 3 nodes of partition gpu that can run the job are up, and it needs 2");
    judgement_release(&found);
    sbatch_words_release(&words);
    cluster_release(&c);
}

/* Under a plugin that chooses partitions, a job that any of them can run is none to refuse. */
static void a_partition_that_a_plugin_may_choose_counts(void **state)
{
    (void)state;
    struct cluster c;
    struct sbatch_words words;
    struct judgement found;
    cluster_read(texts, &c);
    options_read("-t 2-0 --gres=gpu:2", &words);
    for (int may_change = 0; may_change < 2; may_change++) {
        c.may_change_jobs = may_change;
        cluster_judge(&c, &words.options, &found);
        assert_int_equal(found.errors.len, may_change ? 0 : 1);
        judgement_release(&found);
    }
    sbatch_words_release(&words);
    cluster_release(&c);
}

static void nothing_is_refused_where_nothing_is_known(void **state)
{
    (void)state;
    struct cluster c;
    const struct str none[CLUSTER_TEXTS] = {STR(""), STR(""), STR("")};
    cluster_read(none, &c);
    for (size_t i = 0; i < countof(jobs); i++) {
        struct sbatch_words words;
        struct judgement found;
        if (strstr(jobs[i].line, "--gres=gpu:1")) /* typed and untyped, whatever the cluster is */
            continue;
        options_read(jobs[i].line, &words);
        cluster_judge(&c, &words.options, &found);
        assert_int_equal(found.errors.len, 0);
        judgement_release(&found);
        sbatch_words_release(&words);
    }
    cluster_release(&c);
}

static void all_gpus_of_a_node_ask_for_the_node(void **state)
{
    (void)state;
    static const struct {
        const char *line, *added;
    } rows[] = {
        {"", "--nodes=1"},
        {"-G 8", "--nodes=1 --exclusive"},
        {"-G 4", "--nodes=1"},
        {"-N2 -G 16", "--exclusive"},
        {"-N2 --gpus-per-node=h200:8", "--exclusive"},
        {"-N1 --gres=gpu:8 -s", ""},
        {"-N1 --gres=gpu:8 --exclusive=user", ""},
        {"-p mixed --gpus-per-node=8", "--nodes=1 --exclusive"}, /* the others have too few */
        {"-p mixed --gpus-per-node=4", "--nodes=1"},             /* it may be one of eight */
        {"-p mixed --gpus-per-node=a100:4", "--nodes=1 --exclusive"},
        {"-p whole -G 8", "--nodes=1"},
        {"-p gpu,cpu -G 8", "--nodes=1 --exclusive"},
        {"-F file -G 8", ""},
        {"-p gpu -G h100:2", "--nodes=1"}, /* no node can run it */
    };
    struct cluster c;
    cluster_read(texts, &c);
    for (size_t i = 0; i < countof(rows); i++) {
        struct sbatch_words words;
        struct env_list told = {0};
        cleanup_buf struct buf added = BUF_INIT;
        options_read(rows[i].line, &words);
        size_t n = words.options.len;
        cluster_complete(&c, &words.options, &told);
        for (; n < words.options.len; n++)
            buf_addf(&added, "%s%s", added.len > 0 ? " " : "", words.options.at[n]);
        if (strcmp(buf_text(&added), rows[i].added) != 0)
            fail_msg("'%s' gets '%s'", rows[i].line, buf_text(&added));
        assert_int_equal(told.len, strstr(rows[i].added, "--exclusive") ? 1 : 0);
        env_list_release(&told);
        sbatch_words_release(&words);
    }
    cluster_release(&c);
}

static void many_nodes_that_all_differ_are_quick(void **state)
{
    SKIP_UNDER_ASAN();
    SKIP_UNDER_VALGRIND();
    (void)state;
    struct cluster c;
    struct sbatch_words words;
    struct judgement found;
    cleanup_buf struct buf many = BUF_INIT;
    for (unsigned i = 0; i < 65536; i++)
        buf_addf(&many, "gpu|1|%u|512000|idle|gpu:h200:8(S:0-1),gpu:t%u:1\n", 64 + i, i);
    const struct str known[CLUSTER_TEXTS] = {STR(""), texts[CLUSTER_PARTITIONS], buf_str(&many)};
    uint64_t begin_ms = clock_now_ms();
    cluster_read(known, &c);
    options_read("-N2 --gpus-per-node=9 --gres=gpu:9", &words);
    cluster_judge(&c, &words.options, &found);
    assert_int_equal(c.n_kinds, 65536);
    assert_int_equal(found.errors.len, 0);
    assert_true(clock_now_ms() - begin_ms < 2000);
    judgement_release(&found);
    sbatch_words_release(&words);
    cluster_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_read_and_other_lines_passed_over),
        cmocka_unit_test(what_a_cluster_cannot_run_is_said_with_the_cure),
        cmocka_unit_test(a_job_that_needs_nodes_that_are_down_is_told_that_it_waits),
        cmocka_unit_test(a_partition_that_a_plugin_may_choose_counts),
        cmocka_unit_test(nothing_is_refused_where_nothing_is_known),
        cmocka_unit_test(all_gpus_of_a_node_ask_for_the_node),
        cmocka_unit_test(many_nodes_that_all_differ_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
