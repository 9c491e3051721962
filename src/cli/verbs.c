/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs.h"

const struct cmd *const commands[] = {
    &cmd_map,        &cmd_graph,         &cmd_launch,       &cmd_submit,
    &cmd_each,       &cmd_fit,           &cmd_bench,        &cmd_split,
    &cmd_merge,      &cmd_resume,        &cmd_gpus,         &cmd_doctor,
    &cmd_ls,         &cmd_status,        &cmd_logs,         &cmd_results,
    &cmd_hosts,      &cmd_graph_add,     &cmd_graph_why,    &cmd_graph_retry,
    &cmd_graph_hold, &cmd_graph_release, &cmd_graph_cancel, &cmd_stop,
    &cmd_sim,        &cmd_completion,    &cmd_agent,        &cmd_job,
    &cmd_rank_check, &cmd_meet,          &cmd_mdoc_options, NULL,
};
