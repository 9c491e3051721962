/* SPDX-License-Identifier: Apache-2.0
 *
 * The machines of muster graph --dry-run --hosts: what a run would have of each.
 */
#pragma once

#include "graph/graph.h"
#include "opt/cmd.h"

/* ERR_UNAVAILABLE: fewer can be had than a run would begin with. 128 + a signal. Release *out in each case. */
MUST_CHECK int graph_hosts_ask(struct app *app, const struct allocation_wish *wish,
                               struct planned_hosts *out, struct err *err);
void graph_hosts_forget(struct planned_hosts *hosts);
