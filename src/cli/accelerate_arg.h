/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of `accelerate launch` that `muster launch` understands. Each becomes options of muster launch and
 * variables for the ranks, the same variables that accelerate exports
 * (https://huggingface.co/docs/accelerate/package_reference/cli).
 */
#pragma once

#include "base/env_list.h"
#include "cli/accelerate_config.h"
#include "cli/accelerate_plugins.h"
#include "cli/meeting_arg.h"
#include "device/spec.h"
#include "opt/cmd.h"

enum {
    ACCELERATE_RANKS_MAX = 1000000
};

struct accelerate_options {
    uint64_t n_processes, n_machines, n_threads; /* 0: not given; n_processes: on all machines */
    uint64_t machine_rank, port;                 /* UINT64_MAX: not given */
    const char *ip, *gpu_ids;                    /* NULL: not given, as below */
    const char *mixed_precision, *dynamo_backend, *dynamo_mode;
    bool uses_fullgraph, uses_dynamic, uses_regional_compilation;
    bool is_cpu, is_multi_gpu, has_affinity, is_same_network, is_debug;
    const char *config;    /* path of a file with more options */
    const char *no_effect; /* accelerate itself uses these only for TPUs */
    struct accelerate_plugins plugins;
};

/* Texts that a request borrows, and the text that the user gets. */
struct accelerate_texts {
    struct env_list variables, values;
    struct accelerate_config config;
    char *nproc, *nnodes;
    struct buf said; /* "--num_machines 2 is --nnodes 2; …" */
};

void accelerate_defaults(struct accelerate_options *options);
/* Before meeting_settle(): all but the number of ranks. Nothing if none of the options was given. ERR_USAGE. */
MUST_CHECK int accelerate_settle(struct accelerate_options *options,
                                 struct meeting_options *meeting, struct launch_request *request,
                                 struct accelerate_texts *texts, struct err *err);
/*
 * Sets the number of ranks on each machine; called after meeting_settle(), when the number of machines is known.
 * Tells the user what the options have become. ERR_USAGE.
 */
MUST_CHECK int accelerate_ranks_settle(const struct accelerate_options *options,
                                       struct launch_request *request,
                                       struct accelerate_texts *texts, struct log *log,
                                       struct err *err);
void accelerate_texts_release(struct accelerate_texts *texts);

/* Options of accelerate that muster launch does not have, and what to do instead. */
extern const struct opt_foreign accelerate_foreign[];

/* clang-format off */
#define ACCELERATE_FIELD(at, name) ((at) + offsetof(struct accelerate_options, name))
#define PLUGIN_FIELD(name) offsetof(struct accelerate_options, plugins.name)
/* `X` needs ACCELERATE_AT, the offset of struct accelerate_options in the request. */
#define ACCELERATE_PLUGIN_OPT(id, name, variable, usual, type, form, help) \
    {OPT_TEXT, 0, name, "VALUE", help, ACCELERATE_AT + PLUGIN_FIELD(values[PLUGIN_##id]), .is_exact = true},
#define ACCELERATE_OPTS(at)                                                                                            \
    {OPT_HEADING, .help = "Options of accelerate launch; a message shows what each becomes"},                           \
    {OPT_PATH, 0, "config-file", "FILE", "file that accelerate config has written; options on the command line take precedence over its entries (default: none; the file that accelerate reads by itself is not read)", ACCELERATE_FIELD(at, config), .is_exact = true}, \
    {OPT_U64, 0, "num-processes", "N", "number of ranks on all machines together (default: one for each GPU; with --cpu, 1)", ACCELERATE_FIELD(at, n_processes), 1, ACCELERATE_RANKS_MAX, .is_exact = true}, \
    {OPT_U64, 0, "num-machines", "N", "--nnodes", ACCELERATE_FIELD(at, n_machines), 1, 4096, .is_exact = true},           \
    {OPT_U64, 0, "machine-rank", "N", "--node-rank", ACCELERATE_FIELD(at, machine_rank), 0, 4095, .is_exact = true},      \
    {OPT_TEXT, 0, "main-process-ip", "HOST", "--master-addr, of several machines", ACCELERATE_FIELD(at, ip), .is_exact = true}, \
    {OPT_U64, 0, "main-process-port", "PORT", "--master-port; 0 is a free one (default: a free one, of several machines 29500)", ACCELERATE_FIELD(at, port), 0, 65535, .is_exact = true}, \
    {OPT_TEXT, 0, "gpu-ids", "IDS", "--gpus; all: those that muster sees", ACCELERATE_FIELD(at, gpu_ids), .check = spec_check, .is_exact = true}, \
    {OPT_FLAG, 0, "multi-gpu", NULL, "one rank for each GPU, unless another number is given, as with any of these options", ACCELERATE_FIELD(at, is_multi_gpu), .is_exact = true}, \
    {OPT_FLAG, 0, "cpu", NULL, "ranks compute on processors: ACCELERATE_USE_CPU, and --threads share", ACCELERATE_FIELD(at, is_cpu), .is_exact = true}, \
    {OPT_U64, 0, "num-cpu-threads-per-process", "N", "--threads", ACCELERATE_FIELD(at, n_threads), 1, 65536, .is_exact = true}, \
    {OPT_FLAG, 0, "enable-cpu-affinity", NULL, "ACCELERATE_CPU_AFFINITY, by which the script binds itself; --numa-binding needs nothing in the script", ACCELERATE_FIELD(at, has_affinity), .is_exact = true}, \
    {OPT_TEXT, 0, "mixed-precision", "TYPE", "no, fp16, bf16 or fp8: ACCELERATE_MIXED_PRECISION; with fp8, the variables of its options as well", ACCELERATE_FIELD(at, mixed_precision), .is_exact = true}, \
    {OPT_TEXT, 0, "dynamo-backend", "NAME", "ACCELERATE_DYNAMO_BACKEND", ACCELERATE_FIELD(at, dynamo_backend), .is_exact = true}, \
    {OPT_TEXT, 0, "dynamo-mode", "NAME", "default, reduce-overhead or max-autotune: ACCELERATE_DYNAMO_MODE", ACCELERATE_FIELD(at, dynamo_mode), .is_exact = true}, \
    {OPT_FLAG, 0, "dynamo-use-fullgraph", NULL, "ACCELERATE_DYNAMO_USE_FULLGRAPH", ACCELERATE_FIELD(at, uses_fullgraph), .is_exact = true}, \
    {OPT_FLAG, 0, "dynamo-use-dynamic", NULL, "ACCELERATE_DYNAMO_USE_DYNAMIC", ACCELERATE_FIELD(at, uses_dynamic), .is_exact = true}, \
    {OPT_FLAG, 0, "dynamo-use-regional-compilation", NULL, "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", ACCELERATE_FIELD(at, uses_regional_compilation), .is_exact = true}, \
    {OPT_FLAG, 0, "debug", NULL, "ACCELERATE_DEBUG_MODE", ACCELERATE_FIELD(at, is_debug), .is_exact = true},               \
    {OPT_FLAG, 0, "same-network", NULL, "has no effect", ACCELERATE_FIELD(at, is_same_network), .is_exact = true},         \
    {OPT_TEXT, 0, "main-training-function", "NAME", "has no effect, as with accelerate without TPUs", ACCELERATE_FIELD(at, no_effect), .is_exact = true}, \
    {OPT_FLAG, 0, "use-fsdp", NULL, "ACCELERATE_USE_FSDP, and the variables of the options of FSDP, of which accelerate in the script makes its plugin", ACCELERATE_FIELD(at, plugins.uses[OF_FSDP]), .is_exact = true}, \
    FSDP_OPTIONS(ACCELERATE_PLUGIN_OPT)                                                                                \
    {OPT_FLAG, 0, "use-deepspeed", NULL, "ACCELERATE_USE_DEEPSPEED, and the variables of the options of DeepSpeed, of which accelerate in the script makes its plugin", ACCELERATE_FIELD(at, plugins.uses[OF_DEEPSPEED]), .is_exact = true}, \
    DEEPSPEED_OPTIONS(ACCELERATE_PLUGIN_OPT)                                                                           \
    {OPT_FLAG, 0, "use-megatron-lm", NULL, "ACCELERATE_USE_MEGATRON_LM, and the variables of the options of Megatron-LM, of which accelerate in the script makes its plugin", ACCELERATE_FIELD(at, plugins.uses[OF_MEGATRON_LM]), .is_exact = true}, \
    MEGATRON_LM_OPTIONS(ACCELERATE_PLUGIN_OPT)                                                                         \
    FP8_OPTIONS(ACCELERATE_PLUGIN_OPT)                                                                                 \
    {OPT_FLAG, 0, "fp8-use-autocast-during-eval", NULL, "ACCELERATE_FP8_USE_AUTOCAST_DURING_EVAL=True, with --mixed-precision fp8", ACCELERATE_FIELD(at, plugins.evaluates_in_fp8), .is_exact = true},
/* clang-format on */
