/* SPDX-License-Identifier: Apache-2.0
 *
 * The command that starts an agent on a host and connects its standard streams to ours.
 */
#pragma once

#include "base/env_list.h"
#include "node/host_list.h"

struct launcher_opts {
    const char
        *via; /* --via: words, with {host} and {port}; NULL: srun for a node of a job, else ssh */
    const struct slurm_job *job;
    const char *slurm_args; /* options of srun for jobs of their own; NULL: a whole node each */
    const char *job_name;
    const char *agent_path; /* path of muster on the host; NULL: runs `sh` (node/bootstrap.h) */
};

/* Adds the words of the command and its environment, and NULL behind each (env_end); for srun, the environment has no
 * secrets. ERR_USAGE if `via` cannot be understood. */
MUST_CHECK int launcher_command(const struct launcher_opts *opts, const struct host *host,
                                struct env_list *out, struct env_list *env, struct err *err);
/*
 * Given how the command ended, and its last line: would it end so again if it were started at once? False if that is
 * not known.
 */
bool launcher_failure_lasts(int exit_status, const char *last_line);
/* Does that line say that the host's Slurm job is over? Then the host never comes back. */
bool launcher_host_is_over(const char *last_line);
