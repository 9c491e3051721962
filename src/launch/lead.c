/* SPDX-License-Identifier: Apache-2.0
 *
 * The gang's events and actions, where the gang is here: on a machine alone, or on the one that leads the others.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "launch/launch_impl.h"

enum {
    WAIT_SAID_MS = 2000,
    MISSING_SAID_MS = 5000,
    MISSING_NAMED = 8,
    FAREWELL_MS = 5000, /* for the other machines to hear the end */
    EMPTIED_SLACK_MS = 1000,
    OWN_NODE = 0 /* whoever leads has the first number, so that rank 0 is here */
};

/* ---- the gang's actions ---- */

static void far_start(struct launch *launch, const struct rendezvous_start *part, uint32_t node,
                      uint32_t n_ranks)
{
    for (uint32_t i = 0; i < n_ranks; i++)
        launch->ranks[part->first_rank + i] =
            (struct rank){.launch = launch,
                          .number = part->first_rank + i,
                          .local_rank = i,
                          .host = xstrdup(launch->others.nodes[node].host)};
    rendezvous_order_start(launch->rendezvous, node, part);
}

/* Starts a node. For the first node of a generation, makes all its ranks; those of the generation before have ended. */
static void do_start(struct launch *launch, const struct gang_action *action)
{
    const struct gang_view view = gang_view(launch->gang);
    struct gang_member member;
    bool is_member = gang_member(launch->gang, action->node, &member);
    ASSERT(is_member);
    const struct rendezvous_start part = {.generation = view.generation,
                                          .n_restarts_max = (uint32_t)launch->request->restarts.n,
                                          .group_rank = member.group_rank,
                                          .n_members = view.n_members,
                                          .first_rank = member.first_rank,
                                          .world_size = view.world_size,
                                          .master_port = launch->master_port.port};
    if (member.group_rank == 0) {
        ranks_make(launch, view.world_size);
        if (view.generation > 0)
            logs_forget(launch, view.generation - 1);
    }
    if (launch->fleet)
        fleet_start(launch, action->node, &part, &launch->ranks[member.first_rank]);
    else if (action->node == OWN_NODE)
        machine_start(&launch->own, &part, &launch->ranks[member.first_rank]);
    else
        far_start(launch, &part, action->node, member.n_ranks);
}

static void do_end(struct launch *launch, const struct gang_action *action)
{
    const struct rendezvous_end how = launch_end(launch, action->flag);
    if (launch->fleet)
        fleet_end(launch, action->node, &how);
    else if (action->node == OWN_NODE)
        machine_end(&launch->own, &how);
    else
        rendezvous_order_end(launch->rendezvous, action->node, &how);
}

static void do_fail(struct launch *launch, const struct gang_action *action)
{
    (void)action;
    launch->has_said_wait = false;
}

static void do_retry(struct launch *launch, const struct gang_action *action)
{
    char pause[24];
    const char *why = !action->flag   ? ""
                      : launch->fleet ? ", when those of the lost host must have ended"
                                      : ", when those of the lost machine must have ended";
    duration_format(pause, action->pause_ms);
    report_make(launch);
    report_print(launch);
    log_add(shell_log(launch->shell), LOG_WARN, "launch",
            "all ranks start again in %s%s (restart %u of %lu)", pause, why,
            gang_view(launch->gang).n_restarts_used, launch->request->restarts.n);
    if (launch->rendezvous)
        rendezvous_say_retry(launch->rendezvous, action->pause_ms, buf_str(&launch->report));
}

static void do_over(struct launch *launch, const struct gang_action *action)
{
    (void)action;
    launch->is_over = true;
    if (gang_view(launch->gang).outcome == GANG_FAILED)
        report_make(launch);
}

static void actions_do(struct launch *launch, const struct gang_action *actions, size_t n)
{
    static void (*const handlers[])(struct launch *, const struct gang_action *) = {
        [GACT_START] = do_start, [GACT_END] = do_end,   [GACT_FAIL] = do_fail,
        [GACT_RETRY] = do_retry, [GACT_OVER] = do_over,
    };
    for (size_t i = 0; i < n; i++)
        handlers[actions[i].kind](launch, &actions[i]);
}

/* Events that come while actions are carried out are handled after all of these actions. */
void lead_tell(struct launch *launch, struct gang_event event)
{
    if (launch->events.len == launch->events.cap) {
        launch->events.cap = 2 * launch->events.cap + 16;
        launch->events.at =
            xrealloc(launch->events.at, launch->events.cap * sizeof(*launch->events.at));
    }
    launch->events.at[launch->events.len++] = event;
    if (launch->events.is_handled)
        return;
    launch->events.is_handled = true;
    for (size_t i = 0; i < launch->events.len; i++) {
        const struct gang_action *actions;
        struct gang_event next = launch->events.at[i];
        next.now_ms = shell_now(launch->shell);
        size_t n = gang_step(launch->gang, &next, &actions);
        actions_do(launch, actions, n);
    }
    launch->events.len = 0;
    launch->events.is_handled = false;
}

void lead_tell_exit(struct launch *launch, const struct rank *rank, uint32_t generation)
{
    const struct launch_restarts *restarts = &launch->request->restarts;
    int status = rank->status;
    lead_tell(launch, (struct gang_event){.kind = GEV_EXIT,
                                          .rank = rank->number,
                                          .generation = generation,
                                          .status = status,
                                          .flag = status > 0 && status < STATUSES_MAX &&
                                                  restarts->is_final[status]});
}

/* ---- the other machines ---- */

void lead_on_joined(void *context, const struct rendezvous_member *member)
{
    struct launch *launch = context;
    free(launch->others.nodes[member->node].host);
    launch->others.nodes[member->node].host = xstrdup(member->host);
    launch->others.nodes[member->node].is_here = true;
    launch->others.nodes[member->node].process = member->process;
    launch->others.nodes[member->node].grace_ms = member->grace_ms;
    launch->others.n_here++;
    launch->others.any_came = true;
    if (launch->others.farewell)
        rendezvous_say_over(launch->rendezvous, launch->others.farewell);
    log_add(shell_log(launch->shell), LOG_INFO, "launch", "machine %u is here: %s, %u rank%s",
            member->node, member->host, member->n_ranks, plural(member->n_ranks));
    lead_tell(launch, (struct gang_event){
                          .kind = GEV_NODE_UP, .node = member->node, .count = member->n_ranks});
}

/*
 * When nothing is left of what a machine that has gone had started: it ends its ranks when it sees that this one is gone for
 * it. That may be only after a silence, which begins when this end closes the connection.
 */
static uint64_t emptied_ms(const struct launch *launch, const struct other *other, bool has_closed)
{
    uint64_t notice_ms = has_closed ? 0 : meeting_silence_ms(&launch->request->meeting);
    return shell_now(launch->shell) + notice_ms + other->grace_ms + EMPTIED_SLACK_MS;
}

bool lead_awaits(const struct launch *launch, uint32_t node)
{
    struct gang_member member = {0};
    bool any = false;
    (void)gang_member(launch->gang, node, &member);
    for (uint32_t i = 0; i < member.n_ranks; i++)
        any = any || gang_awaits(launch->gang, member.first_rank + i);
    return any;
}

/* Ranks of the muster that has gone may live. */
static void loss_note(const struct launch *launch, struct other *other, bool has_closed)
{
    bool is_only =
        shell_now(launch->shell) >= other->gone_ms || other->lost_process == other->process;
    other->lost_process = is_only ? other->process : 0;
    other->gone_ms = MAX(other->gone_ms, emptied_ms(launch, other, has_closed));
}

void lead_on_left(void *context, uint32_t node, const struct err *why, bool has_closed)
{
    struct launch *launch = context;
    struct other *other = &launch->others.nodes[node];
    if (lead_awaits(launch, node))
        loss_note(launch, other, has_closed);
    other->is_here = false;
    launch->others.n_here--;
    free(other->left);
    other->left = xstrdup(why->text);
    log_add(shell_log(launch->shell), launch->is_over ? LOG_INFO : LOG_WARN, "launch",
            "machine %u (%s) is gone: %s", node, other->host, why->text);
    lead_tell(launch,
              (struct gang_event){.kind = GEV_NODE_GONE, .node = node, .gone_ms = other->gone_ms});
}

void lead_on_empty(void *context, uint32_t node)
{
    struct launch *launch = context;
    struct other *other = &launch->others.nodes[node];
    if (shell_now(launch->shell) >= other->gone_ms || other->lost_process != other->process)
        return;
    other->gone_ms = 0;
    log_add(shell_log(launch->shell), LOG_WARN, "launch",
            "machine %u (%s) is back, and its old ranks have ended", node, other->host);
    lead_tell(launch, (struct gang_event){.kind = GEV_NODE_EMPTY, .node = node});
}

/* NULL: there is no such rank in this generation. */
static struct rank *rank_at(struct launch *launch, uint32_t node, uint32_t local_rank,
                            uint32_t generation)
{
    struct gang_member member;
    if (!gang_member(launch->gang, node, &member) || local_rank >= member.n_ranks ||
        generation != gang_view(launch->gang).generation)
        return NULL;
    return &launch->ranks[member.first_rank + local_rank];
}

void lead_on_stands(void *context, uint32_t node, const struct rendezvous_stand *stand)
{
    struct rank *rank = rank_at(context, node, stand->local_rank, stand->generation);
    if (!rank)
        return;
    rank->pid = (pid_t)stand->pid;
    rank->busy_percent = stand->busy_percent;
    watch_spoke(rank, stand->silent_ms);
    watch_stands(rank, &stand->stand);
}

void lead_on_where(void *context, uint32_t node, const struct rendezvous_where *where)
{
    struct rank *rank = rank_at(context, node, where->local_rank, where->generation);
    if (rank)
        watch_where(rank, where->text);
}

void lead_on_exited(void *context, uint32_t node, const struct rendezvous_exit *exit)
{
    struct launch *launch = context;
    struct rank *rank = rank_at(launch, node, exit->local_rank, exit->generation);
    if (!rank)
        return;
    rank->pid = (pid_t)exit->pid;
    rank->status = exit->status;
    rank->exit_signal = exit->exit_signal;
    rank->recorded_ms = (uint64_t)clock_wall_ms() - exit->recorded_ago_s * 1000;
    if (exit->message.len > 0 && !rank->message)
        rank->message = xstrndup(exit->message.at, exit->message.len);
    buf_reset(&rank->tail);
    buf_add_str(&rank->tail, exit->tail);
    watch_ended(rank);
    lead_tell_exit(launch, rank, exit->generation);
}

/* "rank 3 (pid 4711), rank 5 (pid 4713) and 2 others" */
static void living_add(const struct launch *launch, uint32_t n_alive, struct buf *out)
{
    uint32_t n_named = 0;
    for (uint32_t i = 0; i < launch->n_ranks && n_named < MISSING_NAMED; i++) {
        if (!gang_awaits(launch->gang, i))
            continue;
        n_named++;
        buf_add_text(out, n_named == 1 ? "" : n_named == n_alive ? " and " : ", ");
        rank_name_add(out, &launch->ranks[i]);
    }
    if (n_alive > n_named)
        buf_addf(out, " and %u other%s", n_alive - n_named, plural(n_alive - n_named));
}

/* Tells the user what happened while ranks end slowly. */
static void slow_end_say(struct launch *launch, const struct gang_view *view)
{
    static const char *const what[] = {[GANG_STATUS] = "failed",
                                       [GANG_LOST] = "was lost",
                                       [GANG_LINGERS] = "stays",
                                       [GANG_HUNG] = "stands still"};
    bool is_late = view->state == GANG_ENDS && view->first.cause != GANG_NO_CAUSE &&
                   view->first.generation == view->generation &&
                   shell_now(launch->shell) - view->first.at_ms >= WAIT_SAID_MS;
    if (!is_late || launch->has_said_wait)
        return;
    launch->has_said_wait = true;
    cleanup_buf struct buf living = BUF_INIT;
    char grace[24];
    living_add(launch, view->n_alive, &living);
    duration_format(grace, launch->request->grace_ms);
    log_add(
        shell_log(launch->shell), LOG_WARN, "launch",
        "%srank %u %s; waiting for %s to end; SIGKILL comes %s after SIGTERM (--shutdown-timeout)",
        view->first.cause == GANG_LOST ? "the machine of " : "", view->first.rank,
        what[view->first.cause], buf_text(&living), grace);
}

/* Adds the numbers of machines that have not come; nothing if machines have no numbers of their own. */
static void missing_add(const struct launch *launch, struct buf *out)
{
    const struct launch_meeting *meeting = &launch->request->meeting;
    uint32_t n_missing = 0;
    for (uint32_t i = 0; i < meeting->n_nodes_max; i++) {
        bool is_here = (i == OWN_NODE && !launch->fleet) || launch->others.nodes[i].is_here;
        if (is_here || ++n_missing > MISSING_NAMED)
            continue;
        buf_add_text(out, n_missing == 1 ? " (missing: " : ", ");
        if (launch->fleet)
            buf_add_text(out, launch->others.nodes[i].host);
        else
            buf_addf(out, "%u", i);
    }
    if (n_missing > MISSING_NAMED)
        buf_addf(out, " and %u other%s", n_missing - MISSING_NAMED,
                 plural(n_missing - MISSING_NAMED));
    if (n_missing > 0)
        buf_add_text(out, ")");
}

static void gathering_add(const struct launch *launch, struct buf *out)
{
    const struct launch_meeting *meeting = &launch->request->meeting;
    buf_addf(out, "%u of %u %s are here", gang_view(launch->gang).n_nodes_up, meeting->n_nodes_min,
             launch->fleet ? "hosts" : "machines");
    if (meeting->node != RENDEZVOUS_ANY_NODE || launch->fleet)
        missing_add(launch, out);
}

static void missing_say(struct launch *launch, const struct gang_view *view)
{
    uint64_t now_ms = shell_now(launch->shell);
    bool is_needed =
        view->state == GANG_GATHERS && view->n_nodes_up < launch->request->meeting.n_nodes_min;
    if (!is_needed || now_ms - launch->others.said_ms < MISSING_SAID_MS) {
        launch->others.said_ms = is_needed ? launch->others.said_ms : now_ms;
        return;
    }
    cleanup_buf struct buf text = BUF_INIT;
    gathering_add(launch, &text);
    if (launch->rendezvous && !launch->others.any_came)
        meeting_hint_add(launch, &text);
    launch->others.said_ms = now_ms;
    log_add(shell_log(launch->shell), LOG_WARN, "launch", "waiting: %s", buf_text(&text));
}

void lead_tick(struct launch *launch)
{
    rank_devices_settle(launch);
    lead_tell(launch, (struct gang_event){.kind = GEV_TICK});
    const struct gang_view view = gang_view(launch->gang);
    slow_end_say(launch, &view);
    if (launch->rendezvous || launch->fleet)
        missing_say(launch, &view);
}

/* ---- begin and end ---- */

int lead_begin(struct launch *launch, struct err *err)
{
    const struct launch_request *request = launch->request;
    const struct launch_meeting *meeting = &request->meeting;
    const struct gang_config config = {.n_nodes_min = meeting->n_nodes_min,
                                       .n_nodes_max = meeting->n_nodes_max,
                                       .n_nodes_awaited = meeting->n_nodes_awaited,
                                       .n_restarts = (uint32_t)request->restarts.n,
                                       .pause_ms = request->restarts.pause_ms,
                                       .healthy_ms = request->restarts.healthy_ms,
                                       .more_ms = meeting->more_ms,
                                       .join_ms = meeting->join_ms,
                                       .linger_ms = request->linger_ms};
    struct err why = {0};
    if (!launch->fleet &&
        master_port_take(&launch->master_port, (uint16_t)request->master_port, &why) != 0)
        return fail(err, ERR_UNAVAILABLE,
                    "%s; name another one, or leave --master-port and --rdzv-endpoint out for a "
                    "free one",
                    why.text);
    launch->gang = xalloc_checked(gang_new(&config), sizeof(config));
    launch->others.nodes = xcalloc(meeting->n_nodes_max, sizeof(*launch->others.nodes));
    launch->others.said_ms = shell_now(launch->shell);
    if (launch->fleet) {
        fleet_begin(launch);
        return 0;
    }
    lead_tell(launch, (struct gang_event){
                          .kind = GEV_NODE_UP, .node = OWN_NODE, .count = launch->own.n_ranks});
    return 0;
}

int lead_outcome(struct launch *launch, struct err *err)
{
    enum gang_outcome outcome = gang_view(launch->gang).outcome;
    cleanup_buf struct buf text = BUF_INIT;
    if (outcome == GANG_TOO_FEW) {
        gathering_add(launch, &text);
        return fail(err, ERR_UNAVAILABLE, "%s, and no more came in time", buf_text(&text));
    }
    if (outcome != GANG_FAILED)
        return 0;
    report_print(launch);
    return MAX(launch->failed_status, 1);
}

void lead_end(struct launch *launch, const struct rendezvous_over *over)
{
    uint64_t deadline_ms = shell_now(launch->shell) + FAREWELL_MS;
    launch->others.farewell = over;
    rendezvous_say_over(launch->rendezvous, over);
    while (launch->others.n_here > 0 && shell_now(launch->shell) < deadline_ms)
        shell_turn(launch->shell);
    launch->others.farewell = NULL;
}

void lead_kill(struct launch *launch)
{
    lead_tell(launch, (struct gang_event){.kind = GEV_STOP, .flag = true});
    for (uint32_t i = 0; launch->rendezvous && i < launch->request->meeting.n_nodes_max; i++)
        if (launch->others.nodes[i].is_here)
            lead_tell(launch, (struct gang_event){.kind = GEV_NODE_GONE, .node = i});
}

void lead_release(struct launch *launch)
{
    for (uint32_t i = 0; launch->others.nodes && i < launch->request->meeting.n_nodes_max; i++) {
        free(launch->others.nodes[i].host);
        free(launch->others.nodes[i].left);
    }
    free(launch->others.nodes);
    master_port_release(&launch->master_port);
    gang_free(launch->gang);
    free(launch->events.at);
}
