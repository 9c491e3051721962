/* SPDX-License-Identifier: Apache-2.0
 *
 * How this process was launched: inside Slurm, as a rank of a job, with what numbers of threads.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "doctor/checks.h"
#include "doctor/doctor.h"

static const char *const env_names[] = {
#define X(name) [ENV_##name] = #name,
    ENV_NAMES(X)
#undef X
};

void env_gather(struct env_facts *out)
{
    for (size_t i = 0; i < countof(env_names); i++)
        out->at[i] = getenv(env_names[i]);
}

const char *env_value(const struct env_facts *env, const char *name)
{
    for (size_t i = 0; i < countof(env_names); i++)
        if (strcmp(env_names[i], name) == 0)
            return env->at[i];
    return NULL;
}

/* ---- Slurm ---- */

void slurm_gather(const char *path_list, struct slurm_facts *out)
{
    out->has_sbatch = path_finds(path_list, "sbatch");
    out->has_srun = path_finds(path_list, "srun");
}

static const struct trouble
    many_musters =
        {FINDING_WARN,
         "srun starts one muster for each task, and all want the same devices: the "
         "first takes them, the others fail or wait.",
         "Start muster in one task (--ntasks=1, or sbatch without srun); it makes a worker "
         "for each device itself"},
    other_count = {FINDING_WARN, "Devices of the job are missing here, or others are shown.",
                   "Compare muster gpus --all with scontrol show job -d; ask for the GPUs with the "
                   "job (--gres=gpu:N) and not in a step of your own"},
    stale_job = {FINDING_WARN,
                 "The variables of a job were carried into another shell or container; frameworks "
                 "take them at their word.",
                 "Unset them: unset ${!SLURM_@}"},
    unreadable = {FINDING_FAIL,
                  "A folder of PATH does not answer: every program started by name hangs.",
                  "Take network folders that are down out of PATH, or have them mounted again"};

static uint64_t number_of(const char *text)
{
    uint64_t number = 0;
    return text && u64_parse(str_of(text), 0, UINT32_MAX, &number, NULL) == 0 ? number : 0;
}

/* GPUs, but not graphics of the processor, which no scheduler gives out. */
static size_t cards_count(const struct device_list *devices)
{
    size_t count = 0;
    for (size_t i = 0; i < devices->len && are_gpus(devices); i++)
        count += !devices->at[i].is_integrated;
    return count;
}

static void job_judge(const struct facts *facts, const char *job, struct findings *out)
{
    const struct env_facts *env = &facts->env;
    uint64_t n_gpus = number_of(env->at[ENV_SLURM_GPUS_ON_NODE]);
    uint64_t n_tasks = number_of(env->at[ENV_SLURM_NTASKS]);
    size_t n_before = out->len, n_seen = cards_count(&facts->visible);
    bool is_step = env->at[ENV_SLURM_STEP_ID] && env->at[ENV_SLURM_PROCID];
    if (is_step && n_tasks > 1)
        found(out, &many_musters, "SLURM_NTASKS", "this is one of %lu tasks of job %s",
              (unsigned long)n_tasks, job);
    if (facts->driver.is_asked && n_gpus > 0 && n_gpus != n_seen)
        found(out, &other_count, "SLURM_GPUS_ON_NODE",
              "job %s has %lu GPUs on this node, %zu are seen", job, (unsigned long)n_gpus, n_seen);
    if (!facts->slurm.has_srun && !is_step)
        found(out, &stale_job, "SLURM_JOB_ID", "job %s, and there is no srun here", job);
    if (out->len == n_before)
        found_ok(out, "inside job %s", job);
}

void slurm_judge(const struct facts *facts, struct findings *out)
{
    const char *job = facts->env.at[ENV_SLURM_JOB_ID];
    const struct slurm_facts *slurm = &facts->slurm;
    if (!facts->has_slurm)
        found(out, &unreadable, "PATH", "not searched within %lu ms",
              (unsigned long)facts->deadline_ms);
    else if (job)
        job_judge(facts, job, out);
    else
        found_ok(out, slurm->has_sbatch && slurm->has_srun
                          ? "sbatch and srun are here; this is not inside a job"
                          : "no Slurm here");
}

/* ---- ranks ---- */

static const struct trouble leaked_ranks = {
    FINDING_WARN,
    "Workers inherit them; frameworks (vLLM, accelerate, Lightning) take themselves for a rank of "
    "a job and wait for the others.",
    "unset RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT"};

void ranks_judge(const struct facts *facts, struct findings *out)
{
    static const struct {
        enum env_name name;
        const char *text;
    } variables[] = {
        {ENV_RANK, "RANK"}, {ENV_LOCAL_RANK, "LOCAL_RANK"}, {ENV_WORLD_SIZE, "WORLD_SIZE"}};
    cleanup_buf struct buf text = BUF_INIT;
    for (size_t i = 0; i < countof(variables); i++)
        if (facts->env.at[variables[i].name])
            buf_addf(&text, "%s%s=%s", text.len ? " " : "", variables[i].text,
                     facts->env.at[variables[i].name]);
    if (text.len > 0)
        found(out, &leaked_ranks, "", "set in the environment: %s", buf_text(&text));
    else
        found_ok(out, "no rank is set in the environment");
}

/* ---- threads ---- */

static const struct trouble
    too_many_threads = {FINDING_WARN,
                        "The workers' threads fight for the cores, which makes them several times "
                        "slower; muster map leaves a variable that is set alone.",
                        "Unset it (muster map then gives each worker its share), or lower it"},
    no_number = {FINDING_WARN,
                 "Libraries take it as if it were not set, and start a thread for each core in "
                 "every worker; muster map leaves it alone.",
                 "Unset it (muster map then gives each worker its share), or give a number"},
    forgotten = {FINDING_WARN, "Made for finding errors: everything runs much slower.",
                 "Unset it, unless that is what you are doing"};

/* The first number of "8", or of "8,2", where the second is for nested regions. 0: not a number. */
static uint64_t threads_of(const char *text)
{
    struct str rest = str_of(text ? text : ""), first;
    uint64_t number = 0;
    bool is_number = str_next(&rest, ',', &first) &&
                     u64_parse(str_trim(first), 1, UINT32_MAX, &number, NULL) == 0;
    return is_number ? number : 0;
}

unsigned cores_usable(const struct facts *facts)
{
    double cores = MAX(facts->host.cpus_allowed, 1u);
    if (facts->cgroup.cpus_max > 0 && facts->cgroup.cpus_max < cores)
        cores = facts->cgroup.cpus_max;
    return (unsigned)MAX(cores, 1.0);
}

/* Devices on which a worker would run; at least one. */
static size_t workers_likely(const struct facts *facts)
{
    struct device_list devices = runnable_devices(facts);
    size_t count = 0;
    for (size_t i = 0; i < devices.len; i++)
        count += !devices.at[i].is_lost && !devices.at[i].ill[0] && !devices.at[i].is_integrated;
    device_list_release(&devices);
    return MAX(count, (size_t)1);
}

void threads_judge(const struct facts *facts, struct findings *out)
{
    static const struct {
        enum env_name name;
        const char *text;
    } variables[] = {{ENV_OMP_NUM_THREADS, "OMP_NUM_THREADS"},
                     {ENV_MKL_NUM_THREADS, "MKL_NUM_THREADS"},
                     {ENV_OPENBLAS_NUM_THREADS, "OPENBLAS_NUM_THREADS"}},
      switches[] = {{ENV_CUDA_LAUNCH_BLOCKING, "CUDA_LAUNCH_BLOCKING"},
                    {ENV_PYTORCH_NO_CUDA_MEMORY_CACHING, "PYTORCH_NO_CUDA_MEMORY_CACHING"}};
    unsigned cores = cores_usable(facts);
    size_t n_workers = workers_likely(facts), n_before = out->len;
    for (size_t i = 0; i < countof(variables); i++) {
        const char *value = facts->env.at[variables[i].name];
        uint64_t threads = threads_of(value);
        if (value && threads == 0)
            found(out, &no_number, variables[i].text, "=%s", value);
        else if (threads > 1 && threads * n_workers > cores)
            found(out, &too_many_threads, variables[i].text,
                  "=%lu for %zu worker%s on %u core%s; %zu would fill them", (unsigned long)threads,
                  n_workers, n_workers == 1 ? "" : "s", cores, cores == 1 ? "" : "s",
                  MAX(cores / n_workers, (size_t)1));
    }
    for (size_t i = 0; i < countof(switches); i++)
        if (number_of(facts->env.at[switches[i].name]) > 0)
            found(out, &forgotten, switches[i].text, "=%s", facts->env.at[switches[i].name]);
    if (out->len == n_before && facts->env.at[ENV_OMP_NUM_THREADS])
        found_ok(out, "OMP_NUM_THREADS=%s", facts->env.at[ENV_OMP_NUM_THREADS]);
    else if (out->len == n_before)
        found_ok(out,
                 "OMP_NUM_THREADS is not set: muster map gives each worker its share of %u core%s",
                 cores, cores == 1 ? "" : "s");
}
