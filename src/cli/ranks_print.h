/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of muster doctor --ranks measured, as people and programs read it.
 */
#pragma once

#include "mesh/judge.h"

/*
 * Adds where the ranks are, and tables of round trips and speeds: for few ranks between each pair,
 * for many between each two hosts, or only the worst of those.
 */
void ranks_tables_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts);
/* An object for each rank, each way and each other address that was tried, a line each. */
void ranks_objects_add(struct buf *out, const struct told *told, const struct mesh_hosts *hosts);
