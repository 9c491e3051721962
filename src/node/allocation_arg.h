/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of devices and hosts, for every verb that starts workers, and those of hosts for verbs that look. `at`
 * is the offset of struct allocation_wish in the request.
 */
#pragma once

#include "node/allocation.h"
#include "node/environment.h"

/* clang-format off */
#define VIA_OPT(at) {OPT_TEXT, 0, "via", "COMMAND", "how to reach a host: a command with {host} that connects its standard streams to a program there (default ssh; srun for nodes of a Slurm job)", (at) + offsetof(struct allocation_wish, via), .needs = "hosts"}
#define AGENT_PATH_OPT(at) {OPT_TEXT, 0, "agent-path", "PATH", "where muster is installed on the hosts (default: it is sent to those that lack it)", (at) + offsetof(struct allocation_wish, agent_path), .needs = "hosts"}

#define HOST_LIST_OPTS(at)                                                                                             \
    {OPT_DURATION, 0, "wait", "DURATION", "longest time to wait for devices to become free (default: no wait)", (at) + offsetof(struct allocation_wish, wait_ms)}, \
    {OPT_TEXT, 0, "hosts", "LIST", "machines to use, named as for ssh: node1,user@node2:2222; node1=0-3: only these devices of node1; @FILE: a file with one host a line; slurm: the nodes of this Slurm job; slurm:4: four Slurm jobs of one node each; local: this machine, which takes part only if it is named", (at) + offsetof(struct allocation_wish, hosts)}, \
    VIA_OPT(at), \
    {OPT_TEXT, 0, "slurm-args", "OPTIONS", "options of srun for the jobs of slurm:N, such as '--gpus=8 --time=8:00:00' (default --exclusive: the whole node)", (at) + offsetof(struct allocation_wish, slurm_args), .needs = "hosts"}, \
    AGENT_PATH_OPT(at), \
    {OPT_DURATION, 0, "host-timeout", "DURATION", "a host that has sent nothing for this time counts as lost: its agent ends its workers, and muster tries to reach it again (default 30s, at least 1s)", (at) + offsetof(struct allocation_wish, host_timeout_ms), .check = host_timeout_check}

#define ALLOCATION_OPTS(at)                                                                                            \
    {OPT_TEXT, 'g', "gpus", "SPEC", "devices: ids as 0,2,5-7; any:4; all; free; free:20GiB; a UUID; cpu:N (default: free, or CPU slots where there is no GPU)", (at) + offsetof(struct allocation_wish, gpus), .check = spec_check}, \
    {OPT_U64, 0, "gpus-per-worker", "N", "give each worker N devices that are near each other (default 1)", (at) + offsetof(struct allocation_wish, gpus_per_worker), 1, 64}, \
    {OPT_U64, 0, "workers-per-gpu", "N", "run N workers on each device (default 1)", (at) + offsetof(struct allocation_wish, workers_per_gpu), 1, 64}, \
    HOST_LIST_OPTS(at), \
    {OPT_U64, 0, "hosts-min", "N", "begin when at least N hosts can be reached (default 1)", (at) + offsetof(struct allocation_wish, hosts_min), 1, 4096}

/* The options of hosts for a verb that only looks at them. */
#define LOOK_OPTS(at)                                                                                                  \
    {OPT_TEXT, 0, "hosts", "LIST", "look at these machines: node1,user@node2:2222; node1=0-3: only these devices of node1; @FILE: a file with one host a line; slurm: the nodes of this Slurm job; local: this machine", (at) + offsetof(struct allocation_wish, hosts)}, \
    VIA_OPT(at), \
    AGENT_PATH_OPT(at), \
    {OPT_DURATION, 0, "host-timeout", "DURATION", "longest time to wait for the answer of a host (default 30s, at least 1s)", (at) + offsetof(struct allocation_wish, host_timeout_ms), .check = host_timeout_check}

/* The options of their environment; `at` is the offset of struct environment_wish. */
#define ENVIRONMENT_OPTS(at)                                                                                           \
    {OPT_TEXTS, 0, "env", "NAME[=VALUE]", "set an environment variable of the workers; NAME without a value sends the value that it has here to other hosts (may be repeated)", (at) + offsetof(struct environment_wish, env), .check = environment_entry_check}, \
    {OPT_TEXT, 0, "setup", "LINE", "a line for the shell that runs before each worker, in the same shell, such as 'source env.sh'; the shell is bash where there is one, else sh", (at) + offsetof(struct environment_wish, setup)}
/* clang-format on */
