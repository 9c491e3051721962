/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/takeover.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "slurm/node_names.h"

enum {
    TASKS_MAX = 1 << 20,
    UNKNOWN = UINT32_MAX,
    /* Below the ports that Linux gives to connections (from 32768 on), and those of torchrun (29400, 29500). */
    PORT_FIRST = 20000,
    N_PORTS = 9001 /* a prime */
};

/* What launchers count. */
enum number {
    RANK, /* of the task */
    SIZE, /* tasks */
    LOCAL_RANK,
    GROUP_RANK, /* of the machine */
    N_GROUPS,
    N_LOCAL, /* tasks on this machine */
    N_NUMBERS
};

/* An environment as one launcher's task sees it. */
struct reading {
    const char *const *envp;
    const struct source *source;
    uint32_t numbers[N_NUMBERS];
};

struct source {
    const char *launcher;
    const char *mark; /* a variable that has to be set too, since others set names[RANK]; or NULL */
    const char *names[N_NUMBERS]; /* variables; NULL: this launcher has none */
    const char *run_id;
    /* Reads what is no number: the first machine, the run's id. NULL: there is nothing. */
    int (*more)(struct reading *reading, struct takeover *out, struct err *err);
};

/* NULL: it is not set. */
static const char *value_of(const char *const *envp, const char *name)
{
    size_t len = name ? strlen(name) : 0;
    for (; len > 0 && *envp; envp++)
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
            return *envp + len + 1;
    return NULL;
}

/* ---- Slurm ---- */

static int nodes_read(const char *const *envp, const char *name, struct env_list *out,
                      struct err *err)
{
    const char *list = value_of(envp, name);
    int rc = slurm_node_names(list ? list : "", out, err);
    return rc ? wrap(err, rc, "%s", name) : 0;
}

/*
 * Refuses the variables of another job's step, which a batch script inherits if it was submitted in a step: the nodes
 * of a step are nodes of its job.
 */
static int step_check(const struct env_list *job, const char *node, struct err *err)
{
    for (size_t i = 0; i < job->len; i++)
        if (strcmp(job->at[i], node) == 0)
            return 0;
    return fail(err, ERR_DATA,
                "SLURM_STEP_NODELIST begins with %s, which SLURM_JOB_NODELIST does not have: the "
                "SLURM_STEP variables are those of another job, and must be unset",
                node);
}

static int slurm_more(struct reading *reading, struct takeover *out, struct err *err)
{
    const char *job_id = value_of(reading->envp, "SLURM_JOB_ID");
    const char *order = value_of(reading->envp, "SLURM_DISTRIBUTION");
    struct env_list step = {0}, job = {0};
    int rc = nodes_read(reading->envp, "SLURM_STEP_NODELIST", &step, err);
    rc = rc ? rc : nodes_read(reading->envp, "SLURM_JOB_NODELIST", &job, err);
    rc = rc ? rc : step_check(&job, step.at[0], err);
    /* The first task is on the first node, unless the user has given an order of nodes. */
    if (rc == 0 && !(order && strcmp(order, "arbitrary") == 0))
        out->host = xstrdup(step.at[0]);
    out->run_id =
        job_id ? xasprintf("%s.%s", job_id, value_of(reading->envp, "SLURM_STEP_ID")) : NULL;
    env_list_release(&step);
    env_list_release(&job);
    return rc;
}

/* For a launcher within a Slurm job: its tasks start at the job's first node. */
static int job_more(struct reading *reading, struct takeover *out, struct err *err)
{
    const char *id = value_of(reading->envp, "SLURM_JOB_ID");
    struct env_list nodes = {0};
    if (!id || !value_of(reading->envp, "SLURM_JOB_NODELIST"))
        return 0;
    int rc = nodes_read(reading->envp, "SLURM_JOB_NODELIST", &nodes, err);
    if (rc == 0)
        out->host = xstrdup(nodes.at[0]);
    if (!out->run_id)
        out->run_id = xstrdup(id);
    env_list_release(&nodes);
    return rc;
}

/* ---- Open MPI ---- */

/* "N.0;tcp://ADDRESS,ADDRESS:PORT;tcp6://[ADDRESS]:PORT". NULL: there is no address that another machine can use. */
static char *uri_host_new(const char *uri)
{
    const char *v4 = uri ? strstr(uri, ";tcp://") : NULL,
               *v6 = uri ? strstr(uri, ";tcp6://[") : NULL;
    const char *at = v4 ? v4 + strlen(";tcp://") : v6 ? v6 + strlen(";tcp6://[") : "";
    char *host = xstrndup(at, strcspn(at, v4 ? ",:" : ",]"));
    unsigned char address[sizeof(struct in6_addr)];
    bool is_address = inet_pton(v4 ? AF_INET : AF_INET6, host, address) == 1;
    if (is_address && !(v4 && address[0] == 127))
        return host;
    free(host);
    return NULL;
}

/* "prterun-HOST-PID@N" */
static char *namespace_host_new(const char *name)
{
    static const char before[] = "prterun-";
    const char *dash = name ? strrchr(name, '-') : NULL;
    if (!dash || strncmp(name, before, strlen(before)) != 0 || dash <= name + strlen(before))
        return NULL;
    return xstrndup(name + strlen(before), (size_t)(dash - name) - strlen(before));
}

/*
 * Outside of Slurm, Open MPI tells the host of mpirun, which usually has the first task as well. If it has not, the
 * first task sees that, and *out gets no host, so that the user is asked for an endpoint. Versions 4 and 5 tell the
 * host in different variables.
 */
static int openmpi_more(struct reading *reading, struct takeover *out, struct err *err)
{
    const char *const *envp = reading->envp;
    int rc = job_more(reading, out, err);
    if (rc || out->host)
        return rc;
    const char *name = value_of(envp, "PMIX_HOSTNAME");
    cleanup_free char *host = uri_host_new(value_of(envp, "OMPI_MCA_orte_hnp_uri")); /* in 4 */
    cleanup_free char *own = uri_host_new(value_of(envp, "OMPI_MCA_orte_local_daemon_uri"));
    if (!host && name) { /* in 5 */
        host = namespace_host_new(value_of(envp, "PMIX_NAMESPACE"));
        own = xstrdup(name);
    }
    bool is_elsewhere = reading->numbers[RANK] == 0 && host && own && strcmp(host, own) != 0;
    out->host = is_elsewhere ? NULL : steal_ptr(&host);
    return 0;
}

/* ---- SkyPilot ---- */

/* One address a line. */
static int skypilot_more(struct reading *reading, struct takeover *out, struct err *err)
{
    const char *list = value_of(reading->envp, "SKYPILOT_NODE_IPS");
    struct str rest = str_trim(str_of(list ? list : "")), first;
    if (!str_next(&rest, '\n', &first) || first.len == 0)
        return fail(err, ERR_DATA, "SKYPILOT_NODE_IPS is empty");
    first = str_trim(first);
    out->host = xstrndup(first.at, first.len);
    return 0;
}

/* ---- all of them ---- */

/*
 * The first launcher whose variables are set counts. A task inherits the variables of all launchers around it, so
 * launchers that start tasks within jobs of others come first. With PMIx alone, the user has to give the number of
 * tasks.
 */
/* clang-format off */
static const struct source sources[] = {
    {"mpirun of Open MPI", NULL,
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", NULL, "OMPI_MCA_orte_num_nodes", "OMPI_COMM_WORLD_LOCAL_SIZE"},
     "PMIX_NAMESPACE", openmpi_more},
    {"mpirun of Intel MPI", "I_MPI_HYDRA_UUID",
     {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL, NULL, "MPI_LOCALNRANKS"},
     "I_MPI_HYDRA_UUID", job_more},
    {"mpiexec of MPICH", "MPI_LOCALRANKID",
     {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL, NULL, "MPI_LOCALNRANKS"},
     NULL, job_more},
    {"MVAPICH2", NULL,
     {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", NULL, NULL, "MV2_COMM_WORLD_LOCAL_SIZE"},
     NULL, job_more},
    {"horovodrun", NULL,
     {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", NULL, NULL, "HOROVOD_LOCAL_SIZE"},
     NULL, job_more},
    {"flux run", NULL,
     {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL, "FLUX_JOB_NNODES", NULL},
     "FLUX_JOB_ID", NULL},
    {"srun", "SLURM_STEP_ID",
     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE"},
     NULL, slurm_more},
    {"mpiexec of PALS", NULL,
     {"PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", NULL, NULL, "PALS_LOCAL_SIZE"},
     "PALS_APID", NULL},
    {"SkyPilot", NULL,
     {"SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", NULL, "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES", NULL},
     "SKYPILOT_TASK_ID", skypilot_more},
    {"PMIx", NULL,
     {"PMIX_RANK", "WORLD_SIZE", NULL, NULL, NULL, NULL},
     "PMIX_NAMESPACE", job_more},
};
/* clang-format on */

static const struct source *source_find(const char *const *envp)
{
    for (const struct source *source = sources; source < sources + countof(sources); source++)
        if (value_of(envp, source->names[RANK]) && (!source->mark || value_of(envp, source->mark)))
            return source;
    return NULL;
}

static int number_read(const char *text, uint64_t min, uint64_t max, uint32_t *out, struct err *err)
{
    uint64_t value = 0;
    if (u64_parse(str_of(text), min, max, &value, NULL) != 0)
        return fail(err, ERR_DATA, "'%.40s' is not a number from %lu to %lu", text, min, max);
    *out = (uint32_t)value;
    return 0;
}

static int numbers_read(struct reading *reading, struct err *err)
{
    const char *const *names = reading->source->names;
    uint32_t *numbers = reading->numbers;
    int rc = 0;
    for (int i = 0; rc == 0 && i < N_NUMBERS; i++) {
        const char *text = value_of(reading->envp, names[i]);
        bool is_count = i == SIZE || i == N_LOCAL || i == N_GROUPS;
        bool is_list = i == N_LOCAL && numbers[GROUP_RANK] != UNKNOWN; /* one for each machine */
        numbers[i] = UNKNOWN;
        if (text && is_list)
            rc = slurm_task_count(text, numbers[GROUP_RANK], &numbers[i], err);
        else if (text)
            rc = number_read(text, is_count, TASKS_MAX, &numbers[i], err);
        rc = rc ? wrap(err, rc, "%s", names[i]) : 0;
    }
    if (rc == 0 && numbers[SIZE] == UNKNOWN && numbers[RANK] > 0)
        return fail(err, ERR_DATA,
                    "%s is %u, and %s, which says of how many, is not set; give --nnodes and "
                    "--node-rank",
                    names[RANK], numbers[RANK], names[SIZE]);
    return rc;
}

static int numbers_check(const struct reading *reading, struct err *err)
{
    static const struct {
        enum number lesser, greater;
        bool may_be_equal;
    } pairs[] = {{RANK, SIZE, false},           {LOCAL_RANK, N_LOCAL, false},
                 {GROUP_RANK, N_GROUPS, false}, {LOCAL_RANK, SIZE, false},
                 {N_LOCAL, SIZE, true},         {N_GROUPS, SIZE, true}};
    const char *const *names = reading->source->names;
    for (size_t i = 0; i < countof(pairs); i++) {
        uint32_t a = reading->numbers[pairs[i].lesser], b = reading->numbers[pairs[i].greater];
        bool is_known = a != UNKNOWN && b != UNKNOWN;
        if (is_known && (a > b || (a == b && !pairs[i].may_be_equal)))
            return fail(err, ERR_DATA, "%s is %u, and %s is %u", names[pairs[i].lesser], a,
                        names[pairs[i].greater], b);
    }
    return 0;
}

/* ---- what it means ---- */

static void numbers_use(const uint32_t *numbers, struct takeover *out)
{
    uint32_t size = numbers[SIZE], n_groups = numbers[N_GROUPS], n_local = numbers[N_LOCAL];
    bool has_one_machine = n_groups == 1 || n_local == size;
    bool has_group = numbers[GROUP_RANK] != UNKNOWN && n_groups != UNKNOWN;
    out->is_a_task = n_groups != UNKNOWN ? size > n_groups : n_local != 1;
    out->n_nodes = size;
    out->node = out->is_a_task || !has_group ? numbers[RANK] : numbers[GROUP_RANK];
    if (has_one_machine) {
        free(out->host);
        out->host = xstrdup("127.0.0.1");
    }
    if (!out->is_a_task)
        return;
    if (has_one_machine || n_local != UNKNOWN) {
        out->local_rank = numbers[LOCAL_RANK] != UNKNOWN ? numbers[LOCAL_RANK] : numbers[RANK];
        out->n_local = has_one_machine ? size : n_local;
    }
    out->group_rank = has_group ? numbers[GROUP_RANK] : 0;
    out->n_groups = has_one_machine ? 1 : has_group ? n_groups : 0;
}

/* Ids that differ only in their last three digits, as those of jobs on one machine mostly do, get different ports. */
static uint16_t port_of(const char *run_id)
{
    uint32_t sum = 0;
    for (; *run_id; run_id++)
        sum = (sum * 31 + (unsigned char)*run_id) % N_PORTS;
    return (uint16_t)(PORT_FIRST + sum);
}

/* MASTER_ADDR and MASTER_PORT of the user come first. */
static int meeting_settle(const struct reading *reading, struct takeover *out, struct err *err)
{
    const char *host = value_of(reading->envp, "MASTER_ADDR");
    const char *port = value_of(reading->envp, "MASTER_PORT");
    uint32_t number = out->run_id ? port_of(out->run_id) : 0;
    if (host && !*host)
        return fail(err, ERR_DATA, "MASTER_ADDR is empty");
    if (host) {
        free(out->host);
        out->host = xstrdup(host);
    }
    int rc = port ? number_read(port, 1, UINT16_MAX, &number, err) : 0;
    out->port = (uint16_t)number;
    return rc ? wrap(err, rc, "MASTER_PORT") : 0;
}

/* Is this process a rank of a muster that has taken over the same launcher? */
static bool is_inside(const struct reading *reading, const struct takeover *takeover)
{
    const char *run_id = value_of(reading->envp, "TORCHELASTIC_RUN_ID");
    return run_id && takeover->run_id && strcmp(run_id, takeover->run_id) == 0;
}

static int tasks_read(struct reading *reading, struct takeover *out, struct err *err)
{
    const struct source *source = reading->source;
    const char *run_id = value_of(reading->envp, source->run_id);
    int rc = numbers_check(reading, err);
    if (rc)
        return rc;
    out->launcher = source->launcher;
    out->run_id = run_id && *run_id ? xstrdup(run_id) : NULL;
    rc = source->more ? source->more(reading, out, err) : 0;
    if (rc)
        return rc;
    numbers_use(reading->numbers, out);
    return meeting_settle(reading, out, err);
}

int takeover_read(const char *const *envp, struct takeover *out, struct err *err)
{
    struct reading reading = {.envp = envp, .source = source_find(envp)};
    *out = (struct takeover){0};
    if (!reading.source)
        return 0;
    int rc = numbers_read(&reading, err);
    uint32_t size = reading.numbers[SIZE];
    if (rc == 0 && size != UNKNOWN && size > 1)
        rc = tasks_read(&reading, out, err);
    if (rc || is_inside(&reading, out))
        takeover_release(out);
    return rc ? wrap(err, rc, "%s", reading.source->launcher) : 0;
}

void takeover_release(struct takeover *takeover)
{
    free(takeover->host);
    free(takeover->run_id);
    *takeover = (struct takeover){0};
}

void takeover_environment(struct env_list *env, uint32_t n_ranks)
{
    /* HYDRA_ is not among these: such variables name no place, and Python's hydra uses the prefix too. */
    static const char *const places[] = {"OMPI_",          "PMIX_",         "PRTE_",
                                         "PMI_",           "MPI_LOCAL",     "HYDI_CONTROL_FD",
                                         "I_MPI_HYDRA_",   "HOROVOD_RANK",  "HOROVOD_SIZE",
                                         "HOROVOD_LOCAL_", "HOROVOD_CROSS_"};
    env_unset(env, "PMI_FD");
    for (size_t i = 0; n_ranks > 1 && i < countof(places); i++)
        env_unset_beginning(env, places[i], NULL);
}
