/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of muster graph --dry-run --hosts: the devices that a run would have on each.
 */
#pragma once

#include "graph/graph.h"
#include "opt/cmd.h"

/*
 * ERR_UNAVAILABLE: fewer hosts can be had than a run would begin with. A positive result is 128 + a
 * signal. Release *out in each case.
 */
MUST_CHECK int graph_hosts_ask(struct app *app, const struct allocation_wish *wish,
                               struct planned_hosts *out, struct err *err);
void graph_hosts_forget(struct planned_hosts *hosts);
