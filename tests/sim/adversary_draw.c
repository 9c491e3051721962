/* SPDX-License-Identifier: Apache-2.0
 *
 * What the seed decides beforehand: swarm testing. A fault that always occurs hides others behind it, so
 * each world has its own choice of them.
 */
#include <string.h>

#include "base/xalloc.h"
#include "sim/adversary.h"

bool chance(struct world *w, double p)
{
    return rng_unit(&w->rng) < p;
}

static double some(struct world *w, double share_of_worlds, double rate)
{
    return chance(w, share_of_worlds) ? rate : 0;
}

static uint32_t below(struct world *w, uint64_t bound)
{
    return (uint32_t)rng_below(&w->rng, bound);
}

static void rates_draw(struct world *w)
{
    bool limited = w->config.item_limit_ms + w->config.silence_limit_ms > 0;
    w->rates = (struct rates){
        .fail = some(w, 0.4, 0.05),
        .crash = some(w, 0.4, 0.01),
        .stray = some(w, 0.1, 0.001),
        .no_start = some(w, 0.25, 0.1),
        .hang = limited ? some(w, 0.4, 0.003) : 0,
        .stall = some(w, 0.2, 0.005),
        .late = some(w, 0.5, 0.5),
        .early = some(w, 0.2, 0.01),
        .echo = some(w, 0.3, 0.05),
        .crash_after = chance(w, 0.1) ? 1 + below(w, 60) : 0,
    };
}

static void service_draw(struct world *w)
{
    static const struct dist services[] = {
        {.kind = DIST_CONSTANT},
        {.kind = DIST_UNIFORM, .spread = 0.5},
        {.kind = DIST_UNIFORM, .spread = 0.5},
        {.kind = DIST_LOG_NORMAL, .spread = 1},
        {.kind = DIST_PARETO, .spread = 1.5, .max_ms = 3000},
    };
    w->service = services[below(w, countof(services))];
    w->service.mean_ms = 1 + below(w, 50);
}

enum {
    SHARD_SALT = 0x5368,
    HOPELESS_SALT = 0x486f,
    STAGGER_SALT = 0x5747,
    GUESTS_SALT = 0x4775,
    HOSTS_SALT = 0x4873,
    HOSTS_MAX = 3,
    FROST_SALT = 0x4672,
    PERCENT_SALT = 0x5063,
    FROST_ONE_IN = 5, /* worlds */
    GUESTS_MAX = 3,   /* arrivals in a session */
    STAGGER_MAX_MS = 2000
};

/* What the command line says; it stays for all sessions. */
static void config_draw(struct world *w)
{
    w->config.spread_log2 = 5 + below(w, 6);
    w->config.retries = below(w, 4);
    w->config.batch = chance(w, 0.3) ? 1 + below(w, 12) : 0;
    w->config.fixed_batches = w->config.batch > 0 && chance(w, 0.3);
    w->config.no_reissue = chance(w, 0.3);
    w->config.loading_max = chance(w, 0.3) ? 1 + below(w, 2) : 0;
    w->config.item_limit_ms = chance(w, 0.3) ? 4000 : 0;
    w->config.end_limit_ms = 10000;
    w->config.start_limit_ms = chance(w, 0.3) ? 3000 : 0;
    w->config.silence_limit_ms = chance(w, 0.1) ? 9000 : 0;
    w->config.failures_max = chance(w, 0.1) ? 1 + below(w, 5) : 0;
    w->config.seed = w->seed;
    /* Not drawn from the stream: worlds without it stay what they were. */
    uint64_t stagger = mix64(w->seed ^ STAGGER_SALT);
    uint64_t percent = mix64(w->seed ^ PERCENT_SALT);
    w->config.failures_percent = percent % 8 == 0 ? 1 + (uint32_t)(percent / 8 % 30) : 0;
    w->config.stagger_ms = stagger % 5 == 0 ? 1 + stagger / 5 % STAGGER_MAX_MS : 0;
}

static void order_draw(struct world *w)
{
    w->order = xcalloc(w->n_items + 1, sizeof(*w->order));
    for (uint32_t i = 0; i < w->n_items; i++) {
        uint32_t j = below(w, i + 1ull);
        w->order[i] = w->order[j];
        w->order[j] = i;
    }
    w->config.order = w->order;
    w->config.n_order = w->n_items;
}

/* What earlier sessions did, before this world begins: runs of items with gaps between them. */
static void past_draw(struct world *w)
{
    for (uint64_t item = below(w, 5); item < w->n_items; item += 1 + below(w, 40)) {
        uint64_t end = item + 1 + below(w, 40);
        for (; item < MIN(end, w->n_items); item++)
            w->items[item] = (struct item){.outcome = 1, .is_durable = true};
    }
}

/* Filters at work on items of about the same size, and nothing else: how soon is kept what they do? */
static void steady_draw(struct world *w)
{
    static const enum actor_kind kinds[] = {A_FILTER, A_BUFFERED, A_BLOCKED};
    enum actor_kind kind = kinds[below(w, countof(kinds))];
    for (uint32_t i = 0; i < WORKERS_MAX; i++)
        w->actors[i].kind = kind;
    w->config = (struct feed_config){.spread_log2 = 10, .seed = w->seed};
    w->service = (struct dist){.kind = DIST_UNIFORM, .spread = 0.5, .mean_ms = 50 + below(w, 100)};
    w->n_items = DONE_MAX;
    w->items = xcalloc(w->n_items + 1, sizeof(*w->items));
    w->poison = w->hopeless = UINT64_MAX;
}

/* Workers on several hosts, one of which freezes at about the end of the data: copies must not be there too. */
static void frost_draw(struct world *w)
{
    enum actor_kind kind = chance(w, 0.5) ? A_CHANNEL : A_KEYED;
    for (uint32_t i = 0; i < WORKERS_MAX; i++)
        w->actors[i].kind = kind;
    w->frost.is_drawn = true;
    w->config = (struct feed_config){.spread_log2 = 10, .seed = w->seed};
    w->service = (struct dist){.kind = DIST_UNIFORM, .spread = 0.5, .mean_ms = 50 + below(w, 100)};
    w->concurrency = 2 + below(w, 4);
    w->n_items = 100 + below(w, 200);
    w->items = xcalloc(w->n_items + 1, sizeof(*w->items));
    w->poison = w->hopeless = UINT64_MAX;
}

void world_draw(struct world *w, uint64_t seed)
{
    static const enum actor_kind kinds[] = {A_CHANNEL,  A_CHANNEL, A_KEYED,  A_FILTER,
                                            A_BUFFERED, A_BATCHED, A_BLOCKED};
    w->seed = w->rng.state = seed;
    w->shows_rest = chance(w, 0.7);
    w->is_steady = chance(w, 0.03);
    if (mix64(seed ^ FROST_SALT) % FROST_ONE_IN == 0) {
        w->is_steady = false;
        frost_draw(w);
        return;
    }
    if (w->is_steady) {
        steady_draw(w);
        return;
    }
    w->n_items = chance(w, 0.1) ? below(w, 4) : 1 + below(w, 600);
    w->items = xcalloc(w->n_items + 1, sizeof(*w->items));
    config_draw(w);
    service_draw(w);
    w->concurrency = 1 + below(w, 40);
    w->commits_at_once = chance(w, 0.5);
    enum actor_kind kind = kinds[below(w, countof(kinds))];
    if (kind == A_BATCHED && w->config.batch == 0)
        kind = A_FILTER;
    /* Nor is this drawn from the stream. */
    if (kind == A_CHANNEL && mix64(seed ^ SHARD_SALT) % 3 == 0) {
        kind = A_SHARD;
        w->config.no_reissue = true;
    }
    for (uint32_t i = 0; i < WORKERS_MAX; i++)
        w->actors[i].kind = kind;
    bool is_calm = chance(w, 0.2);
    if (!is_calm) {
        rates_draw(w);
        w->oom_above = chance(w, 0.3) ? 1 + below(w, 8) : 0;
        double unfit = kind > A_FILTER && kind < A_KEYED ? 0 : some(w, 0.1, 0.05);
        if (unfit >
            0) /* where an unfit one stands among shifted answers, its shell counts, not it */
            w->rates.stray = 0;
        for (uint64_t i = 0; unfit > 0 && i < w->n_items; i++)
            w->items[i].is_unfit = chance(w, unfit);
    }
    w->poison = is_calm || chance(w, 0.6) ? UINT64_MAX : below(w, w->n_items + 1);
    uint64_t hopeless = mix64(seed ^ HOPELESS_SALT); /* nor this */
    w->hopeless = is_calm || kind != A_CHANNEL || hopeless % 3 > 0
                      ? UINT64_MAX
                      : (hopeless >> 8) % (w->n_items + 1);
    if (chance(w, 0.3))
        past_draw(w);
    if (!w->config.fixed_batches && chance(w, 0.2))
        order_draw(w);
}

/* ---- sessions ---- */

static void done_collect(struct world *w)
{
    w->config.done = w->done;
    w->config.n_done = 0;
    w->config.failed_before = 0;
    for (uint64_t i = 0; i < w->n_items; i++) {
        struct item *item = &w->items[i];
        item->is_lost = item->no_retry = false;
        item->worked = 0;
        if (!item->is_durable)
            item->outcome = 0;
        item->holders[0] = item->holders[1] = 0;
        w->config.failed_before += item->outcome == 2;
        if (!item->is_durable)
            continue;
        struct item_interval *last = w->config.n_done > 0 ? &w->done[w->config.n_done - 1] : NULL;
        if (last && last->first + last->count == i)
            last->count++;
        else
            w->done[w->config.n_done++] = (struct item_interval){i, 1};
    }
    ASSERT(w->config.n_done <= DONE_MAX);
}

void sets_make(struct world *w, uint32_t n_sets, uint32_t devices_per_set)
{
    w->n_devices = w->config.n_devices = n_sets * devices_per_set;
    w->n_workers = w->config.n_workers;
    w->config.n_workers_max = WORKERS_MAX;
    w->config.n_devices_max = DEVICES_MAX;
    for (uint32_t d = 0; d < w->config.n_devices; d++)
        w->first_of[d] = d % n_sets;
    w->config.first_of = devices_per_set > 1 ? w->first_of : NULL;
    for (uint32_t d = 0; d < w->config.n_devices; d++)
        w->host_of[d] = w->first_of[d] % MAX(w->n_hosts, 1u);
    w->config.host_of = w->host_of;
    for (uint32_t i = 0; i < w->config.n_workers; i++)
        w->device_of[i] = i % n_sets;
    w->config.device_of = w->device_of;
}

uint32_t host_of_worker(const struct world *w, uint32_t worker)
{
    return w->host_of[w->device_of[worker]];
}

void sets_reset(struct world *w)
{
    memset(w->device_is_benched, 0, sizeof(w->device_is_benched));
    memset(w->set_is_lost, 0, sizeof(w->set_is_lost));
    memset(w->set_is_awaited, 0, sizeof(w->set_is_awaited));
    memset(w->set_is_drained, 0, sizeof(w->set_is_drained));
    memset(w->set_may_be_ended, 0, sizeof(w->set_may_be_ended));
    memset(w->set_is_vacated, 0, sizeof(w->set_is_vacated));
    memset(w->device_is_lost, 0, sizeof(w->device_is_lost));
    memset(w->well_since_ms, 0xff, sizeof(w->well_since_ms)); /* UINT64_MAX each */
    memset(w->returned_ms, 0, sizeof(w->returned_ms));
    w->seats_are_awaited = false;
}

static struct rng sets_rng(const struct world *w)
{
    return (struct rng){.state = item_seed(w->seed, w->session)};
}

static void machine_draw(struct world *w)
{
    struct rng sets = sets_rng(w); /* its own, so that all else in a world is as without sets */
    uint64_t hosts = mix64(item_seed(w->seed, w->session) ^ HOSTS_SALT); /* apart as well */
    bool has_hosts = w->frost.is_drawn || hosts % 3 == 0;
    w->n_hosts = has_hosts ? 2 + (uint32_t)(hosts / 3 % (HOSTS_MAX - 1)) : 1;
    w->config.n_workers = 1 + below(w, w->is_steady ? 2 : 8);
    if (w->frost.is_drawn)
        w->config.n_workers += 2 * HOSTS_MAX; /* two or more on each host */
    uint32_t n_sets = chance(w, 0.3) ? (w->config.n_workers + 1) / 2 : w->config.n_workers;
    bool is_single = rng_unit(&sets) < 0.7;
    sets_make(w, n_sets, is_single ? 1 : 2 + (uint32_t)rng_below(&sets, SET_MAX - 1));
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        uint32_t life = w->actors[i].life;
        w->actors[i] = (struct actor){.kind = w->actors[i].kind, .life = life};
        w->actors[i].speed = !w->is_steady && !w->frost.is_drawn && chance(w, 0.2) ? 6.0 : 1.0;
    }
}

static uint32_t n_sets_of(const struct world *w)
{
    uint32_t n_sets = 0;
    for (uint32_t d = 0; d < w->n_devices; d++)
        n_sets += w->first_of[d] == d;
    return n_sets;
}

/*
 * Sets of devices that come, and some or all that are given back. Drawn apart, so that worlds without them stay what they
 * were. The last arrival ends the wait for further ones.
 */
static void guests_draw(struct world *w, uint64_t span_ms)
{
    struct rng guests = {.state = mix64(item_seed(w->seed, w->session) ^ GUESTS_SALT)};
    uint64_t n_arrivals = rng_below(&guests, GUESTS_MAX + 1), at_ms = 0;
    if (rng_below(&guests, 3) > 0)
        return;
    for (uint64_t i = 0; i < n_arrivals; i++) {
        at_ms += rng_below(&guests, span_ms / 2);
        later(w, at_ms,
              (struct future){.kind = F_ARRIVE,
                              .count = 1 + rng_below(&guests, SET_MAX),
                              .detail = i + 1 == n_arrivals});
    }
    w->seats_are_awaited = n_arrivals > 0;
    for (uint64_t i = rng_below(&guests, 2 * GUESTS_MAX); i > 0; i--)
        later(w, rng_below(&guests, 2 * span_ms),
              (struct future){.kind = F_DRAIN,
                              .worker = (uint32_t)rng_below(&guests, DEVICES_MAX),
                              .count = rng_below(&guests, 3) == 0});
    uint64_t all_ms = rng_below(&guests, 2) == 0 ? rng_below(&guests, span_ms) : UINT64_MAX;
    for (uint32_t set = 0; set < n_sets_of(w) && all_ms != UINT64_MAX; set++)
        later(w, all_ms, (struct future){.kind = F_DRAIN, .worker = set});
}

/* What comes from outside while the session goes on. */
static void outside_draw(struct world *w)
{
    uint64_t mean_ms = (uint64_t)w->service.mean_ms;
    uint64_t span_ms = 2 * mean_ms * w->n_items / w->config.n_workers + 2000;
    struct rng sets = sets_rng(w);
    uint32_t n_sets = n_sets_of(w);
    uint32_t devices_per_set = w->config.n_devices / n_sets;
    for (uint32_t set = 0; set < n_sets && chance(w, 0.2); set++) {
        uint32_t device = set + n_sets * (uint32_t)rng_below(&sets, devices_per_set);
        uint64_t with_host = rng_below(&sets, 3) == 0;
        later(w, below(w, span_ms),
              (struct future){.kind = F_LOST, .worker = device, .count = with_host});
    }
    guests_draw(w, span_ms);
    if (w->rates.echo > 0)
        later(w, below(w, span_ms), (struct future){.kind = F_ECHO});
    if (chance(w, 0.2))
        w->kill_at = below(w, chance(w, 0.5) ? 60 : 4 * w->n_items + 60);
    if (chance(w, 0.1))
        w->disk_full_at = below(w, w->n_items + 1);
    if (!chance(w, 0.1))
        return;
    later(w, below(w, span_ms), (struct future){.kind = F_STOP, .count = below(w, 2)});
    if (w->rates.hang > 0 || chance(w, 0.5)) /* somebody loses patience */
        later(w, span_ms + 60000, (struct future){.kind = F_STOP, .count = 1});
}

/* When so few items are open that some workers wait for work. */
static void freeze_draw(struct world *w)
{
    later(w, 0,
          (struct future){.kind = F_FREEZE,
                          .worker = below(w, w->config.n_workers),
                          .count = 1 + below(w, 2 * w->config.n_workers)});
}

void session_draw(struct world *w, bool is_last)
{
    w->heap.len = w->n_queue = 0;
    w->session_steps = w->writes = w->n_journal = 0;
    w->known = w->frontier = w->n_loading = 0;
    w->next_start_ms = 0;
    w->input_is_final = w->must_halt = false;
    w->is_over = w->is_complete = w->is_halted = w->was_killed = w->disk_is_full = false;
    w->halt = HALT_NONE;
    w->kill_at = w->disk_full_at = UINT64_MAX;
    sets_reset(w);
    done_collect(w);
    machine_draw(w);
    if (is_last || w->is_steady || w->frost.is_drawn)
        world_heal(w);
    else
        outside_draw(w);
    if (w->frost.is_drawn)
        freeze_draw(w);
    uint64_t known = w->order || w->frost.is_drawn ? w->n_items : below(w, w->n_items + 1);
    later(w, 0, (struct future){.kind = F_INPUT, .count = known});
}
