/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken over from a launcher. The environments are those of real tasks, less the variables that do not matter and with
 * addresses as on several machines: of Slurm 22.05, Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2, Intel MPI 2021.19. Those of Flux,
 * MVAPICH2, PALS, SkyPilot and Horovod, and addresses of no use, are made up from what is known of them.
 */
#include "unit/test.h"

#include <stdbool.h>
#include <string.h>

#include "base/attr.h"
#include "launch/takeover.h"

enum {
    VARIABLES_MAX = 24
};

struct expectation {
    const char *what;
    const char *environment[VARIABLES_MAX];
    struct takeover is;
};

#define STEP(job, rank, size, local_rank, node, n_nodes, counts, nodes)                         \
    "SLURM_JOB_ID=" job, "SLURM_PROCID=" rank, "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=" size, \
        "SLURM_LOCALID=" local_rank, "SLURM_NODEID=" node, "SLURM_STEP_NUM_NODES=" n_nodes,     \
        "SLURM_STEP_TASKS_PER_NODE=" counts, "SLURM_STEP_NODELIST=" nodes,                      \
        "SLURM_JOB_NODELIST=n[1-2]"
#define OPENMPI(rank, size, local_rank, n_local)                     \
    "OMPI_COMM_WORLD_RANK=" rank, "OMPI_COMM_WORLD_SIZE=" size,      \
        "OMPI_COMM_WORLD_LOCAL_RANK=" local_rank, "PMIX_RANK=" rank, \
        "OMPI_COMM_WORLD_LOCAL_SIZE=" n_local, "OMPI_COMM_WORLD_NODE_RANK=" local_rank
#define HYDRA(rank, size, local_rank, n_local)                                     \
    "PMI_RANK=" rank, "PMI_SIZE=" size, "PMI_FD=6", "MPI_LOCALRANKID=" local_rank, \
        "MPI_LOCALNRANKS=" n_local

static char host[] = "n1", loopback[] = "127.0.0.1", named[] = "head.example";

/* clang-format off */
static const struct expectation expectations[] = {
    {"nothing", {"HOME=/root", "SLURM_CONF=/etc/slurm/slurm.conf"}, {0}},
    /* Slurm */
    {"a step with one task on each of two nodes",
     {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")},
     {"srun", false, 1, 2, .host = host, .port = 23558, .run_id = (char[]){"1.0"}}},
    {"a step with two tasks on each of two nodes, in a batch script",
     {"ENVIRONMENT=BATCH", "SLURM_DISTRIBUTION=block", STEP("3", "2", "4", "0", "1", "2", "2(x2)", "n[1-2]")},
     {"srun", true, 2, 4, 0, 2, 1, 2, host, 25480, (char[]){"3.0"}}},
    {"a step with unequal nodes, with pmi2",
     {"PMI_FD=11", "PMI_JOBID=2.0", "PMI_RANK=2", "PMI_SIZE=3", STEP("2", "2", "3", "0", "1", "2", "2,1", "n[1-2]")},
     {"srun", true, 2, 3, 0, 1, 1, 2, host, 24519, (char[]){"2.0"}}},
    {"a step that deals tasks to nodes in turn",
     {"SLURM_DISTRIBUTION=cyclic", STEP("14", "2", "4", "1", "0", "2", "3,1", "n[1-2]")},
     {"srun", true, 2, 4, 1, 3, 0, 2, host, 0, (char[]){"14.0"}}},
    {"a step with an order of the user's own",
     {"SLURM_DISTRIBUTION=arbitrary", STEP("15", "0", "3", "0", "1", "2", "2,1", "n[1-2]")},
     {"srun", true, 0, 3, 0, 1, 1, 2, NULL, 0, (char[]){"15.0"}}},
    {"a step of two tasks on one of two nodes",
     {STEP("4", "1", "2", "1", "0", "1", "2", "n2")},
     {"srun", true, 1, 2, 1, 2, 0, 1, loopback, 0, (char[]){"4.0"}}},
    {"a step of a heterogeneous job",
     {"SLURM_HET_SIZE=2", STEP("17", "2", "3", "1", "1", "2", "1,2", "n[1-2]")},
     {"srun", true, 2, 3, 1, 2, 1, 2, host, 0, (char[]){"17.0"}}},
    {"a step with one task",
     {STEP("3", "0", "1", "0", "0", "1", "1", "n2")}, {0}},
    {"a batch script",
     {"ENVIRONMENT=BATCH", "SLURM_JOB_ID=3", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_NTASKS=4", "SLURM_PROCID=0",
      "SLURM_NODEID=0", "SLURM_LOCALID=0", "SLURM_TASKS_PER_NODE=2(x2)", "SLURM_NNODES=2"}, {0}},
    {"salloc",
     {"SLURM_JOB_ID=4", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_NNODES=2", "SLURM_TASKS_PER_NODE=1(x2)"}, {0}},
    {"the shell that salloc starts on a node",
     {"SLURM_JOB_ID=13", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_PTY_PORT=42059", "SLURM_PROCID=0", "SLURM_NODEID=0",
      "SLURM_STEP_ID=4294967290", "SLURM_STEP_NODELIST=n1", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NUM_NODES=1",
      "SLURM_STEP_TASKS_PER_NODE=1", "SLURM_TASKS_PER_NODE=1(x2)"}, {0}},
    {"a rank of a muster that took a step over",
     {"TORCHELASTIC_RUN_ID=1.0", STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}, {0}},
    {"a step of a job that was submitted by a rank",
     {"TORCHELASTIC_RUN_ID=1.0", STEP("2", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")},
     {"srun", false, 1, 2, .host = host, .run_id = (char[]){"2.0"}}},
    /* the user's word */
    {"a step with an address and a port of the user's",
     {"MASTER_ADDR=head.example", "MASTER_PORT=12345", STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")},
     {"srun", false, 1, 2, .host = named, .port = 12345, .run_id = (char[]){"1.0"}}},
    {"an address without a launcher", {"MASTER_ADDR=", "MASTER_PORT=x"}, {0}},
    /* Open MPI */
    {"Open MPI 4 on one machine",
     {OPENMPI("1", "2", "1", "2"), "OMPI_MCA_orte_num_nodes=1", "PMIX_NAMESPACE=169738241",
      "OMPI_MCA_orte_hnp_uri=169738240.0;tcp://192.0.2.2:47475;tcp6://[fd00::2]:56367"},
     {"mpirun of Open MPI", true, 1, 2, 1, 2, 0, 1, loopback, 0, (char[]){"169738241"}}},
    {"the lone task on the second machine of Open MPI 4",
     {OPENMPI("2", "3", "0", "1"), "OMPI_MCA_orte_num_nodes=2", "PMIX_NAMESPACE=2748645377", "PMIX_HOSTNAME=h2",
      "OMPI_MCA_orte_hnp_uri=2748645376.0;tcp://192.0.2.2:55999;tcp6://[fd00::2]:47159",
      "OMPI_MCA_orte_local_daemon_uri=2748645376.1;tcp://192.0.2.3:36355;tcp6://[fd00::3]:39013"},
     {"mpirun of Open MPI", true, 2, 3, 0, 1, .host = (char[]){"192.0.2.2"}, .run_id = (char[]){"2748645377"}}},
    {"Open MPI 4 with a task on each machine, and IPv6 alone",
     {OPENMPI("0", "2", "0", "1"), "OMPI_MCA_orte_num_nodes=2", "PMIX_NAMESPACE=2748645377",
      "OMPI_MCA_orte_hnp_uri=2748645376.0;tcp6://[fd00::2]:47159",
      "OMPI_MCA_orte_local_daemon_uri=2748645376.0;tcp6://[fd00::2]:47159"},
     {"mpirun of Open MPI", false, 0, 2, .host = (char[]){"fd00::2"}, .run_id = (char[]){"2748645377"}}},
    {"task 0 of Open MPI 4 on another machine than mpirun",
     {OPENMPI("0", "4", "0", "2"), "OMPI_MCA_orte_num_nodes=2", "PMIX_NAMESPACE=2750742529", "PMIX_HOSTNAME=h2",
      "OMPI_MCA_orte_hnp_uri=2750742528.0;tcp://192.0.2.2,198.51.100.2:48777",
      "OMPI_MCA_orte_local_daemon_uri=2750742528.1;tcp://192.0.2.3,198.51.100.3:44437"},
     {"mpirun of Open MPI", true, 0, 4, 0, 2, .run_id = (char[]){"2750742529"}}},
    {"Open MPI 4 whose address is one that others cannot use",
     {OPENMPI("3", "4", "1", "2"), "OMPI_MCA_orte_hnp_uri=2750742528.0;tcp://127.0.0.1:48777", "PMIX_NAMESPACE=1"},
     {"mpirun of Open MPI", true, 3, 4, 1, 2, .run_id = (char[]){"1"}}},
    {"Open MPI 5 on two machines",
     {OPENMPI("2", "4", "0", "2"), "PMIX_NAMESPACE=prterun-h1-a-11289@1", "PMIX_HOSTNAME=h2"},
     {"mpirun of Open MPI", true, 2, 4, 0, 2, .host = (char[]){"h1-a"}, .run_id = (char[]){"prterun-h1-a-11289@1"}}},
    {"Open MPI 4 in a Slurm job, below the step of its daemons",
     {OPENMPI("3", "4", "1", "2"), "OMPI_MCA_orte_num_nodes=2", "PMIX_NAMESPACE=270991361", "ENVIRONMENT=BATCH",
      "OMPI_MCA_orte_hnp_uri=270991360.0;tcp://192.0.2.2:49655;tcp6://[fd00::2]:44491",
      STEP("9", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")},
     {"mpirun of Open MPI", true, 3, 4, 1, 2, .host = host, .run_id = (char[]){"270991361"}}},
    {"Open MPI with one task", {OPENMPI("0", "1", "0", "1")}, {0}},
    /* the others */
    {"MPICH on one machine", {HYDRA("1", "2", "1", "2")}, {"mpiexec of MPICH", true, 1, 2, 1, 2, 0, 1, loopback}},
    {"MPICH on two machines", {HYDRA("2", "4", "0", "2")}, {"mpiexec of MPICH", true, 2, 4, 0, 2}},
    {"MPICH in a Slurm job, below the step of its proxies",
     {HYDRA("2", "4", "0", "2"), STEP("9", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")},
     {"mpiexec of MPICH", true, 2, 4, 0, 2, .host = host, .run_id = (char[]){"9"}}},
    {"Intel MPI", {HYDRA("1", "2", "1", "2"), "I_MPI_HYDRA_UUID=521f0000-a593-b17d-0761-06004eb39a66"},
     {"mpirun of Intel MPI", true, 1, 2, 1, 2, 0, 1, loopback, 0, (char[]){"521f0000-a593-b17d-0761-06004eb39a66"}}},
    {"MVAPICH2",
     {"MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=0", "MV2_COMM_WORLD_LOCAL_SIZE=1"},
     {"MVAPICH2", false, 1, 2}},
    {"Horovod on two machines",
     {"HOROVOD_RANK=3", "HOROVOD_SIZE=4", "HOROVOD_LOCAL_RANK=1", "HOROVOD_LOCAL_SIZE=2", "HOROVOD_CROSS_RANK=1", "HOROVOD_CROSS_SIZE=2"},
     {"horovodrun", true, 3, 4, 1, 2}},
    {"Horovod in a Slurm job, with a task on each machine",
     {"HOROVOD_RANK=1", "HOROVOD_SIZE=2", "HOROVOD_LOCAL_RANK=0", "HOROVOD_LOCAL_SIZE=1", "SLURM_JOB_ID=9", "SLURM_JOB_NODELIST=n[1-2]"},
     {"horovodrun", false, 1, 2, .host = host, .run_id = (char[]){"9"}}},
    {"Flux",
     {"FLUX_TASK_RANK=5", "FLUX_JOB_SIZE=8", "FLUX_TASK_LOCAL_ID=1", "FLUX_JOB_NNODES=2", "FLUX_JOB_ID=f4yBboYGo",
      "PMI_RANK=5", "PMI_SIZE=8"},
     {"flux run", true, 5, 8, .run_id = (char[]){"f4yBboYGo"}}},
    {"PALS",
     {"PALS_RANKID=13", "PMI_SIZE=24", "PALS_LOCAL_RANKID=1", "PALS_LOCAL_SIZE=12", "PALS_APID=7d5e", "PMI_RANK=13"},
     {"mpiexec of PALS", true, 13, 24, 1, 12, .run_id = (char[]){"7d5e"}}},
    {"SkyPilot",
     {"SKYPILOT_NODE_RANK=1", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=192.0.2.7\n192.0.2.8\n", "SKYPILOT_TASK_ID=sky-1"},
     {"SkyPilot", false, 1, 2, .host = (char[]){"192.0.2.7"}, .run_id = (char[]){"sky-1"}}},
    {"SkyPilot with one machine", {"SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=1"}, {0}},
    {"PMIx, and the size by the user",
     {"PMIX_RANK=1", "PMIX_NAMESPACE=prterun-h1-30504@1", "PMIX_HOSTNAME=h1", "WORLD_SIZE=4"},
     {"PMIx", true, 1, 4, .run_id = (char[]){"prterun-h1-30504@1"}}},
    {"the first task of PMIx, of an unknown number", {"PMIX_RANK=0", "PMIX_NAMESPACE=prterun-h1-30504@1"}, {0}},
};

/* The first variable takes the place of that of the same name, if it is there. */
static const struct {
    const char *variable, *complaint;
    const char *environment[VARIABLES_MAX];
} faults[] = {
    {"SLURM_PROCID=", "srun: SLURM_PROCID: ''", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_PROCID=-1", "SLURM_PROCID: '-1'", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_PROCID=99999999999999999999", "SLURM_PROCID: '9", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_PROCID=2", "SLURM_PROCID is 2, and SLURM_STEP_NUM_TASKS is 2", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_STEP_NUM_TASKS=0", "SLURM_STEP_NUM_TASKS: '0'", {STEP("1", "0", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_NODEID=2", "SLURM_STEP_TASKS_PER_NODE", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_LOCALID=1", "SLURM_LOCALID is 1, and SLURM_STEP_TASKS_PER_NODE is 1", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_STEP_NUM_NODES=3", "SLURM_STEP_NUM_NODES is 3, and SLURM_STEP_NUM_TASKS is 2", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_STEP_TASKS_PER_NODE=2(x", "SLURM_STEP_TASKS_PER_NODE", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_STEP_NODELIST=n[1-", "SLURM_STEP_NODELIST", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"SLURM_JOB_NODELIST=n7", "begins with n1, which SLURM_JOB_NODELIST does not have", {STEP("6", "0", "2", "0", "0", "2", "1(x2)", "n[1-2]")}},
    {"MASTER_ADDR=", "MASTER_ADDR is empty", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"MASTER_PORT=", "MASTER_PORT: ''", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"MASTER_PORT=70000", "MASTER_PORT: '70000'", {STEP("1", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]")}},
    {"OMPI_COMM_WORLD_RANK=two", "OMPI_COMM_WORLD_RANK: 'two'", {OPENMPI("1", "2", "1", "2")}},
    {"OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_LOCAL_RANK is 2, and OMPI_COMM_WORLD_LOCAL_SIZE is 2", {OPENMPI("1", "2", "1", "2")}},
    {"OMPI_COMM_WORLD_LOCAL_SIZE=3", "OMPI_COMM_WORLD_LOCAL_SIZE is 3, and OMPI_COMM_WORLD_SIZE is 2", {OPENMPI("1", "2", "1", "2")}},
    {"PMI_SIZE=4294967296", "PMI_SIZE: '4294967296'", {HYDRA("1", "2", "1", "2")}},
    {"FLUX_TASK_LOCAL_ID=8", "FLUX_TASK_LOCAL_ID is 8, and FLUX_JOB_SIZE is 8", {"FLUX_TASK_RANK=5", "FLUX_JOB_SIZE=8"}},
    {"SKYPILOT_NODE_IPS=", "SKYPILOT_NODE_IPS is empty", {"SKYPILOT_NODE_RANK=1", "SKYPILOT_NUM_NODES=2"}},
    {"PMIX_RANK=3", "PMIX_RANK is 3, and WORLD_SIZE", {"PMIX_NAMESPACE=prterun-h1-30504@1"}},
};
/* clang-format on */

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void launchers_are_taken_over(void **state)
{
    (void)state;
    for (const struct expectation *e = expectations; e < expectations + countof(expectations);
         e++) {
        const struct takeover *is = &e->is;
        struct takeover t;
        struct err err = {0};
        if (takeover_read(e->environment, &t, &err) != 0)
            fail_msg("%s: %s", e->what, err.text);
        if (!is_same_text(t.launcher, is->launcher) || t.is_a_task != is->is_a_task ||
            t.node != is->node || t.n_nodes != is->n_nodes || !is_same_text(t.host, is->host) ||
            !is_same_text(t.run_id, is->run_id))
            fail_msg("%s: %s, %s, %u of %u, at %s, run %s", e->what,
                     t.launcher ? t.launcher : "none", t.is_a_task ? "a task" : "a machine", t.node,
                     t.n_nodes, t.host ? t.host : "?", t.run_id ? t.run_id : "?");
        if (t.local_rank != is->local_rank || t.n_local != is->n_local ||
            t.group_rank != is->group_rank || t.n_groups != is->n_groups)
            fail_msg("%s: %u of %u on machine %u of %u", e->what, t.local_rank, t.n_local,
                     t.group_rank, t.n_groups);
        if (is->port != 0 ? t.port != is->port
                          : (t.run_id ? t.port < 20000 || t.port > 29000 : t.port != 0))
            fail_msg("%s: port %u", e->what, t.port);
        takeover_release(&t);
    }
}

static void what_is_malformed_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(faults); i++) {
        const char *environment[VARIABLES_MAX + 1] = {faults[i].variable};
        size_t n = 1, name_len = strcspn(faults[i].variable, "=") + 1;
        for (const char *const *v = faults[i].environment; *v; v++)
            if (strncmp(*v, faults[i].variable, name_len) != 0)
                environment[n++] = *v;
        struct takeover t;
        struct err err = {0};
        if (takeover_read(environment, &t, &err) != ERR_DATA)
            fail_msg("%s is taken", faults[i].variable);
        if (!strstr(err.text, faults[i].complaint))
            fail_msg("%s: %s", faults[i].variable, err.text);
        assert_null(t.launcher);
        assert_null(t.host);
        assert_null(t.run_id);
    }
}

/* Jobs whose ids are near to each other often run on the same machine. */
static void neighbours_meet_at_different_ports(void **state)
{
    (void)state;
    static bool is_taken[UINT16_MAX + 1];
    for (unsigned job = 41000; job < 42000; job++) {
        char id[32];
        snprintf(id, sizeof(id), "SLURM_JOB_ID=%u", job);
        const char *environment[] = {id, STEP("x", "1", "2", "0", "1", "2", "1(x2)", "n[1-2]"),
                                     NULL};
        struct takeover t;
        struct err err = {0};
        assert_int_equal(takeover_read(environment, &t, &err), 0);
        if (is_taken[t.port])
            fail_msg("job %u meets at port %u of another", job, t.port);
        is_taken[t.port] = true;
        takeover_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_taken_over),
        cmocka_unit_test(what_is_malformed_is_named),
        cmocka_unit_test(neighbours_meet_at_different_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
