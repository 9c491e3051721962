/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of `accelerate launch` for FSDP, DeepSpeed, Megatron-LM and fp8. They mean nothing to muster: accelerate hands
 * each over to the script as a variable, of which Accelerator() makes its plugin, and so do we. Names and defaults are those of
 * accelerate 1.15 (src/accelerate/commands/launch.py, src/accelerate/utils/launch.py).
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

/* clang-format off */
/*
 * id, option, variable (NULL: none), default (NULL: without a value there is no variable), what accelerate makes of a value
 * that is typed, how a value is written, help
 */
#define FSDP_OPTIONS(X) \
    X(VERSION, "fsdp-version", "FSDP_VERSION", "1", INTEGER, AS_IT_IS, "1 or 2: FSDP_VERSION, with --use-fsdp (default 1)") \
    X(SHARDING, "fsdp-sharding-strategy", "FSDP_SHARDING_STRATEGY", "FULL_SHARD", TEXT, AS_IT_IS, "FSDP_SHARDING_STRATEGY, with --use-fsdp (default FULL_SHARD)") \
    X(RESHARD, "fsdp-reshard-after-forward", "FSDP_RESHARD_AFTER_FORWARD", "true", TEXT, LOWER, "FSDP_RESHARD_AFTER_FORWARD, with --use-fsdp (default true)") \
    X(OFFLOAD, "fsdp-offload-params", "FSDP_OFFLOAD_PARAMS", "false", TEXT, LOWER, "FSDP_OFFLOAD_PARAMS, with --use-fsdp (default false)") \
    X(MIN_PARAMS, "fsdp-min-num-params", "FSDP_MIN_NUM_PARAMS", "100000000", INTEGER, AS_IT_IS, "FSDP_MIN_NUM_PARAMS, with --use-fsdp (default 100000000)") \
    X(WRAP, "fsdp-auto-wrap-policy", "FSDP_AUTO_WRAP_POLICY", NULL, TEXT, AS_IT_IS, "FSDP_AUTO_WRAP_POLICY, with --use-fsdp") \
    X(LAYERS, "fsdp-transformer-layer-cls-to-wrap", "FSDP_TRANSFORMER_CLS_TO_WRAP", NULL, TEXT, AS_IT_IS, "FSDP_TRANSFORMER_CLS_TO_WRAP, with --use-fsdp") \
    X(BACKWARD, "fsdp-backward-prefetch", "FSDP_BACKWARD_PREFETCH", NULL, TEXT, AS_IT_IS, "FSDP_BACKWARD_PREFETCH, with --use-fsdp") \
    X(STATE_DICT, "fsdp-state-dict-type", "FSDP_STATE_DICT_TYPE", NULL, TEXT, AS_IT_IS, "FSDP_STATE_DICT_TYPE, with --use-fsdp") \
    X(FORWARD, "fsdp-forward-prefetch", "FSDP_FORWARD_PREFETCH", "false", TEXT, LOWER, "FSDP_FORWARD_PREFETCH, with --use-fsdp (default false)") \
    X(ORIG_PARAMS, "fsdp-use-orig-params", "FSDP_USE_ORIG_PARAMS", "true", TEXT, LOWER, "FSDP_USE_ORIG_PARAMS, with --use-fsdp (default true)") \
    X(EFFICIENT, "fsdp-cpu-ram-efficient-loading", "FSDP_CPU_RAM_EFFICIENT_LOADING", "true", TEXT, LOWER, "FSDP_CPU_RAM_EFFICIENT_LOADING, with --use-fsdp (default true)") \
    X(SYNC, "fsdp-sync-module-states", "FSDP_SYNC_MODULE_STATES", "true", TEXT, LOWER, "FSDP_SYNC_MODULE_STATES, with --use-fsdp (default true)") \
    X(CHECKPOINTING, "fsdp-activation-checkpointing", "FSDP_ACTIVATION_CHECKPOINTING", "false", TEXT, LOWER, "FSDP_ACTIVATION_CHECKPOINTING, with --use-fsdp (default false)") \
    X(CHECKPOINTS_OFFLOAD, "fsdp-activation-checkpointing-offload", "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", "false", TEXT, LOWER, "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD, with --use-fsdp (default false)") \
    X(IGNORED, "fsdp-ignored-modules", "FSDP_IGNORED_MODULES", NULL, TEXT, AS_IT_IS, "FSDP_IGNORED_MODULES, with --use-fsdp")

#define DEEPSPEED_OPTIONS(X) \
    X(ZERO_STAGE, "zero-stage", "ACCELERATE_DEEPSPEED_ZERO_STAGE", NULL, INTEGER, AS_IT_IS, "0 to 3: ACCELERATE_DEEPSPEED_ZERO_STAGE, with --use-deepspeed") \
    X(ACCUMULATION, "gradient-accumulation-steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", NULL, INTEGER, AS_IT_IS, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS, with --use-deepspeed") \
    X(CLIPPING, "gradient-clipping", "ACCELERATE_GRADIENT_CLIPPING", NULL, REAL, LOWER, "ACCELERATE_GRADIENT_CLIPPING, with --use-deepspeed") \
    X(OPTIMIZER_DEVICE, "offload-optimizer-device", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", NULL, TEXT, LOWER, "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE, with --use-deepspeed") \
    X(PARAM_DEVICE, "offload-param-device", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", NULL, TEXT, LOWER, "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE, with --use-deepspeed") \
    X(ZERO3_INIT, "zero3-init-flag", "ACCELERATE_DEEPSPEED_ZERO3_INIT", NULL, TEXT, LOWER, "ACCELERATE_DEEPSPEED_ZERO3_INIT, with --use-deepspeed") \
    X(ZERO3_SAVE, "zero3-save-16bit-model", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", NULL, TEXT, LOWER, "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL, with --use-deepspeed") \
    X(CONFIG_FILE, "deepspeed-config-file", "ACCELERATE_DEEPSPEED_CONFIG_FILE", NULL, TEXT, AS_IT_IS, "ACCELERATE_DEEPSPEED_CONFIG_FILE, with --use-deepspeed") \
    X(MOE_LAYERS, "deepspeed-moe-layer-cls-names", "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", NULL, TEXT, AS_IT_IS, "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES, with --use-deepspeed") \
    X(OPTIMIZER_NVME, "offload-optimizer-nvme-path", NULL, NULL, TEXT, AS_IT_IS, "has no effect, as with accelerate, which does not hand it over; the file of --deepspeed-config-file can name it") \
    X(PARAM_NVME, "offload-param-nvme-path", NULL, NULL, TEXT, AS_IT_IS, "has no effect, as with accelerate, which does not hand it over; the file of --deepspeed-config-file can name it") \
    X(LAUNCHER, "deepspeed-multinode-launcher", NULL, NULL, TEXT, AS_IT_IS, "of several machines, standard: the same command is started on each") \
    X(HOSTFILE, "deepspeed-hostfile", NULL, NULL, TEXT, AS_IT_IS, "has no effect; --hosts @FILE starts ranks on the hosts of such a file") \
    X(EXCLUDED, "deepspeed-exclusion-filter", NULL, NULL, TEXT, AS_IT_IS, "has no effect; --hosts names hosts and devices") \
    X(INCLUDED, "deepspeed-inclusion-filter", NULL, NULL, TEXT, AS_IT_IS, "has no effect; --hosts names hosts and devices")
#define MEGATRON_LM_OPTIONS(X) \
    X(TP_DEGREE, "megatron-lm-tp-degree", "MEGATRON_LM_TP_DEGREE", "1", INTEGER, AS_IT_IS, "MEGATRON_LM_TP_DEGREE, with --use-megatron-lm (default 1)") \
    X(CUSTOM_FSDP, "megatron-lm-use-custom-fsdp", "MEGATRON_LM_USE_CUSTOM_FSDP", "False", BOOLEAN, AS_IT_IS, "MEGATRON_LM_USE_CUSTOM_FSDP, with --use-megatron-lm (default False; any VALUE is True, as with accelerate)") \
    X(NO_LOAD_OPTIM, "megatron-lm-no-load-optim", "MEGATRON_LM_NO_LOAD_OPTIM", "False", BOOLEAN, AS_IT_IS, "MEGATRON_LM_NO_LOAD_OPTIM, with --use-megatron-lm (default False; any VALUE is True, as with accelerate)") \
    X(EOD_MASK_LOSS, "megatron-lm-eod-mask-loss", "MEGATRON_LM_EOD_MASK_LOSS", "False", BOOLEAN, AS_IT_IS, "MEGATRON_LM_EOD_MASK_LOSS, with --use-megatron-lm (default False; any VALUE is True, as with accelerate)") \
    X(OVERLAP_D2H_H2D, "megatron-lm-overlap-cpu-optimizer-d2h-h2d", "MEGATRON_LM_OVERLAP_CPU_OPTIMIZER_D2H_H2D", "False", BOOLEAN, AS_IT_IS, "MEGATRON_LM_OVERLAP_CPU_OPTIMIZER_D2H_H2D, with --use-megatron-lm (default False; any VALUE is True, as with accelerate)") \
    X(NO_SAVE_OPTIM, "megatron-lm-no-save-optim", "MEGATRON_LM_NO_SAVE_OPTIM", "False", BOOLEAN, AS_IT_IS, "MEGATRON_LM_NO_SAVE_OPTIM, with --use-megatron-lm (default False; any VALUE is True, as with accelerate)") \
    X(CPU_OFFLOAD, "megatron-lm-optimizer-cpu-offload", "MEGATRON_LM_OPTIMIZER_CPU_OFFLOAD", "False", BOOLEAN, AS_IT_IS, "MEGATRON_LM_OPTIMIZER_CPU_OFFLOAD, with --use-megatron-lm (default False; any VALUE is True, as with accelerate)") \
    X(PRECISION_AWARE, "megatron-lm-use-precision-aware-optimizer", "MEGATRON_LM_USE_PRECISION_AWARE_OPTIMIZER", "False", BOOLEAN, AS_IT_IS, "MEGATRON_LM_USE_PRECISION_AWARE_OPTIMIZER, with --use-megatron-lm (default False; any VALUE is True, as with accelerate)") \
    X(LAST_LAYERS, "megatron-lm-decoder-last-pipeline-num-layers", "MEGATRON_LM_DECODER_LAST_PIPELINE_NUM_LAYERS", NULL, INTEGER, AS_IT_IS, "MEGATRON_LM_DECODER_LAST_PIPELINE_NUM_LAYERS, with --use-megatron-lm") \
    X(PP_DEGREE, "megatron-lm-pp-degree", "MEGATRON_LM_PP_DEGREE", "1", INTEGER, AS_IT_IS, "MEGATRON_LM_PP_DEGREE, with --use-megatron-lm (default 1)") \
    X(MICRO_BATCHES, "megatron-lm-num-micro-batches", "MEGATRON_LM_NUM_MICRO_BATCHES", NULL, INTEGER, AS_IT_IS, "MEGATRON_LM_NUM_MICRO_BATCHES, with --use-megatron-lm") \
    X(SEQUENCE, "megatron-lm-sequence-parallelism", "MEGATRON_LM_SEQUENCE_PARALLELISM", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_SEQUENCE_PARALLELISM, with --use-megatron-lm") \
    X(RECOMPUTE, "megatron-lm-recompute-activations", "MEGATRON_LM_RECOMPUTE_ACTIVATIONS", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_RECOMPUTE_ACTIVATIONS, with --use-megatron-lm") \
    X(DISTRIBUTED_OPTIMIZER, "megatron-lm-use-distributed-optimizer", "MEGATRON_LM_USE_DISTRIBUTED_OPTIMIZER", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_USE_DISTRIBUTED_OPTIMIZER, with --use-megatron-lm") \
    X(MEGATRON_CLIPPING, "megatron-lm-gradient-clipping", "MEGATRON_LM_GRADIENT_CLIPPING", "1.0", REAL, AS_IT_IS, "MEGATRON_LM_GRADIENT_CLIPPING, with --use-megatron-lm (default 1.0)") \
    X(GRANULARITY, "megatron-lm-recompute-granularity", "MEGATRON_LM_RECOMPUTE_GRANULARITY", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_RECOMPUTE_GRANULARITY, with --use-megatron-lm") \
    X(METHOD, "megatron-lm-recompute-method", "MEGATRON_LM_RECOMPUTE_METHOD", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_RECOMPUTE_METHOD, with --use-megatron-lm") \
    X(RECOMPUTE_LAYERS, "megatron-lm-recompute-num-layers", "MEGATRON_LM_RECOMPUTE_NUM_LAYERS", NULL, INTEGER, AS_IT_IS, "MEGATRON_LM_RECOMPUTE_NUM_LAYERS, with --use-megatron-lm") \
    X(ATTENTION, "megatron-lm-attention-backend", "MEGATRON_LM_ATTENTION_BACKEND", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_ATTENTION_BACKEND, with --use-megatron-lm") \
    X(EXPERT_PARALLEL, "megatron-lm-expert-model-parallel-size", "MEGATRON_LM_EXPERT_MODEL_PARALLEL_SIZE", NULL, INTEGER, AS_IT_IS, "MEGATRON_LM_EXPERT_MODEL_PARALLEL_SIZE, with --use-megatron-lm") \
    X(CONTEXT_PARALLEL, "megatron-lm-context-parallel-size", "MEGATRON_LM_CONTEXT_PARALLEL_SIZE", NULL, INTEGER, AS_IT_IS, "MEGATRON_LM_CONTEXT_PARALLEL_SIZE, with --use-megatron-lm") \
    X(ATTENTION_DROPOUT, "megatron-lm-attention-dropout", "MEGATRON_LM_ATTENTION_DROPOUT", NULL, REAL, AS_IT_IS, "MEGATRON_LM_ATTENTION_DROPOUT, with --use-megatron-lm") \
    X(HIDDEN_DROPOUT, "megatron-lm-hidden-dropout", "MEGATRON_LM_HIDDEN_DROPOUT", NULL, REAL, AS_IT_IS, "MEGATRON_LM_HIDDEN_DROPOUT, with --use-megatron-lm") \
    X(SOFTMAX, "megatron-lm-attention-softmax-in-fp32", "MEGATRON_LM_ATTENTION_SOFTMAX_IN_FP32", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_ATTENTION_SOFTMAX_IN_FP32, with --use-megatron-lm") \
    X(EXPERT_TENSOR, "megatron-lm-expert-tensor-parallel-size", "MEGATRON_LM_EXPERT_TENSOR_PARALLEL_SIZE", NULL, INTEGER, AS_IT_IS, "MEGATRON_LM_EXPERT_TENSOR_PARALLEL_SIZE, with --use-megatron-lm") \
    X(TOKEN_LOSS, "megatron-lm-calculate-per-token-loss", "MEGATRON_LM_CALCULATE_PER_TOKEN_LOSS", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_CALCULATE_PER_TOKEN_LOSS, with --use-megatron-lm") \
    X(ROTARY, "megatron-lm-use-rotary-position-embeddings", "MEGATRON_LM_USE_ROTARY_POSITION_EMBEDDINGS", NULL, TEXT, AS_IT_IS, "MEGATRON_LM_USE_ROTARY_POSITION_EMBEDDINGS, with --use-megatron-lm")

#define FP8_OPTIONS(X) \
    X(FP8_BACKEND, "fp8-backend", "ACCELERATE_FP8_BACKEND", NULL, TEXT, AS_IT_IS, "te, ao or msamp: ACCELERATE_FP8_BACKEND, with --mixed-precision fp8") \
    X(FP8_MARGIN, "fp8-margin", "ACCELERATE_FP8_MARGIN", "0", INTEGER, AS_IT_IS, "ACCELERATE_FP8_MARGIN, with --mixed-precision fp8 (default 0)") \
    X(FP8_INTERVAL, "fp8-interval", "ACCELERATE_FP8_INTERVAL", "1", INTEGER, AS_IT_IS, "ACCELERATE_FP8_INTERVAL, with --mixed-precision fp8 (default 1)") \
    X(FP8_FORMAT, "fp8-format", "ACCELERATE_FP8_FORMAT", "HYBRID", TEXT, AS_IT_IS, "HYBRID, E4M3 or E5M2: ACCELERATE_FP8_FORMAT, with --mixed-precision fp8 (default HYBRID)") \
    X(FP8_HISTORY, "fp8-amax-history-len", "ACCELERATE_FP8_AMAX_HISTORY_LEN", "1024", INTEGER, AS_IT_IS, "ACCELERATE_FP8_AMAX_HISTORY_LEN, with --mixed-precision fp8 (default 1024)") \
    X(FP8_ALGORITHM, "fp8-amax-compute-algo", "ACCELERATE_FP8_AMAX_COMPUTE_ALGO", "most_recent", TEXT, AS_IT_IS, "max or most_recent: ACCELERATE_FP8_AMAX_COMPUTE_ALGO, with --mixed-precision fp8 (default most_recent)") \
    X(FP8_OVERRIDE, "fp8-override-linear-precision", "ACCELERATE_FP8_OVERRIDE_", "False,False,False", TRUTHS, AS_IT_IS, "true or false for fprop, dgrad and wgrad, as true,false,false: ACCELERATE_FP8_OVERRIDE_FPROP, _DGRAD and _WGRAD, with --mixed-precision fp8 (default false,false,false)") \
    X(FP8_LEVEL, "fp8-opt-level", "ACCELERATE_FP8_OPT_LEVEL", "O2", TEXT, AS_IT_IS, "O1 or O2: ACCELERATE_FP8_OPT_LEVEL, with --mixed-precision fp8 (default O2)") \
    X(FP8_ALL_GATHER, "fp8-enable-fsdp-float8-all-gather", "ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER", "1", TRUTH, AS_IT_IS, "true or false: ACCELERATE_FP8_ENABLE_FSDP_FLOAT8_ALL_GATHER, with --mixed-precision fp8 (default true)") \
    X(FP8_PAD, "fp8-pad-inner-dim", "ACCELERATE_FP8_PAD_INNER_DIM", "1", TRUTH, AS_IT_IS, "true or false: ACCELERATE_FP8_PAD_INNER_DIM, with --mixed-precision fp8 (default true)")
/* clang-format on */

enum plugin_option {
#define X(id, name, variable, usual, type, form, help) PLUGIN_##id,
    FSDP_OPTIONS(X)
    DEEPSPEED_OPTIONS(X) MEGATRON_LM_OPTIONS(X) FP8_OPTIONS(X)
#undef X
        PLUGIN_OPTIONS
};

enum plugin {
    OF_FSDP,
    OF_DEEPSPEED,
    OF_MEGATRON_LM,
    OF_FP8, /* of --mixed_precision fp8 */
    PLUGINS
};

struct accelerate_plugins {
    bool uses[PLUGINS];
    bool evaluates_in_fp8;              /* --fp8_use_autocast_during_eval */
    const char *values[PLUGIN_OPTIONS]; /* NULL: not given */
};

/*
 * Takes a variable for the ranks. `option`: the option that asks for the variable, "--fsdp_version"; NULL: it is set
 * without an option.
 */
typedef void plugin_variable_fn(void *context, const char *option, const char *name,
                                const char *value);

bool accelerate_plugins_are_used(const struct accelerate_plugins *plugins);
/*
 * The values of options that were typed as accelerate's parser reads them: 0.50 becomes 0.5, and what is a text in a file may
 * be another value on a command line. `texts` owns new ones. What cannot be read stays, for accelerate_plugins_check().
 */
void accelerate_plugins_read(struct accelerate_plugins *typed, struct env_list *texts);
/* ERR_USAGE for what accelerate refuses, and for what only its own start of several machines can do. */
MUST_CHECK int accelerate_plugins_check(const struct accelerate_plugins *plugins,
                                        bool are_several_machines, struct err *err);
/*
 * The variables of the plugins that are used. `fields`: what of DeepSpeed a configuration file names, as "zero_stage,…".
 */
void accelerate_plugins_export(const struct accelerate_plugins *plugins, const char *fields,
                               plugin_variable_fn *add, void *context);
/* "--use_fsdp": what must be typed for the plugin. */
const char *accelerate_plugin_switch(enum plugin plugin);
/* Adds the options of a plugin that were given though it is not used: "--fsdp_version, …". */
void accelerate_plugins_idle(const struct accelerate_plugins *plugins, enum plugin plugin,
                             struct buf *names);
/* Is there such an option with a value, written with `_`? */
bool accelerate_plugin_has(const char *name);
