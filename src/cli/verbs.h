/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs, one file each.
 */
#pragma once

#include "cli/cmd.h"

extern const struct cmd cmd_gpus;
extern const struct cmd cmd_merge;
extern const struct cmd cmd_doctor;
extern const struct cmd cmd_map;
extern const struct cmd cmd_resume;
extern const struct cmd cmd_ls;
extern const struct cmd cmd_status;
extern const struct cmd cmd_logs;
extern const struct cmd cmd_results;
extern const struct cmd cmd_stop;
extern const struct cmd cmd_sim;
extern const struct cmd cmd_split;
extern const struct cmd cmd_completion;
/* Hidden: run by muster itself, or by the build. */
extern const struct cmd cmd_device_helper;
extern const struct cmd cmd_mdoc_page;
