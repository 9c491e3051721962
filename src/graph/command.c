/* SPDX-License-Identifier: Apache-2.0
 *
 * What a job is started with: its words, its environment, and where.
 */
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"
#include "graph/list/joblog.h"

/* ---- words ---- */

static char *number_new(uint64_t value)
{
    return xasprintf("%lu", value);
}

/* "--gpus" for muster's own verbs: the job's devices, the only ones that they see. */
static void devices_spec_add(const struct process *process, struct env_list *words)
{
    const struct graph *graph = process->graph;
    size_t n = process->seat.n_devices;
    const struct device *first =
        n > 0 ? &graph->allocation.devices.at[process->seat.devices[0]] : NULL;
    char *spec = !first                      ? xstrdup("cpu:1")
                 : first->kind == DEVICE_CPU ? xasprintf("cpu:%zu", n)
                                             : xstrdup("all");
    env_list_add(words, xstrdup("--gpus"));
    env_list_add(words, spec);
}

struct values {
    char *batch, *seed, *attempt, *slot, *gpu, *gpus, *gpu_uuid;
};

/* The seed of a job does not change when other jobs are added to the file. */
static uint64_t job_seed(const struct process *process)
{
    const char *name = process_name(process);
    return item_seed(0, XXH3_64bits(name, strlen(name)));
}

static void values_make(const struct process *process, struct values *out)
{
    const struct graph *graph = process->graph;
    cleanup_buf struct buf gpus = BUF_INIT;
    const struct device *first = NULL;
    for (size_t i = 0; i < process->seat.n_devices; i++) {
        const struct device *device = &graph->allocation.devices.at[process->seat.devices[i]];
        first = first ? first : device;
        buf_addf(&gpus, "%s%d", i > 0 ? "," : "", device->index);
    }
    *out = (struct values){.batch = number_new(process->batch),
                           .seed = number_new(job_seed(process)),
                           .attempt = number_new(process->attempt),
                           .slot = number_new(process->seat.n_devices > 0 ? process->devices[0] + 1u
                                                                          : graph->n_processes),
                           .gpu = first ? xasprintf("%d", first->index) : xstrdup(""),
                           .gpus = xstrdup(buf_text(&gpus)),
                           .gpu_uuid = xstrdup(first ? first->uuid : "")};
}

static void values_release(struct values *values)
{
    free(values->batch);
    free(values->seed);
    free(values->attempt);
    free(values->slot);
    free(values->gpu);
    free(values->gpus);
    free(values->gpu_uuid);
}

static int words_fill(const struct process *process, const char *const *templates,
                      const struct values *values, struct env_list *out, struct err *err)
{
    const struct fill fills[] = {{"batch", values->batch},
                                 {"seed", values->seed},
                                 {"attempt", values->attempt},
                                 {"slot", values->slot},
                                 {"gpu", values->gpu},
                                 {"gpus", values->gpus},
                                 {"gpu_uuid", values->gpu_uuid},
                                 {"job", process_name(process)},
                                 {"run_dir", shell_run_dir(process->graph->shell)},
                                 {"muster", host_program(process->graph, process->seat.host)}};
    int rc = 0;
    for (size_t i = 0; rc == 0 && templates && templates[i]; i++) {
        struct buf word = BUF_INIT;
        rc = placeholders_fill(templates[i], fills, countof(fills), &word, err);
        env_list_add(out, xstrdup(buf_text(&word)));
        buf_release(&word);
    }
    return rc;
}

/* A job that is itself a muster command may use the devices that this muster has locked. */
static void locks_hand_down(const struct process *process, struct env_list *env)
{
    struct buf entry = BUF_INIT;
    buf_add_text(&entry, LOCK_HANDED_DOWN "=");
    for (size_t i = 0; i < process->seat.n_devices; i++)
        buf_addf(&entry, "%s%s", i > 0 ? "," : "",
                 process->graph->allocation.devices.at[process->seat.devices[i]].uuid);
    env_set(env, buf_steal(&entry));
}

/*
 * The folder for the runs of a job that is itself a muster command. An attempt goes on with the run of an earlier
 * attempt, unless the job, what it needs or what it reads has changed since: results of two checkpoints are never
 * mixed.
 */
static void runs_dir_set(const struct process *process, struct env_list *env)
{
    cleanup_free char *name = job_log_name_new(process_name(process));
    uint64_t work = preparation_work_digest(process->preparation);
    env_set(env, xasprintf("MUSTER_RUNS_DIR=%s/runs/%s-%016lx",
                           shell_run_dir(process->graph->shell), name, work));
}

/* Applies the job's own entries. A name without a value is unset, also on another machine. */
static void entries_apply(const struct process *process, const struct env_list *of_job,
                          struct env_list *env)
{
    for (size_t i = 0; i < of_job->len; i++) {
        const char *entry = of_job->at[i];
        if (strchr(entry, '='))
            env_set(env, xstrdup(entry));
        else
            env_unset(env, entry);
        if (!strchr(entry, '=') && process->seat.host > 0)
            env_list_add(env, xstrdup(entry));
    }
}

/*
 * Sets OMP_NUM_THREADS for a job whose CPUs are counted, unless the user has set it. muster's own verbs share their
 * CPUs among their workers themselves.
 */
static void threads_set(const struct process *process, struct env_list *env)
{
    const struct plan_job *plan = process_job(process)->plan;
    uint32_t n_cpus = plan_job_cpus(plan);
    if (n_cpus > 0 && plan->kind == PLAN_RUN && !getenv("OMP_NUM_THREADS"))
        env_set(env, xasprintf("OMP_NUM_THREADS=%u", n_cpus));
}

static void environment_make(const struct process *process, const struct values *values,
                             const struct env_list *of_job, struct env_list *env)
{
    const struct graph *graph = process->graph;
    environment_begin(env);
    if (process->seat.host == 0) /* on another machine its agent does it */
        seat_devices_add(&graph->allocation, &process->seat, env);
    threads_set(process, env);
    environment_wish_apply(&graph->request->environment, env);
    if (process_job(process)->plan->kind != PLAN_RUN) {
        locks_hand_down(process, env);
        runs_dir_set(process, env);
        env_set(env, xstrdup("MUSTER_GO_ON_FAILED=1")); /* for map: go on, and keep what is done */
    }
    env_set(env, xasprintf("MUSTER_RUN_ID=%s", shell_run_id(graph->shell)));
    env_set(env, xasprintf("MUSTER_RUN_DIR=%s", shell_run_dir(graph->shell)));
    env_set(env, xasprintf("MUSTER_JOB=%s", process_name(process)));
    env_set(env, xasprintf("MUSTER_SEED=%s", values->seed));
    env_set(env, xasprintf("MUSTER_ATTEMPT=%u", process->attempt));
    env_set(env, xasprintf("MUSTER_BATCH=%lu", process->batch));
    entries_apply(process, of_job, env);
    env_end(env);
}

/* ---- the start ---- */

/*
 * Variables that are set on another machine even if this machine has them with the same values: those of the user's
 * --env, and those of the job.
 */
static struct texts sent_make(const struct graph *graph, const struct env_list *of_job)
{
    const struct texts *of_all = &graph->request->environment.env;
    struct texts sent = {xcalloc(of_all->len + of_job->len + 1, sizeof(*sent.at))};
    for (size_t i = 0; i < of_all->len; i++)
        sent.at[sent.len++] = of_all->at[i];
    for (size_t i = 0; i < of_job->len; i++)
        sent.at[sent.len++] = of_job->at[i];
    return sent;
}

/* Settles PLAN_BATCH_AUTO. muster fit knows the command with {batch} in the place of the number. */
static int batch_settle(struct process *process, struct err *err)
{
    const struct graph *graph = process->graph;
    const struct plan_job *plan = process_job(process)->plan;
    struct env_list words = {0};
    struct values values;
    uint64_t found = 0;
    if (plan->batch != PLAN_BATCH_AUTO)
        return 0;
    if (process->seat.n_devices == 0 || !graph->request->batch_of)
        return fail(err, ERR_USAGE, "batch: auto needs a device; give a number");
    values_make(process, &values);
    free(values.batch);
    values.batch = xstrdup("{batch}");
    int rc = words_fill(process, plan->argv, &values, &words, err);
    env_end(&words);
    if (rc == 0)
        rc = graph->request->batch_of((const char *const *)words.at, &graph->request->environment,
                                      &graph->allocation.devices.at[process->seat.devices[0]],
                                      graph->allocation.n_chosen, &found, err);
    process->batch = found >> process->n_halvings;
    if (rc == 0 && process->batch == 0)
        rc = fail(err, ERR_UNAVAILABLE, "it ran out of device memory with a batch of 1");
    values_release(&values);
    env_list_release(&words);
    return rc;
}

struct command {
    struct env_list words, of_job, env;
};

static void command_release(struct command *command)
{
    env_list_release(&command->words);
    env_list_release(&command->of_job);
    env_list_release(&command->env);
}

static int command_spawn(struct process *process, const struct command *command, struct err *err)
{
    struct graph *graph = process->graph;
    const struct plan_job *plan = graph->jobs[process->job].plan;
    bool is_far = process->seat.host > 0;
    struct env_list words = {0};
    struct texts sent = sent_make(graph, &command->of_job);
    uint32_t joined[SEAT_DEVICES_MAX];
    environment_command(&graph->request->environment, (const char *const *)command->words.at,
                        &words);
    struct spawn_request request = {
        .argv = (const char *const *)words.at,
        .envp = (const char *const *)command->env.at,
        /* An agent that does not see the folder must not start the job in another one. */
        .cwd = plan->cwd ? plan->cwd
               : is_far  ? graph->cwd
                         : NULL,
        .seat = &process->seat,
        .joined = joined,
        .n_joined = process_seats_list(process, joined),
        .grace_ms = graph->request->grace_ms,
        .sent = &sent,
        .locks = &graph->allocation.locks,
        .handlers = &process_handlers,
        .context = process};
    int rc = node_spawn(shell_node(graph->shell), &request, &process->worker, err);
    env_list_release(&words);
    free(sent.at);
    return rc;
}

static void command_keep(struct process *process, const struct env_list *words)
{
    struct buf text = BUF_INIT;
    joblog_command_add(&text, (const char *const *)words->at);
    process->command = buf_steal(&text);
}

/* The words of the command. muster's own verbs get their devices as well. */
static void words_take(const struct process *process, const struct env_list *filled,
                       struct env_list *words)
{
    enum plan_kind kind = process_job(process)->plan->kind;
    bool takes_devices = kind == PLAN_MAP || kind == PLAN_LAUNCH;
    for (size_t i = 0; i < filled->len; i++) {
        env_list_add(words, xstrdup(filled->at[i]));
        if (takes_devices && i == 1) /* "muster map" */
            devices_spec_add(process, words);
    }
    env_end(words);
}

int process_command_start(struct process *process, struct err *err)
{
    const struct plan_job *plan = process_job(process)->plan;
    struct env_list filled = {0};
    struct command command = {0};
    struct values values;
    int rc = batch_settle(process, err);
    values_make(process, &values);
    rc = rc ? rc : words_fill(process, plan->argv, &values, &filled, err);
    rc = rc ? rc : words_fill(process, plan->env, &values, &command.of_job, err);
    if (rc == 0) {
        words_take(process, &filled, &command.words);
        if (process->graph->request->joblog)
            command_keep(process, &command.words);
        environment_make(process, &values, &command.of_job, &command.env);
        rc = command_spawn(process, &command, err);
    }
    values_release(&values);
    env_list_release(&filled);
    command_release(&command);
    return rc;
}
