/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment of a worker: that of muster, the seat's devices, and MUSTER_*.
 */
#pragma once

#include "map/session.h"

/* Strings are malloc'ed, the list ends with NULL (not counted in len). */
void worker_environment(const struct worker *worker, uint64_t batch, struct env_list *env);
/* For --dry-run with other hosts: prints the names of the variables that are sent to them. */
void environment_sent_print(const struct session *s);
