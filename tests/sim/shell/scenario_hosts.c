/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a run, and what befalls them. They are drawn apart from the rest of the scenario, and only for some
 * seeds: a run without hosts is the same with and without this file.
 */
#include <signal.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "node/remote.h"
#include "shell/hosts.h"
#include "sim/shell/fake_agent.h"

enum {
    WITH_HOSTS = 100,    /* thousandths of all seeds */
    GREETING_MS = 60000, /* an agent waits so long for muster's hello */
    LEAVE_SLACK_MS = 10000,
    CROWD_DEVICES = 4 /* of each host */
};

static uint64_t one_of(const uint64_t *values, size_t n)
{
    return values[below(n)];
}
#define ONE_OF(...) \
    one_of((const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void link_draw(const struct scenario_hosts *hosts, struct scenario_link *link)
{
    *link = (struct scenario_link){.latency_us = ONE_OF(50, 500, 5000, 50000, 300000),
                                   .bytes_per_ms = ONE_OF(100, 10000, 1000000, 1000000),
                                   .start_ms = ONE_OF(1, 1, 50, hosts->timeout_ms / 4),
                                   .room_bytes = ONE_OF(4096, 65536, 65536, 1 << 20),
                                   .has_banner = chance(200)};
    link->latency_us = MIN(link->latency_us, hosts->timeout_ms * 1000 / 10);
    link->jitter_us = chance(500) ? 0 : link->latency_us * between(1, 5);
    link->jitter_us = MIN(link->jitter_us, hosts->timeout_ms * 1000 / 10);
    /* Hours apart, ahead or behind, as monotonic clocks are. */
    link->clock_ahead_ms = chance(300) ? 0 : (int64_t)below(20000000) - 900000;
}

/* Shorter and longer than the time after which a silent end is given up. */
static uint64_t length_draw(const struct scenario_hosts *hosts)
{
    switch (below(5)) {
    case 0:
        return 1 + below(300);
    case 1:
        return hosts->timeout_ms / 2 + below(hosts->timeout_ms / 2);
    case 2:
        return hosts->timeout_ms + below(500);
    case 3:
        return hosts->timeout_ms * between(1, 4);
    default:
        return 1 + below(20000);
    }
}

static void trouble_draw(struct scenario_hosts *hosts, struct trouble *trouble)
{
    *trouble = (struct trouble){.kind = (enum trouble_kind)below(TROUBLE_KINDS),
                                .host = (uint32_t)between(1, hosts->n),
                                .at_ms = below(ONE_OF(100, 2000, 8000))};
    trouble->until_ms = trouble->at_ms + length_draw(hosts);
    bool may_last = trouble->kind == TROUBLE_CUT || trouble->kind == TROUBLE_DOWN;
    if (may_last && chance(60))
        trouble->until_ms = UINT64_MAX;
}

static void troubles_draw(struct scenario_hosts *hosts)
{
    hosts->n_troubles = chance(700) ? (uint32_t)between(1, TROUBLES_MAX) : 0;
    if (chance(500))
        hosts->n_troubles = MIN(hosts->n_troubles, 2u);
    for (uint32_t i = 0; i < hosts->n_troubles; i++)
        trouble_draw(hosts, &hosts->troubles[i]);
    if (hosts->n_troubles > 1 && chance(200)) /* all of one host */
        for (uint32_t i = 1; i < hosts->n_troubles; i++)
            hosts->troubles[i].host = hosts->troubles[0].host;
}

void hosts_draw(uint64_t seed, struct scenario *scene)
{
    struct scenario_hosts *hosts = &scene->hosts;
    world.rng = (struct rng){mix64(seed ^ 0x7057f4a17057f4a1u)};
    hosts->n = 0;
    if (!world.all_have_hosts && !chance(WITH_HOSTS))
        return;
    hosts->n = chance(15) ? 64 : (uint32_t)between(1, 1 + below(8));
    hosts->has_local = chance(300);
    hosts->timeout_ms = ONE_OF(1000, 2000, 5000, 30000);
    for (uint32_t host = 1; host <= hosts->n; host++)
        link_draw(hosts, &hosts->links[host]);
    scene->lost_host = (uint32_t)between(hosts->has_local ? 0 : 1, hosts->n);
    troubles_draw(hosts);
    for (uint32_t host = 1; host <= hosts->n;
         host++) /* drawn apart: what follows stays as it was */
        hosts->links[host].is_in_job = mix64(seed * HOSTS_MAX_SIM + host) & 1;
    /* A grace period longer than a host is waited for would only make the run long. */
    scene->run_limit_ms = 0;
}

void crowd_draw(struct scenario *scene)
{
    const struct scenario_link link = {
        .latency_us = 500, .bytes_per_ms = 1000000, .start_ms = 20, .room_bytes = 65536};
    *scene = (struct scenario){.kind = KIND_CHANNEL,
                               .is_json = true,
                               .n_devices = CROWD_DEVICES,
                               .devices_per_worker = 1,
                               .workers_per_device = 1,
                               .n_items = world.crowd * CROWD_DEVICES,
                               .credits = 1,
                               .load_ms = 1000,
                               .item_ms = 2000,
                               .grace_ms = 1000,
                               .disk_ms = 5,
                               .pipe_bytes = 65536,
                               .cut_bytes = 100000,
                               .hosts = {.n = world.crowd, .timeout_ms = 30000}};
    scene->n_items = MIN(scene->n_items, (uint32_t)ITEMS_MAX);
    scene->n_seats = world.crowd * CROWD_DEVICES;
    for (uint32_t host = 1; host <= world.crowd; host++)
        scene->hosts.links[host] = link;
}

void hosts_print(const struct scenario *scene, FILE *out)
{
    static const char *const kinds[] = {"cut off", "reset",   "agents killed", "agents get TERM",
                                        "down",    "spoiled", "narrow"};
    const struct scenario_hosts *hosts = &scene->hosts;
    if (hosts->n == 0)
        return;
    fprintf(out, "%u hosts%s, given up after %lu ms\n", hosts->n,
            hosts->has_local ? " and this machine" : "", hosts->timeout_ms);
    for (uint32_t host = 1; host <= MIN(hosts->n, 8u); host++) {
        const struct scenario_link *link = &hosts->links[host];
        fprintf(out,
                "host %u: latency %lu us + %lu, %lu bytes/ms, starts in %lu ms, room %zu, clock "
                "%+ld ms%s%s\n",
                host, link->latency_us, link->jitter_us, link->bytes_per_ms, link->start_ms,
                link->room_bytes, link->clock_ahead_ms, link->has_banner ? ", banner" : "",
                link->is_in_job ? ", a job" : "");
    }
    for (uint32_t i = 0; i < hosts->n_troubles; i++)
        fprintf(out, "host %u: %s from %lu to %lu ms\n", hosts->troubles[i].host,
                kinds[hosts->troubles[i].kind], hosts->troubles[i].at_ms,
                hosts->troubles[i].until_ms);
}

char *hosts_words_new(void)
{
    struct buf words = BUF_INIT;
    for (uint32_t host = 1; host <= world.scene.hosts.n; host++)
        buf_addf(&words, "%sh%u", words.len > 0 ? "," : "", host);
    if (world.scene.hosts.has_local)
        buf_add_text(&words, ",local");
    return buf_steal(&words);
}

/* ---- troubles ---- */

bool has_troubles(void)
{
    return world.session < 2 && world.scene.hosts.n_troubles > 0;
}

bool is_in_trouble(uint32_t host, enum trouble_kind kind)
{
    return trouble_until_ms(host, kind) > 0;
}

uint64_t trouble_until_ms(uint32_t host, enum trouble_kind kind)
{
    uint64_t until_ms = 0, now_ms = world_ms();
    for (uint32_t i = 0; has_troubles() && i < world.scene.hosts.n_troubles; i++) {
        const struct trouble *trouble = &world.scene.hosts.troubles[i];
        if (trouble->host == host && trouble->kind == kind && now_ms >= trouble->at_ms &&
            now_ms < trouble->until_ms)
            until_ms = MAX(until_ms, trouble->until_ms);
    }
    return until_ms;
}

bool may_have_been_left(uint32_t host)
{
    bool was_told = false;
    for (uint32_t i = 0; has_troubles() && i < world.scene.hosts.n_troubles; i++) {
        const struct trouble *trouble = &world.scene.hosts.troubles[i];
        was_told |=
            trouble->host == host && trouble->kind == TROUBLE_TERM && world_ms() >= trouble->at_ms;
    }
    return was_told && world.scene.hosts.links[host].is_in_job;
}

static void job_ends(void *context, uint64_t argument)
{
    struct place *place = context;
    (void)argument;
    if (place->state == PLACE_SLEEPS)
        place_kill(place);
}

static void agent_term(struct place *place, const struct trouble *trouble)
{
    place_signal(place, SIGTERM);
    if (world.scene.hosts.links[place->host].is_in_job)
        after_ms(trouble->until_ms - trouble->at_ms, job_ends, place, 0);
}

static void trouble_begin(void *context, uint64_t argument)
{
    const struct trouble *trouble = &world.scene.hosts.troubles[argument];
    (void)context;
    trace("trouble on host %u: %d", trouble->host, (int)trouble->kind);
    if (trouble->kind == TROUBLE_RESET)
        link_reset(trouble->host);
    if (trouble->kind == TROUBLE_DOWN) {
        places_down(trouble->host);
        link_down(trouble->host);
    }
    for (struct place *place = places(); place; place = place->next)
        if (place->host == trouble->host && trouble->kind == TROUBLE_KILLED)
            place_kill(place);
        else if (place->host == trouble->host && trouble->kind == TROUBLE_TERM)
            agent_term(place, trouble);
}

void troubles_begin(void)
{
    for (uint32_t i = 0; has_troubles() && i < world.scene.hosts.n_troubles; i++)
        after_ms(world.scene.hosts.troubles[i].at_ms, trouble_begin, NULL, i);
}

/* ---- the end ---- */

/* An agent whose link is dead notices it, and then its workers have their grace period; so do the guards of one that was
 * killed. */
void hosts_await_end(void)
{
    const struct scenario *scene = &world.scene;
    uint64_t limit_ms = MAX(scene->hosts.timeout_ms, (uint64_t)GREETING_MS) + scene->grace_ms +
                        scene->teardown_ms + LEAVE_SLACK_MS;
    uint64_t deadline_ns = world.now_ns + limit_ms * 1000000;
    while ((agents_alive() > 0 || workers_alive() > 0) && world.now_ns < deadline_ns &&
           future_next_ns() != UINT64_MAX) {
        world.now_ns = MAX(world.now_ns, future_next_ns());
        futures_run();
    }
    if (agents_alive() > 0 || workers_alive() > 0)
        broken("%lu ms after muster's end, %u agents and %u workers are still there on hosts",
               limit_ms, agents_alive(), workers_alive());
}
