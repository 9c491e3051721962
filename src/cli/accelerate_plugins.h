/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of `accelerate launch` for FSDP and DeepSpeed. Muster itself does not use them. accelerate gives each
 * to the script as a variable, from which Accelerator() makes its plugin, and muster does the same. Names and
 * defaults are those of accelerate 1.15 (src/accelerate/commands/launch.py, src/accelerate/utils/launch.py).
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* clang-format off */
/* id, option, variable (NULL: none), default (NULL: without a value there is no variable), how a value is written, help */
#define FSDP_OPTIONS(X) \
    X(VERSION, "fsdp-version", "FSDP_VERSION", "1", AS_IT_IS, "1 or 2: FSDP_VERSION, with --use-fsdp (default 1)") \
    X(SHARDING, "fsdp-sharding-strategy", "FSDP_SHARDING_STRATEGY", "FULL_SHARD", AS_IT_IS, "FSDP_SHARDING_STRATEGY, with --use-fsdp (default FULL_SHARD)") \
    X(RESHARD, "fsdp-reshard-after-forward", "FSDP_RESHARD_AFTER_FORWARD", "true", LOWER, "FSDP_RESHARD_AFTER_FORWARD, with --use-fsdp (default true)") \
    X(OFFLOAD, "fsdp-offload-params", "FSDP_OFFLOAD_PARAMS", "false", LOWER, "FSDP_OFFLOAD_PARAMS, with --use-fsdp (default false)") \
    X(MIN_PARAMS, "fsdp-min-num-params", "FSDP_MIN_NUM_PARAMS", "100000000", AS_IT_IS, "FSDP_MIN_NUM_PARAMS, with --use-fsdp (default 100000000)") \
    X(WRAP, "fsdp-auto-wrap-policy", "FSDP_AUTO_WRAP_POLICY", NULL, AS_IT_IS, "FSDP_AUTO_WRAP_POLICY, with --use-fsdp") \
    X(LAYERS, "fsdp-transformer-layer-cls-to-wrap", "FSDP_TRANSFORMER_CLS_TO_WRAP", NULL, AS_IT_IS, "FSDP_TRANSFORMER_CLS_TO_WRAP, with --use-fsdp") \
    X(BACKWARD, "fsdp-backward-prefetch", "FSDP_BACKWARD_PREFETCH", NULL, AS_IT_IS, "FSDP_BACKWARD_PREFETCH, with --use-fsdp") \
    X(STATE_DICT, "fsdp-state-dict-type", "FSDP_STATE_DICT_TYPE", NULL, AS_IT_IS, "FSDP_STATE_DICT_TYPE, with --use-fsdp") \
    X(FORWARD, "fsdp-forward-prefetch", "FSDP_FORWARD_PREFETCH", "false", LOWER, "FSDP_FORWARD_PREFETCH, with --use-fsdp (default false)") \
    X(ORIG_PARAMS, "fsdp-use-orig-params", "FSDP_USE_ORIG_PARAMS", "true", LOWER, "FSDP_USE_ORIG_PARAMS, with --use-fsdp (default true)") \
    X(EFFICIENT, "fsdp-cpu-ram-efficient-loading", "FSDP_CPU_RAM_EFFICIENT_LOADING", "true", LOWER, "FSDP_CPU_RAM_EFFICIENT_LOADING, with --use-fsdp (default true)") \
    X(SYNC, "fsdp-sync-module-states", "FSDP_SYNC_MODULE_STATES", "true", LOWER, "FSDP_SYNC_MODULE_STATES, with --use-fsdp (default true)") \
    X(CHECKPOINTING, "fsdp-activation-checkpointing", "FSDP_ACTIVATION_CHECKPOINTING", "false", LOWER, "FSDP_ACTIVATION_CHECKPOINTING, with --use-fsdp (default false)") \
    X(IGNORED, "fsdp-ignored-modules", "FSDP_IGNORED_MODULES", NULL, AS_IT_IS, "FSDP_IGNORED_MODULES, with --use-fsdp")

#define DEEPSPEED_OPTIONS(X) \
    X(ZERO_STAGE, "zero-stage", "ACCELERATE_DEEPSPEED_ZERO_STAGE", NULL, AS_IT_IS, "0 to 3: ACCELERATE_DEEPSPEED_ZERO_STAGE, with --use-deepspeed") \
    X(ACCUMULATION, "gradient-accumulation-steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", NULL, AS_IT_IS, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS, with --use-deepspeed") \
    X(CLIPPING, "gradient-clipping", "ACCELERATE_GRADIENT_CLIPPING", NULL, LOWER, "ACCELERATE_GRADIENT_CLIPPING, with --use-deepspeed") \
    X(OPTIMIZER_DEVICE, "offload-optimizer-device", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", NULL, LOWER, "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE, with --use-deepspeed") \
    X(PARAM_DEVICE, "offload-param-device", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", NULL, LOWER, "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE, with --use-deepspeed") \
    X(ZERO3_INIT, "zero3-init-flag", "ACCELERATE_DEEPSPEED_ZERO3_INIT", NULL, LOWER, "ACCELERATE_DEEPSPEED_ZERO3_INIT, with --use-deepspeed") \
    X(ZERO3_SAVE, "zero3-save-16bit-model", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", NULL, LOWER, "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL, with --use-deepspeed") \
    X(CONFIG_FILE, "deepspeed-config-file", "ACCELERATE_DEEPSPEED_CONFIG_FILE", NULL, AS_IT_IS, "ACCELERATE_DEEPSPEED_CONFIG_FILE, with --use-deepspeed") \
    X(MOE_LAYERS, "deepspeed-moe-layer-cls-names", "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", NULL, AS_IT_IS, "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES, with --use-deepspeed") \
    X(OPTIMIZER_NVME, "offload-optimizer-nvme-path", NULL, NULL, AS_IT_IS, "has no effect, as with accelerate, which does not hand it over; the file of --deepspeed-config-file can name it") \
    X(PARAM_NVME, "offload-param-nvme-path", NULL, NULL, AS_IT_IS, "has no effect, as with accelerate, which does not hand it over; the file of --deepspeed-config-file can name it") \
    X(LAUNCHER, "deepspeed-multinode-launcher", NULL, NULL, AS_IT_IS, "of several machines, standard: the same command is started on each") \
    X(HOSTFILE, "deepspeed-hostfile", NULL, NULL, AS_IT_IS, "has no effect; --hosts @FILE starts ranks on the hosts of such a file") \
    X(EXCLUDED, "deepspeed-exclusion-filter", NULL, NULL, AS_IT_IS, "has no effect; --hosts names hosts and devices") \
    X(INCLUDED, "deepspeed-inclusion-filter", NULL, NULL, AS_IT_IS, "has no effect; --hosts names hosts and devices")
/* clang-format on */

enum plugin_option {
#define X(id, name, variable, usual, form, help) PLUGIN_##id,
    FSDP_OPTIONS(X)
    DEEPSPEED_OPTIONS(X)
#undef X
        PLUGIN_OPTIONS
};

struct accelerate_plugins {
    bool uses_fsdp, uses_deepspeed;
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
 * ERR_USAGE for options that accelerate refuses, and for options that only work when accelerate itself starts several
 * machines.
 */
MUST_CHECK int accelerate_plugins_check(const struct accelerate_plugins *plugins,
                                        bool are_several_machines, struct err *err);
/*
 * Passes on the variables of the plugin that is used. `fields`: the keys of DeepSpeed that a configuration file has,
 * "zero_stage,…".
 */
void accelerate_plugins_export(const struct accelerate_plugins *plugins, const char *fields,
                               plugin_variable_fn *add, void *context);
/*
 * Adds the options of FSDP, or else of DeepSpeed, that were given although that plugin is not used: "--fsdp_version,
 * …".
 */
void accelerate_plugins_idle(const struct accelerate_plugins *plugins, bool of_fsdp,
                             struct buf *names);
/* Is there such an option, written with `_`? */
bool accelerate_plugin_has(const char *name);
