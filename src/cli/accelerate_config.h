/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the file that `accelerate config` writes, and makes options of `accelerate launch` from it.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

struct accelerate_config {
    struct env_list words; /* "--num-processes=8", for each entry that has an effect */
    struct buf fields;  /* the keys about DeepSpeed and precision: "zero_stage,mixed_precision" */
    struct buf unknown; /* options of FSDP and DeepSpeed that accelerate passes over: "fsdp_a, b" */
};

/*
 * The file is YAML, or JSON, which is YAML too. Entries about SageMaker, TPUs, mpirun's own hosts, Megatron-LM and
 * the like are refused (ERR_USAGE, with line and column), and so are keys that accelerate does not know.
 * `has_precision`: an option gives the precision, so that of the file does not count.
 */
MUST_CHECK int accelerate_config_read(const char *path, bool has_precision,
                                      struct accelerate_config *config, struct err *err);
void accelerate_config_release(struct accelerate_config *config);
