/* SPDX-License-Identifier: Apache-2.0
 *
 * The way to the other machines: who leads, and what is called when.
 */
#include "base/this_host.h"
#include "launch/launch_impl.h"
#include "version.h"

enum {
    SILENCE_MS = 30000
};

static void on_welcomed(void *context, uint32_t node)
{
    struct launch *launch = context;
    log_add(launch->shell.log, LOG_INFO, "launch", "this is machine %u; %s leads", node,
            launch->request->meeting.host);
}

static void on_warned(void *context, const char *text)
{
    struct launch *launch = context;
    log_add(launch->shell.log, LOG_WARN, "launch", "%s", text);
}

static const struct rendezvous_handlers handlers = {
    .joined = lead_on_joined,
    .exited = lead_on_exited,
    .stands = lead_on_stands,
    .where = lead_on_where,
    .left = lead_on_left,
    .welcomed = on_welcomed,
    .start = follow_on_start,
    .end = follow_on_end,
    .asked = follow_on_asked,
    .retry = follow_on_retry,
    .over = follow_on_over,
    .lost = follow_on_lost,
    .failed = follow_on_failed,
    .warned = on_warned,
};

int meeting_open(struct launch *launch, struct err *err)
{
    const struct launch_meeting *meeting = &launch->request->meeting;
    const struct rendezvous_opts opts = {.loop = &launch->shell.loop,
                                         .host = meeting->host,
                                         .port = meeting->port,
                                         .local_addr = meeting->local_addr,
                                         .run_id = launch->request->run_id,
                                         .token = meeting->token,
                                         .version = MUSTER_VERSION,
                                         .n_nodes_max = meeting->n_nodes_max,
                                         .silence_limit_ms = SILENCE_MS,
                                         .join_ms = meeting->join_ms,
                                         .handlers = &handlers,
                                         .context = launch};
    struct rendezvous_member self = {.node = meeting->node, .n_ranks = launch->own.n_ranks};
    host_name(self.host);
    switch (meeting->role) {
    case LAUNCH_LEADS:
        return rendezvous_lead(&opts, &launch->rendezvous, err);
    case LAUNCH_FOLLOWS:
        return rendezvous_follow(&opts, &self, &launch->rendezvous, err);
    case LAUNCH_BY_ENDPOINT:
        return rendezvous_meet(&opts, &self, &launch->rendezvous, err);
    }
    return 0;
}
