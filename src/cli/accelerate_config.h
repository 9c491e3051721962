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
    struct env_list words; /* "--num-processes=8" for each entry that says something */
    struct buf
        fields; /* what it says of DeepSpeed, and of precision: "zero_stage,mixed_precision" */
    struct env_list fp8; /* variables for entries of fp8_config that are no options */
    struct buf unknown;  /* options of plugins that accelerate passes over: "fsdp_a, b" */
};

/*
 * YAML, and JSON, which is YAML. What is about SageMaker, TPUs or mpirun's own hosts, and what sets up other parallelism, is
 * refused (ERR_USAGE, with line and column), as are keys that accelerate does not know. `has_precision`: another
 * precision than that of the file counts.
 */
MUST_CHECK int accelerate_config_read(const char *path, bool has_precision,
                                      struct accelerate_config *config, struct err *err);
void accelerate_config_release(struct accelerate_config *config);
