/* SPDX-License-Identifier: Apache-2.0
 *
 * Slurm's lists of nodes, "n[1-3,07],gpu-[01-02]-x": slurm.conf(5), NodeName.
 */
#pragma once

#include "base/env_list.h"
#include "base/err.h"

/* Adds the name of each node, in the order of the list. ERR_DATA if it is no such list, or has more than 65,536. */
MUST_CHECK int slurm_node_names(const char *list, struct env_list *out, struct err *err);
