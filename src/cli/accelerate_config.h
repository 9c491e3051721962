/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that `accelerate config` writes, as options of `accelerate launch`.
 */
#pragma once

#include "base/env_list.h"
#include "base/err.h"

/*
 * Adds a word for each entry that says something, as "--num-processes=8". YAML, and JSON, which is YAML. What is about
 * SageMaker, TPUs or mpirun's own hosts, and what sets up DeepSpeed, FSDP and the like, is refused (ERR_USAGE, with line
 * and column), as are keys that accelerate does not know.
 */
MUST_CHECK int accelerate_config_read(const char *path, struct env_list *words, struct err *err);
