/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/accelerate_arg.h"

#include <ctype.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    PORT_USUAL = 29500
};
#define PRECISION_FP8 "fp8"

#define IN_THE_SCRIPT                                                                     \
    "muster launch starts the ranks and leaves this to the script: "                      \
    "Accelerator(parallelism_config=...) sets it up there, or --env NAME=VALUE with the " \
    "variables that accelerate reads"

const struct opt_foreign accelerate_foreign[] = {
    {"use-parallelism-config", IN_THE_SCRIPT},
    {"parallelism-config-", IN_THE_SCRIPT},
    {"mpirun-hostfile", "--hosts names the machines, and needs no mpirun; under mpirun, muster "
                        "launch takes its ranks over"},
    {"tpu", "there are no ranks for TPUs"},
    {NULL, NULL},
};

void accelerate_defaults(struct accelerate_options *options)
{
    options->machine_rank = options->port = UINT64_MAX;
}

static bool is_used(const struct accelerate_options *options)
{
    const char *const texts[] = {
        options->ip,          options->gpu_ids, options->mixed_precision, options->dynamo_backend,
        options->dynamo_mode, options->config,  options->no_effect};
    const bool flags[] = {options->n_processes > 0,
                          options->n_machines > 0,
                          options->n_threads > 0,
                          options->machine_rank != UINT64_MAX,
                          options->port != UINT64_MAX,
                          options->uses_fullgraph,
                          options->uses_dynamic,
                          options->uses_regional_compilation,
                          options->is_cpu,
                          options->is_multi_gpu,
                          options->has_affinity,
                          options->is_same_network,
                          options->is_debug};
    bool any = accelerate_plugins_are_used(&options->plugins);
    for (size_t i = 0; i < countof(texts); i++)
        any = any || texts[i];
    for (size_t i = 0; i < countof(flags); i++)
        any = any || flags[i];
    return any;
}

static void say(struct accelerate_texts *texts, const char *fmt, ...) PRINTF(2, 3);
static void say(struct accelerate_texts *texts, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    cleanup_free char *text = xvasprintf(fmt, args);
    va_end(args);
    buf_addf(&texts->said, "%s%s", texts->said.len > 0 ? "; " : "", text);
}

/* ---- what is refused ---- */

/*
 * Refuses options that exclude each other, such as two options for the same value, one of accelerate and one of
 * muster.
 */
static int doubles_check(const struct accelerate_options *options,
                         const struct meeting_options *meeting,
                         const struct launch_request *request, struct err *err)
{
    const bool *uses = options->plugins.uses;
    const struct {
        const char *theirs, *ours;
        bool both;
    } pairs[] = {
        {"--num_processes", "--nproc-per-node", options->n_processes > 0 && request->nproc},
        {"--num_machines", "--nnodes", options->n_machines > 0 && meeting->nnodes},
        {"--machine_rank", "--node-rank",
         options->machine_rank != UINT64_MAX && meeting->node_rank != UINT64_MAX},
        {"--main_process_ip", "--master-addr", options->ip && meeting->master_addr},
        {"--main_process_port", "--master-port",
         options->port != UINT64_MAX && meeting->master_port > 0},
        {"--gpu_ids", "--gpus", options->gpu_ids && request->allocation.gpus},
        {"--num_cpu_threads_per_process", "--threads",
         options->n_threads > 0 && (request->cpus.threads.n > 0 || request->cpus.threads.is_share)},
        {"--cpu", "--multi_gpu", options->is_cpu && options->is_multi_gpu},
        {"--cpu", "--use_fsdp", options->is_cpu && uses[OF_FSDP]},
        {"--cpu", "--use_deepspeed", options->is_cpu && uses[OF_DEEPSPEED]},
        {"--cpu", "--use_megatron_lm", options->is_cpu && uses[OF_MEGATRON_LM]},
        {"--multi_gpu", "--use_fsdp", options->is_multi_gpu && uses[OF_FSDP]},
        {"--multi_gpu", "--use_deepspeed", options->is_multi_gpu && uses[OF_DEEPSPEED]},
        {"--num_machines", "--hosts", options->n_machines > 0 && request->allocation.hosts},
    };
    for (size_t i = 0; i < countof(pairs); i++)
        if (pairs[i].both)
            return fail(err, ERR_USAGE, "%s and %s exclude each other", pairs[i].theirs,
                        pairs[i].ours);
    if (options->n_processes > 0 && request->allocation.hosts)
        return fail(err, ERR_USAGE,
                    "--num_processes, the number of ranks on all machines, cannot be used with "
                    "--hosts; use --nproc-per-node, the number on each machine");
    return 0;
}

static int word_check(const char *name, const char *value, const struct choice *words,
                      struct err *err)
{
    cleanup_buf struct buf list = BUF_INIT;
    int ignored;
    if (!value || choice_parse(str_of(value), words, &ignored, NULL) == 0)
        return 0;
    choices_list(words, &list);
    return fail(err, ERR_USAGE, "%s '%s': expected %s", name, value, buf_text(&list));
}

static int words_check(const struct accelerate_options *options, struct err *err)
{
    static const struct choice precisions[] = {{"no"}, {"fp16"}, {"bf16"}, {PRECISION_FP8}, {0}};
    static const struct choice modes[] = {{"default"}, {"reduce-overhead"}, {"max-autotune"}, {0}};
    const char *backend = options->dynamo_backend;
    int rc = word_check("--mixed_precision", options->mixed_precision, precisions, err);
    rc = rc ? rc : word_check("--dynamo_mode", options->dynamo_mode, modes, err);
    for (const char *c = backend ? backend : "no"; rc == 0 && *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            rc = fail(err, ERR_USAGE, "--dynamo_backend '%s': expected a name, such as inductor",
                      backend);
    return rc;
}

/* ---- variables ---- */

/* Adds a variable. accelerate exports all of them; the text for the user names it only if an option asks for it. */
static void variable_add(struct accelerate_texts *texts, const char *option, const char *name,
                         const char *value)
{
    char *variable = xasprintf("%s=%s", name, value);
    if (option)
        say(texts, "%s is --env %s", option, variable);
    env_list_add(&texts->variables, variable);
}

static void flag_add(struct accelerate_texts *texts, bool is_set, const char *option,
                     const char *name)
{
    variable_add(texts, is_set ? option : NULL, name, is_set ? "True" : "False");
}

static void dynamo_add(const struct accelerate_options *options, struct accelerate_texts *texts)
{
    cleanup_free char *backend = xstrdup(options->dynamo_backend ? options->dynamo_backend : "no");
    for (char *c = backend; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    variable_add(texts, options->dynamo_backend ? "--dynamo_backend" : NULL,
                 "ACCELERATE_DYNAMO_BACKEND", backend);
    variable_add(texts, options->dynamo_mode ? "--dynamo_mode" : NULL, "ACCELERATE_DYNAMO_MODE",
                 options->dynamo_mode ? options->dynamo_mode : "default");
    flag_add(texts, options->uses_fullgraph, "--dynamo_use_fullgraph",
             "ACCELERATE_DYNAMO_USE_FULLGRAPH");
    flag_add(texts, options->uses_dynamic, "--dynamo_use_dynamic", "ACCELERATE_DYNAMO_USE_DYNAMIC");
    flag_add(texts, options->uses_regional_compilation, "--dynamo_use_regional_compilation",
             "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION");
}

/* Puts the variables before those of --env, so that --env counts if both set the same variable. */
static void variables_give(struct accelerate_texts *texts, struct environment_wish *wish)
{
    size_t n_own = texts->variables.len;
    wish->env.at = xrealloc(wish->env.at, (n_own + wish->env.len + 1) * sizeof(*wish->env.at));
    memmove(wish->env.at + n_own, wish->env.at, wish->env.len * sizeof(*wish->env.at));
    for (size_t i = 0; i < n_own; i++)
        wish->env.at[i] = texts->variables.at[i];
    wish->env.len += n_own;
}

static bool asks_for_dynamo(const struct accelerate_options *options)
{
    return options->dynamo_backend || options->dynamo_mode || options->uses_fullgraph ||
           options->uses_dynamic || options->uses_regional_compilation;
}

static void plugin_variable_add(void *context, const char *option, const char *name,
                                const char *value)
{
    variable_add(context, option, name, value);
}

static void idle_say(struct accelerate_texts *texts, const struct buf *names, const char *why)
{
    if (names->len > 0)
        say(texts, "%s %s no effect%s", buf_text(names),
            strchr(buf_text(names), ',') ? "have" : "has", why);
}

static void plugins_idle_say(const struct accelerate_options *options,
                             struct accelerate_texts *texts)
{
    for (enum plugin plugin = 0; plugin < PLUGINS; plugin++) {
        cleanup_buf struct buf names = BUF_INIT;
        cleanup_free char *why = xasprintf(" without %s", accelerate_plugin_switch(plugin));
        accelerate_plugins_idle(&options->plugins, plugin, &names);
        idle_say(texts, &names, why);
    }
    idle_say(texts, &texts->config.unknown, ": accelerate has no such option");
}

/* With DeepSpeed accelerate puts its folder of work at the end. On other hosts PYTHONPATH is not that of this one. */
static void python_path_add(struct accelerate_texts *texts)
{
    cleanup_free char *here = getcwd(NULL, 0);
    const char *own = getenv("PYTHONPATH");
    cleanup_free char *path =
        xasprintf("%s%s%s", own ? own : "", own && *own ? ":" : "", here ? here : "");
    if (here)
        variable_add(texts, NULL, "PYTHONPATH", path);
}

static void plugins_add(const struct accelerate_options *options,
                        const struct launch_request *request, struct accelerate_texts *texts)
{
    if (options->plugins.uses[OF_DEEPSPEED] && !request->allocation.hosts)
        python_path_add(texts);
    accelerate_plugins_export(&options->plugins, buf_text(&texts->config.fields),
                              plugin_variable_add, texts);
    for (size_t i = 0; i < texts->config.fp8.len && options->plugins.uses[OF_FP8]; i++)
        env_list_add(&texts->variables, xstrdup(texts->config.fp8.at[i]));
    plugins_idle_say(options, texts);
}

static void variables_settle(const struct accelerate_options *options,
                             struct launch_request *request, struct accelerate_texts *texts)
{
    variable_add(texts, options->mixed_precision ? "--mixed_precision" : NULL,
                 "ACCELERATE_MIXED_PRECISION",
                 options->mixed_precision ? options->mixed_precision : "no");
    /* With DeepSpeed accelerate hands nothing over about dynamo, whatever is asked for. */
    if (!options->plugins.uses[OF_DEEPSPEED] || asks_for_dynamo(options))
        dynamo_add(options, texts);
    plugins_add(options, request, texts);
    if (options->is_cpu)
        variable_add(texts, "--cpu", "ACCELERATE_USE_CPU", "True");
    if (options->has_affinity)
        variable_add(texts, "--enable_cpu_affinity", "ACCELERATE_CPU_AFFINITY", "1");
    if (options->is_debug)
        variable_add(texts, "--debug", "ACCELERATE_DEBUG_MODE", "true");
    variables_give(texts, &request->environment);
}

/* ---- options ---- */

/* A number in the environment stays, as with accelerate, unless the option gives another one. */
static void threads_settle(const struct accelerate_options *options, struct launch_request *request,
                           struct accelerate_texts *texts)
{
    struct rank_threads *threads = &request->cpus.threads;
    const char *own = getenv("OMP_NUM_THREADS");
    if (options->n_threads > 0)
        say(texts, "--num_cpu_threads_per_process is --threads %lu", options->n_threads);
    if (options->n_threads > 0)
        threads->n = options->n_threads;
    else if (threads->n > 0 || threads->is_share || (own && *own))
        return;
    else if (options->is_cpu)
        threads->is_share = true;
    else if (!options->plugins.uses[OF_DEEPSPEED]) /* else as torchrun has it */
        threads->n = 1;
    if (threads->is_share)
        say(texts, "--cpu is --threads share");
}

static int place_settle(const struct accelerate_options *options, struct meeting_options *meeting,
                        struct accelerate_texts *texts, struct err *err)
{
    bool are_several = options->n_machines > 1;
    bool is_known = options->ip || meeting->master_addr || meeting->endpoint;
    if (are_several && !is_known)
        return fail(err, ERR_USAGE,
                    "--num_machines %lu: --main_process_ip is needed, the address of machine 0",
                    options->n_machines);
    if (are_several && options->port == 0)
        return fail(err, ERR_USAGE,
                    "--main_process_port 0: several machines need a port that all of them know");
    if (options->ip && options->n_machines != 1) {
        meeting->master_addr = options->ip;
        say(texts, "--main_process_ip is --master-addr %s", options->ip);
    }
    if (options->port != UINT64_MAX && options->port > 0) {
        meeting->master_port = options->port;
        say(texts, "--main_process_port is --master-port %lu", options->port);
    } else if (are_several && options->ip) {
        meeting->master_port = PORT_USUAL; /* also with c10d, although c10d's own default differs */
    }
    return 0;
}

static void machines_settle(const struct accelerate_options *options,
                            struct meeting_options *meeting, struct accelerate_texts *texts)
{
    if (options->n_machines > 0) {
        meeting->nnodes = texts->nnodes = xasprintf("%lu", options->n_machines);
        say(texts, "--num_machines is --nnodes %s", texts->nnodes);
    }
    if (options->machine_rank != UINT64_MAX) {
        meeting->node_rank = options->machine_rank;
        say(texts, "--machine_rank is --node-rank %lu", options->machine_rank);
    }
}

int accelerate_settle(struct accelerate_options *options, struct meeting_options *meeting,
                      struct launch_request *request, struct accelerate_texts *texts,
                      struct err *err)
{
    if (!is_used(options))
        return 0;
    options->plugins.uses[OF_FP8] =
        options->mixed_precision && strcmp(options->mixed_precision, PRECISION_FP8) == 0;
    int rc = doubles_check(options, meeting, request, err);
    rc = rc ? rc : words_check(options, err);
    rc = rc ? rc : accelerate_plugins_check(&options->plugins, options->n_machines > 1, err);
    rc = rc ? rc : place_settle(options, meeting, texts, err);
    if (rc)
        return rc;
    machines_settle(options, meeting, texts);
    if (options->gpu_ids && strcmp(options->gpu_ids, "all") != 0 && !options->is_cpu) {
        request->allocation.gpus = options->gpu_ids;
        say(texts, "--gpu_ids is --gpus %s", options->gpu_ids);
    }
    threads_settle(options, request, texts);
    variables_settle(options, request, texts);
    return 0;
}

/* ---- the number of ranks ---- */

static int total_settle(const struct accelerate_options *options, struct launch_request *request,
                        struct accelerate_texts *texts, struct err *err)
{
    const struct launch_meeting *meeting = &request->meeting;
    uint64_t n_nodes = meeting->n_nodes_max;
    if (meeting->n_nodes_min != meeting->n_nodes_max)
        return fail(err, ERR_USAGE,
                    "--num_processes is the number of ranks on all machines, and with --nnodes "
                    "%u:%u it is not known how many there are; use --nproc-per-node, the number on "
                    "each machine",
                    meeting->n_nodes_min, meeting->n_nodes_max);
    if (options->n_processes % n_nodes != 0)
        return fail(
            err, ERR_USAGE,
            "--num_processes %lu cannot be divided evenly among %lu %s; use --nproc-per-node, "
            "the number on each",
            options->n_processes, n_nodes, request->task.n_local > 0 ? "tasks" : "machines");
    texts->nproc = xasprintf("%lu", options->n_processes / n_nodes);
    if (request->task.n_local > 0 && options->n_processes != n_nodes)
        return fail(err, ERR_USAGE,
                    "--num_processes %lu: there are %lu tasks, each of which is one rank",
                    options->n_processes, n_nodes);
    request->nproc = texts->nproc;
    say(texts, "--num_processes is --nproc-per-node %s", texts->nproc);
    return 0;
}

int accelerate_ranks_settle(const struct accelerate_options *options,
                            struct launch_request *request, struct accelerate_texts *texts,
                            struct log *log, struct err *err)
{
    int rc = 0;
    if (!is_used(options))
        return 0;
    bool is_said = request->nproc || request->allocation.gpus || request->allocation.hosts;
    if (options->n_processes > 0)
        rc = total_settle(options, request, texts, err);
    else if (!is_said && !options->is_cpu) {
        request->nproc = "gpu";
        say(texts, "without --num_processes, there is --nproc-per-node gpu");
    }
    if (rc == 0 && texts->said.len > 0)
        log_add(log, LOG_WARN, "launch", "%s", buf_text(&texts->said));
    return rc;
}

void accelerate_texts_release(struct accelerate_texts *texts)
{
    env_list_release(&texts->variables);
    env_list_release(&texts->values);
    accelerate_config_release(&texts->config);
    free(texts->nproc);
    free(texts->nnodes);
    buf_release(&texts->said);
}
