/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of muster-kge, one file each.
 */
#pragma once

#include "opt/program.h"

extern const struct cmd cmd_kge_tracin;
extern const struct cmd cmd_kge_check;
extern const struct cmd cmd_kge_eval;
extern const struct cmd cmd_kge_export;
extern const struct cmd cmd_kge_filter;
extern const struct cmd cmd_kge_graph;
extern const struct cmd cmd_kge_train;
/* Not shown to users: tracin starts it. */
extern const struct cmd cmd_kge_spread_worker;
