/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that `accelerate config` writes, as options of `accelerate launch`.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

struct accelerate_config {
    struct env_list words; /* "--num-processes=8" for each entry that says something */
    struct buf
        fields; /* what it says of DeepSpeed, and of precision: "zero_stage,mixed_precision" */
    struct buf unknown; /* options of FSDP and DeepSpeed that accelerate passes over: "fsdp_a, b" */
};

/*
 * YAML, and JSON, which is YAML. What is about SageMaker, TPUs or mpirun's own hosts, and what sets up Megatron-LM and the
 * like, is refused (ERR_USAGE, with line and column), as are keys that accelerate does not know. `has_precision`: another
 * precision than that of the file counts.
 */
MUST_CHECK int accelerate_config_read(const char *path, bool has_precision,
                                      struct accelerate_config *config, struct err *err);
void accelerate_config_release(struct accelerate_config *config);
