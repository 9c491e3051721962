/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of muster doctor --ranks measured, as people and programs read it.
 */
#pragma once

#include "mesh/judge.h"

/* Where the ranks are, round trips and speeds: of few ranks each pair, of many each two hosts, or the worst of those. */
void ranks_tables_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts);
/* An object for each rank, each way and each other address that was tried, a line each. */
void ranks_objects_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts);
