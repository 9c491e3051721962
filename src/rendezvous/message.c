/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/message.h"

#include "base/end_signals.h"

enum {
    STATUS_MAX = 255,
    SIGNAL_MAX = 64,
    LEAVE_TEXT_MAX = 2000
};

static void require(struct wire_body *body, bool holds)
{
    if (!body->out && !holds)
        body->is_malformed = true;
}

/* The first bytes of a text, or its last. */
static struct str text_cut(struct str text, size_t max, bool is_end)
{
    size_t n_over = text.len > max ? text.len - max : 0;
    return text.at ? (struct str){text.at + (is_end ? n_over : 0), text.len - n_over} : STR("");
}

static void text(struct wire_body *body, struct str *text, bool is_end)
{
    if (body->out)
        *text = text_cut(*text, RENDEZVOUS_TEXT_MAX, is_end);
    wire_bytes(body, text, RENDEZVOUS_TEXT_MAX);
}

void message_version(struct wire_body *body, struct message_version *version)
{
    wire_u32(body, &version->protocol);
    wire_text(body, version->version, sizeof(version->version));
}

void message_challenge(struct wire_body *body, struct message_challenge *challenge)
{
    message_version(body, &challenge->version);
    wire_raw(body, challenge->nonce, NONCE_BYTES);
}

void message_join(struct wire_body *body, struct message_join *join)
{
    struct rendezvous_member *member = &join->member;
    message_version(body, &join->version);
    wire_text(body, join->run_id, sizeof(join->run_id));
    wire_u32(body, &member->node);
    wire_u32(body, &member->n_ranks);
    wire_text(body, member->host, sizeof(member->host));
    wire_u64(body, &member->process);
    wire_u64(body, &member->grace_ms);
    wire_u32(body, &join->n_nodes_max);
    wire_raw(body, join->nonce, NONCE_BYTES);
    require(body, member->n_ranks >= 1 && member->n_ranks <= RENDEZVOUS_RANKS_MAX);
    require(body, member->grace_ms <= RENDEZVOUS_GRACE_MAX_MS);
    require(body, join->n_nodes_max >= 1 && join->n_nodes_max <= RENDEZVOUS_NODES_MAX);
}

void message_welcome(struct wire_body *body, struct message_welcome *welcome)
{
    wire_u32(body, &welcome->node);
    wire_u64(body, &welcome->silence_limit_ms);
    require(body, welcome->node < RENDEZVOUS_NODES_MAX);
    require(body, welcome->silence_limit_ms >= SILENCE_MIN_MS &&
                      welcome->silence_limit_ms <= SILENCE_MAX_MS);
}

void message_proof(struct wire_body *body, struct proof *proof)
{
    wire_flag(body, &proof->is_there);
    if (proof->is_there)
        wire_raw(body, proof->bytes, sizeof(proof->bytes));
}

void message_refused(struct wire_body *body, struct message_refused *refused)
{
    wire_flag(body, &refused->is_final);
    wire_error(body, &refused->why);
}

void message_start(struct wire_body *body, struct rendezvous_start *start)
{
    uint32_t port = start->master_port;
    wire_u32(body, &start->generation);
    wire_u32(body, &start->n_restarts_max);
    wire_u32(body, &start->group_rank);
    wire_u32(body, &start->n_members);
    wire_u32(body, &start->first_rank);
    wire_u32(body, &start->world_size);
    wire_u32(body, &port);
    start->master_port = (uint16_t)port;
    require(body, port > 0 && port <= UINT16_MAX && start->n_members <= RENDEZVOUS_NODES_MAX &&
                      start->group_rank < start->n_members);
    require(body, start->world_size <= RENDEZVOUS_NODES_MAX * RENDEZVOUS_RANKS_MAX &&
                      start->first_rank < start->world_size);
}

void message_end(struct wire_body *body, struct rendezvous_end *end)
{
    wire_flag(body, &end->at_once);
    wire_u8(body, &end->signal);
    require(body, end->at_once || end_signal_is(end->signal));
}

void message_retry(struct wire_body *body, uint64_t *pause_ms, struct str *why)
{
    wire_u64(body, pause_ms);
    text(body, why, false);
}

void message_over(struct wire_body *body, struct rendezvous_over *over)
{
    wire_i32(body, &over->status);
    wire_flag(body, &over->is_of_rank);
    text(body, &over->text, false);
    require(body, over->status >= 0 && over->status <= STATUS_MAX);
}

void message_exit(struct wire_body *body, struct rendezvous_exit *exit)
{
    wire_u32(body, &exit->generation);
    wire_u32(body, &exit->local_rank);
    wire_u32(body, &exit->pid);
    wire_i32(body, &exit->status);
    wire_i32(body, &exit->exit_signal);
    wire_u64(body, &exit->recorded_ago_s);
    text(body, &exit->message, false);
    text(body, &exit->tail, true);
    require(body, exit->local_rank < RENDEZVOUS_RANKS_MAX && exit->pid <= INT32_MAX);
    require(body, exit->status >= 0 && exit->status <= STATUS_MAX && exit->exit_signal >= 0 &&
                      exit->exit_signal <= SIGNAL_MAX);
}

void message_stand(struct wire_body *body, struct rendezvous_stand *stand)
{
    wire_u32(body, &stand->generation);
    wire_u32(body, &stand->local_rank);
    wire_u32(body, &stand->pid);
    wire_i32(body, &stand->busy_percent);
    wire_u64(body, &stand->silent_ms);
    wire_stand(body, &stand->stand);
    require(body, stand->local_rank < RENDEZVOUS_RANKS_MAX && stand->pid <= INT32_MAX &&
                      stand->busy_percent >= -1 && stand->busy_percent <= 100);
}

void message_ask(struct wire_body *body, uint32_t *local_rank)
{
    wire_u32(body, local_rank);
    require(body, *local_rank < RENDEZVOUS_RANKS_MAX);
}

void message_where(struct wire_body *body, struct rendezvous_where *where)
{
    wire_u32(body, &where->generation);
    wire_u32(body, &where->local_rank);
    if (body->out)
        where->text = text_cut(where->text, NODE_WHERE_BYTES, false);
    wire_bytes(body, &where->text, NODE_WHERE_BYTES);
    require(body, where->local_rank < RENDEZVOUS_RANKS_MAX);
}

void message_leave(struct wire_body *body, struct str *why)
{
    if (body->out)
        *why = text_cut(*why, LEAVE_TEXT_MAX, false);
    wire_bytes(body, why, LEAVE_TEXT_MAX);
}
