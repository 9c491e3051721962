/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress of a run with a ledger.
 */
#pragma once

#include <stdint.h>

/*
 * A number that grows with the work that is done. Of a map: items that are settled. Of a graph: attempts that ended
 * well, since the number of done jobs shrinks when jobs become stale, and the gain of the runs of its jobs. 0:
 * nothing, or unknown.
 */
uint64_t gain_count(const char *run_dir);
