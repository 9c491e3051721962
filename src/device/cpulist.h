/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of CPUs as the kernel writes them: "0-3,8".
 */
#pragma once

#include <sched.h>

#include "base/buf.h"

/* Parses a list, with or without a newline. False if it is malformed. */
bool cpulist_parse(struct str text, cpu_set_t *out);
void cpulist_format(struct buf *out, const cpu_set_t *cpus);
