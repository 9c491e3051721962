/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "muster/dist.h"

enum {
    N_KEYS = 4,
    UNKNOWN = UINT32_MAX
};

/* The variables that a launcher sets; NULL: it has none. */
struct source {
    const char *launcher;
    const char *mark; /* must be set as well, because other programs also set the rank's variable */
    const char *rank, *size, *local_rank, *local_size, *n_machines;
    const char *keys[N_KEYS]; /* variables that identify this attempt of this job */
};

/*
 * The first launcher whose rank is set counts. `muster launch` and torchrun come first, because the
 * other launchers start them and leave their own variables; srun comes after the launchers that run
 * in its jobs.
 */
/* clang-format off */
static const struct source sources[] = {
    {"muster launch or torchrun", NULL, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"mpirun of Open MPI", NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"mpirun of Intel MPI", "I_MPI_HYDRA_UUID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL,
     {"I_MPI_HYDRA_UUID"}},
    {"mpiexec of MPICH", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, {NULL}},
    {"MVAPICH2", NULL, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", NULL, {NULL}},
    {"flux run", NULL, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL, "FLUX_JOB_NNODES", {"FLUX_JOB_ID"}},
    {"srun", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_NUM_NODES",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
    {"a launcher with PMI", NULL, "PMI_RANK", "PMI_SIZE", NULL, NULL, NULL, {"PMI_JOBID"}},
    {"PMIx", NULL, "PMIX_RANK", "WORLD_SIZE", NULL, NULL, NULL, {"PMIX_NAMESPACE"}},
};
/* clang-format on */

static const char *value_of(const char *name)
{
    const char *value = name ? getenv(name) : NULL;
    return value && *value != '\0' ? value : NULL;
}

static const struct source *source_find(void)
{
    for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++)
        if (value_of(sources[i].rank) && (!sources[i].mark || value_of(sources[i].mark)))
            return &sources[i];
    return NULL;
}

static bool number_read(const char *name, uint32_t *out, char *error, size_t error_cap)
{
    const char *text = value_of(name);
    char *end;
    *out = UNKNOWN;
    if (!text)
        return true;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > MD_RANKS_MAX) {
        snprintf(error, error_cap, "%s: '%.40s' is not a number from 0 to %d", name, text,
                 MD_RANKS_MAX);
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

/* Adds a value and a separator to a hash by FNV-1a. */
static uint64_t hash_add(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return (hash ^ 0xff) * 0x100000001b3;
}

/*
 * If the launcher names no job, the parent process identifies it: it is the parent of all ranks of
 * this machine. The size is not part of the key, so that ranks that disagree about it meet, and can
 * say so.
 */
static void key_make(const struct source *source, struct md_place *place)
{
    uint64_t hash = 0xcbf29ce484222325;
    bool is_named = false;
    hash = hash_add(hash, source->launcher);
    for (int i = 0; i < N_KEYS; i++) {
        const char *value = value_of(source->keys[i]);
        hash = hash_add(hash, value ? value : "");
        is_named = is_named || value;
    }
    place->job = hash;
    if (!is_named) {
        char parent[16];
        snprintf(parent, sizeof(parent), "%d", (int)getppid());
        hash = hash_add(hash, parent);
    }
    snprintf(place->key, sizeof(place->key), "%u-%016" PRIx64, (unsigned)getuid(), hash);
}

static int place_check(const struct source *source, const struct md_place *place, char *error,
                       size_t error_cap)
{
    if (place->size == 0 || place->rank >= place->size) {
        snprintf(error, error_cap, "%s is %u, and %s is %u", source->rank, place->rank,
                 source->size, place->size);
        return MUSTER_DIST_EENV;
    }
    if (place->local_size > place->size) {
        snprintf(error, error_cap, "%s is %u, and %s is %u", source->local_size, place->local_size,
                 source->size, place->size);
        return MUSTER_DIST_EENV;
    }
    return 0;
}

/* Without a rank this is a world of one, unless a variable says that there are more ranks. */
static int alone_check(char *error, size_t error_cap)
{
    uint32_t size;
    if (!number_read(sources[0].size, &size, error, error_cap))
        return MUSTER_DIST_EENV;
    if (size == UNKNOWN || size == 1)
        return 0;
    snprintf(error, error_cap,
             "%s is %u, and %s, which says which of them this rank is, is not set: set both, or "
             "neither",
             sources[0].size, size, sources[0].rank);
    return MUSTER_DIST_EENV;
}

int md_place_read(struct md_place *place, char *error, size_t error_cap)
{
    *place = (struct md_place){.size = 1, .local_size = 1, .launcher = "no launcher"};
    const struct source *source = source_find();
    if (!source)
        return alone_check(error, error_cap);
    struct md_place read = {.launcher = source->launcher};
    uint32_t n_machines;
    if (!number_read(source->rank, &read.rank, error, error_cap) ||
        !number_read(source->size, &read.size, error, error_cap) ||
        !number_read(source->local_rank, &read.local_rank, error, error_cap) ||
        !number_read(source->local_size, &read.local_size, error, error_cap) ||
        !number_read(source->n_machines, &n_machines, error, error_cap))
        return MUSTER_DIST_EENV;
    if (read.size == UNKNOWN) {
        snprintf(error, error_cap,
                 "%s is set, and %s, which says how many ranks there are, is not: "
                 "set both, or neither",
                 source->rank, source->size);
        return MUSTER_DIST_EENV;
    }
    if (read.local_rank == UNKNOWN)
        read.local_rank = read.rank;
    if (n_machines == 1)
        read.local_size = read.size;
    else if (read.local_size == UNKNOWN) /* several machines: not all ranks are here */
        read.local_size = n_machines == UNKNOWN ? 0 : read.size / n_machines;
    read.is_of_torch = source == &sources[0];
    int rc = place_check(source, &read, error, error_cap);
    key_make(source, &read);
    if (rc == 0)
        *place = read;
    return rc;
}
