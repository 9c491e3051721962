/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the work of a run with a ledger has come.
 */
#pragma once

#include <stdint.h>

/*
 * A number that has grown if something was gained: items that are settled; of a graph the attempts of jobs that ended
 * well, since jobs that are done may become stale, and what the runs of its jobs have gained. 0: nothing, or unknown.
 */
uint64_t gain_count(const char *run_dir);
