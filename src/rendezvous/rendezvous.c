/* SPDX-License-Identifier: Apache-2.0
 *
 * What both ends have.
 */
#include <errno.h>
#include <sodium.h>

#include "base/clock.h"
#include "base/console_text.h"
#include "base/xalloc.h"
#include "rendezvous/rendezvous_impl.h"

enum {
    WARNINGS_A_SECOND = 4
};

struct rendezvous *rendezvous_new(const struct rendezvous_opts *opts, const struct side *side)
{
    struct rendezvous *r = xcalloc(1, sizeof(*r));
    ASSERT(opts->n_nodes_max >= 1 && opts->n_nodes_max <= RENDEZVOUS_NODES_MAX);
    ASSERT(sodium_init() >= 0);
    r->opts = *opts;
    r->side = side;
    r->opts.silence_limit_ms =
        MIN(MAX(opts->silence_limit_ms, (uint64_t)SILENCE_MIN_MS), (uint64_t)SILENCE_MAX_MS);
    r->opts.host = xstrdup(opts->host);
    r->opts.local_addr = opts->local_addr ? xstrdup(opts->local_addr) : NULL;
    r->opts.run_id = xasprintf("%.*s", RUN_ID_MAX - 1, opts->run_id);
    r->opts.version = xasprintf("%.*s", VERSION_MAX - 1, opts->version);
    r->key = proof_key_of(opts->token);
    r->opts.token = STR("");
    r->now_ms = r->ticked_ms = clock_now_ms();
    return r;
}

void rendezvous_let_go(struct rendezvous *r)
{
    ASSERT(r->n_open > 0);
    if (--r->n_open > 0 || !r->is_closed)
        return;
    free((char *)(uintptr_t)r->opts.host);
    free((char *)(uintptr_t)r->opts.local_addr);
    free((char *)(uintptr_t)r->opts.run_id);
    free((char *)(uintptr_t)r->opts.version);
    free(r->leader.members);
    buf_release(&r->follower.reasons);
    sodium_memzero(&r->key, sizeof(r->key));
    free(r);
}

uint64_t rendezvous_now(struct rendezvous *r)
{
    r->now_ms = MAX(r->now_ms, clock_now_ms());
    return r->now_ms;
}

void rendezvous_warn(struct rendezvous *r, const char *fmt, ...)
{
    char text[WARN_TEXT_MAX];
    uint64_t second = rendezvous_now(r) / 1000;
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (len >= (int)sizeof(text))
        text[console_text_cut((struct str){text, sizeof(text) - 1}, sizeof(text) - 2)] = '\0';
    if (second != r->warned.second)
        r->warned.n = 0;
    r->warned.second = second;
    if (r->is_closed || strcmp(text, r->warned.last) == 0 || r->warned.n++ >= WARNINGS_A_SECOND)
        return;
    memcpy(r->warned.last, text, sizeof(text));
    r->opts.handlers->warned(r->opts.context, text);
}

/* ---- the owner's calls ---- */

bool rendezvous_leads(const struct rendezvous *r)
{
    return r->side == &leader_side;
}

uint16_t rendezvous_port(const struct rendezvous *r)
{
    return rendezvous_leads(r) ? r->leader.port : r->opts.port;
}

/* After a pause of this process itself (it was stopped, or waited for a disk), the silence of others does not count. */
static void stall_forgive(struct rendezvous *r, uint64_t now_ms)
{
    bool has_stalled = now_ms - r->ticked_ms > r->opts.silence_limit_ms / 2;
    for (struct peer *peer = r->peers; peer && has_stalled; peer = peer->next)
        peer->link.heard_ms = now_ms;
    r->ticked_ms = now_ms;
}

void rendezvous_tick(struct rendezvous *r, uint64_t now_ms)
{
    r->now_ms = now_ms = MAX(r->now_ms, now_ms);
    stall_forgive(r, now_ms);
    for (struct peer *peer = r->peers; peer; peer = peer->next) {
        if (peer->state != PEER_MEMBER && now_ms - peer->begin_ms > GREETING_MS)
            peer_break(peer, ERR_UNAVAILABLE, "it did not say in time who it is");
        if (peer->state != PEER_CONNECTS)
            link_tick(&peer->link, now_ms);
        peer_check(peer);
    }
    r->side->tick(r);
}

void rendezvous_say_alive(struct rendezvous *r, uint64_t now_ms)
{
    r->ticked_ms = r->now_ms = now_ms = MAX(r->now_ms, now_ms);
    for (struct peer *peer = r->peers; peer; peer = peer->next)
        if (peer->state != PEER_CONNECTS)
            link_say_alive(&peer->link, now_ms);
}

void rendezvous_flush(struct rendezvous *r, uint64_t now_ms)
{
    r->now_ms = now_ms = MAX(r->now_ms, now_ms);
    for (struct peer *peer = r->peers; peer; peer = peer->next) {
        if (peer->state != PEER_CONNECTS)
            link_flush(&peer->link, now_ms);
        peer_check(peer);
    }
}

bool rendezvous_is_flushed(const struct rendezvous *r)
{
    for (const struct peer *peer = r->peers; peer; peer = peer->next)
        if (peer->state == PEER_MEMBER && !link_is_broken(&peer->link) &&
            peer->link.out.len > peer->link.n_sent)
            return false;
    return true;
}

void rendezvous_close(struct rendezvous *r)
{
    if (!r)
        return;
    r->is_closed = true;
    r->n_open++; /* until here */
    r->side->close(r);
    for (struct peer *peer = r->peers; peer; peer = peer->next) {
        peer_break(peer, ERR_STOPPED, "closed");
        peer_check(peer);
    }
    rendezvous_let_go(r);
}

/* ---- who leads ---- */

static struct rendezvous *closed(struct rendezvous *r)
{
    rendezvous_close(r);
    return NULL;
}

int rendezvous_lead(const struct rendezvous_opts *opts, struct rendezvous **out, struct err *err)
{
    struct err why = {0};
    *out = rendezvous_new(opts, &leader_side);
    int rc = leader_begin(*out, &why);
    if (rc)
        *out = closed(*out);
    if (rc && err)
        *err = why;
    return rc;
}

int rendezvous_meet(const struct rendezvous_opts *opts, const struct rendezvous_member *self,
                    struct rendezvous **out, struct err *err)
{
    struct address_list list;
    struct err why = {0};
    bool is_own = false;
    if (addresses_resolve(opts->host, opts->port, &list, NULL) == 0)
        for (size_t i = 0; i < list.len; i++)
            is_own |= address_is_own(&list.at[i]);
    is_own |= strcmp(opts->host, self->host) == 0; /* the endpoint may be the address of a NAT */
    int rc = is_own ? rendezvous_lead(opts, out, &why) : 0;
    if (is_own && why.sys != EADDRINUSE) {
        *err = why;
        return rc;
    }
    return rendezvous_follow(opts, self, out, err);
}
