/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs, one file each.
 */
#pragma once

#include "opt/program.h"

/* NULL-terminated, in the order of `muster --help`. */
extern const struct cmd *const commands[];

extern const struct cmd cmd_gpus;
extern const struct cmd cmd_merge;
extern const struct cmd cmd_doctor;
extern const struct cmd cmd_map;
extern const struct cmd cmd_resume;
extern const struct cmd cmd_each;
extern const struct cmd cmd_launch;
extern const struct cmd cmd_fit;
extern const struct cmd cmd_plan;
extern const struct cmd cmd_bench;
extern const struct cmd cmd_submit;
extern const struct cmd cmd_ls;
extern const struct cmd cmd_status;
extern const struct cmd cmd_logs;
extern const struct cmd cmd_results;
extern const struct cmd cmd_hosts;
extern const struct cmd cmd_stop;
extern const struct cmd cmd_sim;
extern const struct cmd cmd_split;
extern const struct cmd cmd_graph;
extern const struct cmd cmd_graph_add;
extern const struct cmd cmd_graph_why;
extern const struct cmd cmd_graph_retry;
extern const struct cmd cmd_graph_hold;
extern const struct cmd cmd_graph_release;
extern const struct cmd cmd_graph_cancel;
struct manifest;

/* For `muster resume`: resumes the run in `dir`, which is a graph. */
MUST_CHECK int graph_resume(struct app *app, const char *dir, const struct manifest *manifest,
                            struct err *err);

/* Hidden: run by muster itself. */
extern const struct cmd cmd_agent;
extern const struct cmd cmd_meet;
extern const struct cmd cmd_rank_check;
extern const struct cmd cmd_job;
