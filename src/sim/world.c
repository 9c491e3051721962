/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual time: it advances to the next planned event, or to the next moment that the feeder waits
 * for, whichever comes first.
 */
#include "sim/world.h"

#include <math.h>

#include "base/attr.h"
#include "sim/ideal.h"
#include "sim/world_impl.h"

enum {
    SPREAD_LOG2_MIN = 6
};

#define TIME_MAX_US (SIM_YEARS_MAX * 365ull * 86400 * 1000000)

void world_plan(struct sim *s, uint64_t delay_us, struct future future)
{
    future.at_us = s->now_us + MIN(delay_us, TIME_MAX_US);
    if (!heap_push(&s->heap, &future))
        s->out_of_memory = true;
}

void world_span(struct sim *s, enum sim_span_kind kind, uint32_t worker, uint64_t from_us,
                uint64_t item)
{
    uint64_t *const sums[] = {
        [SPAN_LOADING] = &s->result.loading_us,
        [SPAN_ITEM] = &s->result.busy_us,
        [SPAN_LOST] = &s->result.lost_us,
    };
    *sums[kind] += s->now_us - from_us;
    if (s->config.on_span)
        s->config.on_span(s->config.context, &(struct sim_span){.kind = kind,
                                                                .worker = worker,
                                                                .device = s->device_of[worker],
                                                                .from_us = from_us,
                                                                .to_us = s->now_us,
                                                                .item = item});
}

/* ---- the feeder ---- */

static void queue_add(struct sim *s, struct feed_event event)
{
    struct feed_event *last = s->n_queue > 0 ? &s->queue[s->n_queue - 1] : NULL;
    if (last && last->item + last->count == event.item) {
        last->count += event.count;
        return;
    }
    if (s->n_queue == s->queue_cap) {
        size_t cap = MAX(2 * s->queue_cap, (size_t)64);
        struct feed_event *queue = realloc(s->queue, cap * sizeof(*queue));
        if (!queue) {
            s->out_of_memory = true;
            return;
        }
        s->queue = queue;
        s->queue_cap = cap;
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): room beyond len means an array */
    s->queue[s->n_queue++] = event;
}

static void on_spawn(struct sim *s, const struct feed_action *action)
{
    actor_spawn(s, action->worker);
}

static void on_send(struct sim *s, const struct feed_action *action)
{
    actor_receive(s, action->worker, action->item, action->count);
}

static void on_end(struct sim *s, const struct feed_action *action)
{
    actor_end(s, action->worker);
}

static void on_terminate(struct sim *s, const struct feed_action *action)
{
    actor_terminate(s, action->worker);
}

/* A result that is handed to the ledger counts as committed at once, as in a real run. */
static void on_settle(struct sim *s, const struct feed_action *action)
{
    uint64_t count = action->kind == ACT_COMMIT ? action->count : 1;
    queue_add(s, (struct feed_event){.kind = EV_COMMITTED, .item = action->item, .count = count});
    s->result.makespan_us = s->now_us;
}

static void on_drop(struct sim *s, const struct feed_action *action)
{
    (void)action;
    s->was_dropped = true;
}

static void on_halt(struct sim *s, const struct feed_action *action)
{
    s->result.halt = action->detail;
    s->result.makespan_us = s->now_us;
}

static void on_over(struct sim *s, const struct feed_action *action)
{
    (void)action;
    s->is_over = true;
}

static void on_nothing(struct sim *s, const struct feed_action *action)
{
    (void)s, (void)action;
}

static void (*const action_handlers[])(struct sim *s, const struct feed_action *action) = {
    [ACT_SPAWN] = on_spawn,         [ACT_SEND] = on_send,      [ACT_END] = on_end,
    [ACT_TERMINATE] = on_terminate, [ACT_BATCH] = on_nothing,  [ACT_COMMIT] = on_settle,
    [ACT_DROP] = on_drop,           [ACT_REVOKE] = on_nothing, [ACT_SET_ASIDE] = on_settle,
    [ACT_BENCH] = on_nothing,       [ACT_NOTE] = on_nothing,   [ACT_COMPLETE] = on_nothing,
    [ACT_HALT] = on_halt,           [ACT_OVER] = on_over,      [ACT_RETURN] = on_nothing,
    [ACT_VACATED] = on_nothing,
};

static void step_one(struct sim *s, struct feed_event *event)
{
    const struct feed_action *actions;
    event->now_ms = s->now_us / 1000;
    size_t n_actions = feed_step(s->feed, event, &actions);
    s->result.steps++;
    if (s->config.on_step)
        s->config.on_step(s->config.context, s->feed, event, actions, n_actions);
    for (size_t i = 0; i < n_actions; i++)
        action_handlers[actions[i].kind](s, &actions[i]);
}

void world_step(struct sim *s, struct feed_event event)
{
    step_one(s, &event);
    for (size_t i = 0; i < s->n_queue; i++) {
        struct feed_event next = s->queue[i];
        step_one(s, &next);
    }
    s->n_queue = 0;
}

/* ---- setting it up ---- */

/*
 * The same spread as in a real run, but no more than these items need, because small worlds are
 * made by the million.
 */
static uint32_t spread_log2_for(const struct sim *s)
{
    uint32_t log2 = SPREAD_LOG2_MIN, usual = feed_spread_log2(s->n_workers);
    while (log2 < usual && 1ull << log2 < s->config.n_items)
        log2++;
    return log2;
}

static void feed_config_fill(struct sim *s)
{
    struct feed_config *config = &s->feed_config;
    *config = s->config.feed;
    config->n_workers = s->n_workers;
    config->n_devices = s->config.n_devices;
    config->device_of = s->device_of;
    config->seed = s->config.seed;
    config->order = s->order;
    config->n_order = s->order ? s->config.n_items : 0;
    if (config->spread_log2 == 0)
        config->spread_log2 = spread_log2_for(s);
}

/* Plans when each device will be lost: exponentially distributed, so that age has no effect. */
static void losses_plan(struct sim *s)
{
    double mean_us = s->config.faults.device_hours * 3600e6;
    for (uint32_t d = 0; mean_us > 0 && d < s->config.n_devices; d++)
        world_plan(s, (uint64_t)MIN(-mean_us * log(1 - rng_unit(&s->rng)), (double)TIME_MAX_US),
                   (struct future){.kind = FUTURE_DEVICE_LOST, .worker = d});
}

uint32_t sim_concurrency(const struct sim_config *config)
{
    return config->kind == SIM_CHANNEL ? MAX(config->concurrency, 1u) : 1;
}

struct sim *sim_new(const struct sim_config *config)
{
    struct sim *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->config = *config;
    s->concurrency = sim_concurrency(config);
    s->n_workers = config->n_devices * MAX(config->workers_per_device, 1u);
    ASSERT(s->n_workers > 0 && s->n_workers <= SIM_WORKERS_MAX);
    s->rng.state = item_seed(config->seed, UINT64_MAX / 2);
    s->hands_free = HAND_NONE;
    s->actors = calloc(s->n_workers, sizeof(*s->actors));
    s->device_of = calloc(s->n_workers, sizeof(*s->device_of));
    if (config->sizes_are_known)
        s->order = ideal_order_new(&config->service, config->seed, config->n_items);
    if (!s->actors || !s->device_of || (config->sizes_are_known && !s->order)) {
        sim_free(s);
        return NULL;
    }
    for (uint32_t w = 0; w < s->n_workers; w++)
        s->device_of[w] = w % config->n_devices;
    feed_config_fill(s);
    s->feed = feed_new(&s->feed_config);
    if (!s->feed) {
        sim_free(s);
        return NULL;
    }
    losses_plan(s);
    return s;
}

void sim_free(struct sim *s)
{
    if (!s)
        return;
    feed_free(s->feed);
    heap_release(&s->heap);
    free(s->actors);
    free(s->device_of);
    free(s->order);
    free(s->hands);
    free(s->queue);
    free(s);
}

/* ---- running it ---- */

static void happen(struct sim *s, const struct future *f)
{
    if (f->kind == FUTURE_MEM_BACK) {
        world_step(s, (struct feed_event){.kind = EV_MEM_BACK, .worker = f->worker});
    } else if (f->kind == FUTURE_DEVICE_LOST) {
        s->result.devices_lost++;
        world_step(s, (struct feed_event){.kind = EV_DEVICE_LOST, .worker = f->worker});
    } else {
        actor_future(s, f);
    }
}

/*
 * Runs the next planned event, or the feeder's timer if that is sooner. False if neither is left.
 */
static bool go_on(struct sim *s)
{
    uint64_t wake_ms = feed_next_ms(s->feed), next_us = heap_next_us(&s->heap);
    if (wake_ms == UINT64_MAX && next_us == UINT64_MAX)
        return false;
    if (wake_ms != UINT64_MAX && wake_ms * 1000 < next_us) {
        s->now_us = MAX(s->now_us, wake_ms * 1000);
        world_step(s, (struct feed_event){.kind = EV_TICK});
        return true;
    }
    struct future f = heap_pop(&s->heap);
    s->now_us = f.at_us;
    happen(s, &f);
    return true;
}

static enum sim_end run_to_end(struct sim *s)
{
    while (!s->is_over && !s->out_of_memory) {
        if (s->config.steps_max > 0 && s->result.steps >= s->config.steps_max)
            return SIM_STEPS;
        if (s->now_us >= TIME_MAX_US)
            return SIM_YEARS;
        if (!go_on(s))
            return SIM_STUCK;
    }
    if (s->out_of_memory)
        return SIM_NO_MEMORY;
    return s->result.halt == HALT_NONE ? SIM_DONE : SIM_HALTED;
}

void sim_run(struct sim *s, struct sim_result *out)
{
    struct feed_counts counts;
    world_step(s, (struct feed_event){.kind = EV_INPUT, .count = s->config.n_items, .flag = true});
    s->result.end = run_to_end(s);
    feed_counts(s->feed, &counts);
    s->result.done = counts.done;
    s->result.aside = counts.aside;
    s->result.retries = counts.retries;
    s->result.reissued = counts.reissued;
    s->result.crashes = counts.crashes;
    *out = s->result;
}
