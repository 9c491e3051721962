/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection to the other machines: which one leads, and the handlers of the rendezvous.
 */
#include "base/this_host.h"
#include "launch/launch_impl.h"
#include "rendezvous/address.h"
#include "version.h"

enum {
    SILENCE_MS = 30000
};

static void on_warned(void *context, const char *text)
{
    struct launch *launch = context;
    log_add(shell_log(launch->shell), LOG_WARN, "launch", "%s", text);
}

static const struct rendezvous_handlers handlers = {
    .joined = lead_on_joined,
    .exited = lead_on_exited,
    .empty = lead_on_empty,
    .stands = lead_on_stands,
    .where = lead_on_where,
    .left = lead_on_left,
    .welcomed = follow_on_welcomed,
    .start = follow_on_start,
    .end = follow_on_end,
    .asked = follow_on_asked,
    .retry = follow_on_retry,
    .over = follow_on_over,
    .lost = follow_on_lost,
    .failed = follow_on_failed,
    .warned = on_warned,
};

/* Is the endpoint's address on another machine? False also if that is not known. */
static bool endpoint_is_elsewhere(const struct launch *launch)
{
    struct address_list list;
    struct err err;
    bool is_known = launch->endpoint && lookup_is_done(launch->endpoint) &&
                    lookup_result(launch->endpoint, &list, &err) == 0;
    for (size_t i = 0; is_known && i < list.len; i++)
        if (address_is_own(&list.at[i]))
            return false;
    return is_known;
}

void meeting_hint_add(const struct launch *launch, struct buf *out)
{
    const struct launch_meeting *meeting = &launch->request->meeting;
    if (meeting->is_typed && endpoint_is_elsewhere(launch))
        buf_addf(
            out,
            "; this one is machine 0, but %s is no address of it: was --node-rank forgotten here?",
            meeting->host);
    else if (meeting->is_typed && meeting->n_nodes_max == 2)
        buf_add_text(out, "; the other one needs --node-rank 1, and an address of this machine as "
                          "--master-addr");
    else if (meeting->is_typed)
        buf_addf(
            out,
            "; each of the others needs a --node-rank of its own, from 1 to %u, and an address of "
            "this machine as --master-addr",
            meeting->n_nodes_max - 1);
    else if (meeting->node == RENDEZVOUS_ANY_NODE)
        buf_addf(out, "; the others need the same --rdzv-endpoint, and must reach port %u here",
                 meeting->port);
}

uint64_t meeting_silence_ms(const struct launch_meeting *meeting)
{
    return meeting->silence_ms ? meeting->silence_ms : SILENCE_MS;
}

int meeting_open(struct launch *launch, struct err *err)
{
    const struct launch_meeting *meeting = &launch->request->meeting;
    const struct rendezvous_opts opts = {.loop = shell_uv_loop(launch->shell),
                                         .host = meeting->host,
                                         .port = meeting->port,
                                         .local_addr = meeting->local_addr,
                                         .run_id = launch->request->run_id,
                                         .token = meeting->token,
                                         .version = MUSTER_VERSION,
                                         .n_nodes_max = meeting->n_nodes_max,
                                         .silence_limit_ms = meeting_silence_ms(meeting),
                                         .join_ms = meeting->join_ms,
                                         .handlers = &handlers,
                                         .context = launch};
    struct rendezvous_member self = {.node = meeting->node,
                                     .n_ranks = launch->own.n_ranks,
                                     .grace_ms =
                                         MIN(launch->request->grace_ms, RENDEZVOUS_GRACE_MAX_MS)};
    host_name(self.host);
    switch (meeting->role) {
    case LAUNCH_LEADS:
        launch->endpoint = meeting->is_typed ? lookup_begin(meeting->host, meeting->port) : NULL;
        return rendezvous_lead(&opts, &launch->rendezvous, err);
    case LAUNCH_FOLLOWS:
        return rendezvous_follow(&opts, &self, &launch->rendezvous, err);
    case LAUNCH_BY_ENDPOINT:
        return rendezvous_meet(&opts, &self, &launch->rendezvous, err);
    }
    return 0;
}
