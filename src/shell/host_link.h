/* SPDX-License-Identifier: Apache-2.0
 *
 * The way to a host, for a run (hosts.h) and for a look (host_ask.h): the command of the transport, and what the agent
 * is asked for.
 */
#pragma once

#include "base/env_list.h"
#include "node/allocation.h"
#include "node/host_list.h"
#include "node/remote.h"

struct shell;

enum {
    HOST_TIMEOUT_MS = 30000,
    GIVE_UP_SLACK_MS = 1000, /* a head and its agent do not lose each other at the same time */
    HOST_LEAVE_MS = 5000,    /* for an agent to end in order */
    HOSTS_STARTING_MAX = 8   /* at once: more are refused by sshd's default MaxStartups */
};

/* The way to a host. The first five are given, and borrowed; host_link_open sets the others. */
struct host_link {
    const struct host *host;
    struct bundles *bundles; /* of the program, for hosts where it is not installed */
    const char *job_name;    /* of a Slurm job that is asked for */
    const struct remote_handlers *handlers;
    void *context;
    struct env_list command, environment; /* of the transport */
    struct node *node;                    /* not connected yet; node_close() it */
};
/* shell->node must be open. `job`: of "slurm" in the list. ERR_USAGE. */
MUST_CHECK int host_link_open(struct shell *shell, const struct slurm_job *job,
                              const struct allocation_wish *wish, struct host_link *link,
                              struct err *err);
void host_link_release(struct host_link *link);
/* After such a time, nothing is left of what the agent of a lost host has started: it has given the head up, perhaps
 * after the head it, and ended its workers with `grace_ms`. */
uint64_t host_emptied_in_ms(const struct allocation_wish *wish, uint64_t grace_ms);
