/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection to a host, for a run (hosts.h) and for a look (host_ask.h): the command of the transport, and the
 * request to the agent.
 */
#pragma once

#include "base/env_list.h"
#include "node/allocation.h"
#include "node/host_list.h"
#include "node/remote.h"

struct shell;

enum {
    HOST_TIMEOUT_MS = 30000,
    GIVE_UP_SLACK_MS = 1000, /* between the moments at which head and agent give each other up */
    HOST_LEAVE_MS = 5000,    /* for an agent to end in order */
    HOSTS_STARTING_MAX = 8   /* at once: more are refused by sshd's default MaxStartups */
};

/*
 * A connection to a host. The caller sets the first five members, which are borrowed; host_link_open() sets the
 * others.
 */
struct host_link {
    const struct host *host;
    struct bundles *bundles; /* of the program, for hosts where it is not installed */
    const char *job_name;    /* of the Slurm job to ask for */
    const struct remote_handlers *handlers;
    void *context;
    struct env_list command, environment; /* of the transport */
    struct node *node;                    /* not connected yet; node_close() it */
};
/* shell->node must be open. `job`: the job that "slurm" in the list stands for. ERR_USAGE. */
MUST_CHECK int host_link_open(struct shell *shell, const struct slurm_job *job,
                              const struct allocation_wish *wish, struct host_link *link,
                              struct err *err);
void host_link_release(struct host_link *link);
/*
 * How long after the loss of a host all processes that its agent has started have ended: the agent gives the head up,
 * perhaps later than the head the agent, and then ends its workers with `grace_ms`.
 */
uint64_t host_emptied_in_ms(const struct allocation_wish *wish, uint64_t grace_ms);
