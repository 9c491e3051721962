/* SPDX-License-Identifier: Apache-2.0
 *
 * Slurm's lists of nodes, "n[1-3,07],gpu-[01-02]-x" (slurm.conf(5), NodeName), and of their tasks, "2(x3),1".
 */
#pragma once

#include <stdint.h>

#include "base/env_list.h"
#include "base/err.h"

/*
 * Adds the name of each node, in the order of the list. ERR_DATA if `list` is no such list, or has more than 65,536
 * nodes.
 */
MUST_CHECK int slurm_node_names(const char *list, struct env_list *out, struct err *err);
/* How many tasks are on the node with this index in the list. ERR_DATA if `list` is no such list, or has fewer nodes. */
MUST_CHECK int slurm_task_count(const char *list, uint32_t node, uint32_t *out, struct err *err);
