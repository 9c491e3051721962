/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel would show of an invented worker that reads its input: node/local_input.c, with the truth at hand.
 */
#include "base/attr.h"
#include "sim/shell/fake_node.h"

enum {
    QUIET_MS = 200
};

void fake_ask_read(struct node_worker *worker, bool is_asked)
{
    fake_of(worker)->asks_read = is_asked;
}

void fake_ask_rest(struct node_worker *worker, uint64_t pause_max_ms)
{
    struct fake_worker *w = fake_of(worker);
    if (pause_max_ms != w->rest_pause_max_ms)
        w->rest_pause_ms = 0;
    w->rest_pause_max_ms = pause_max_ms;
}

void fake_ask_wait(struct node_worker *worker, bool is_asked)
{
    fake_of(worker)->asks_wait = is_asked;
}

static bool rests(const struct fake_worker *w)
{
    return fake_input() == STREAM_IN && !chance(world.scene.rates.unseen) && actor_waits(w) &&
           w->out[STREAM_OUT].len == 0;
}

static bool works(const struct fake_worker *w)
{
    return !chance(world.scene.rates.unseen) && (w->state == ACTOR_WORKS || w->state == ACTOR_DEAD);
}

static uint64_t worker_look(struct fake_worker *w, uint64_t now_ms)
{
    if (w->asks_read && w->has_read) {
        w->asks_read = false;
        w->base.handlers->input(w->base.context, INPUT_READ);
    }
    if (w->rest_pause_ms >= w->rest_pause_max_ms)
        return UINT64_MAX;
    if (w->rest_pause_ms == 0 || now_ms >= w->rest_look_ms) {
        w->rest_pause_ms = MAX(2 * w->rest_pause_ms, (uint64_t)1);
        w->rest_look_ms = now_ms + w->rest_pause_ms;
        if (rests(w)) {
            w->base.handlers->input(w->base.context, INPUT_RESTS);
            return UINT64_MAX;
        }
        if (works(w))
            w->base.handlers->input(w->base.context, INPUT_WORKS);
    }
    return w->rest_look_ms;
}

uint64_t fake_look(struct node *base)
{
    uint64_t next_ms = UINT64_MAX, now_ms = place_now_ns() / 1000000;
    struct fake *node = (struct fake *)base;
    for (struct fake_worker *w = node->workers; w && !node->is_held; w = w->next_there)
        if (w->is_started && !w->is_gone && !w->is_released)
            next_ms = MIN(next_ms, worker_look(w, now_ms));
    return next_ms;
}

static void wait_look(struct fake_worker *w)
{
    uint64_t now_ms = world_ms();
    bool has_unread = w->pipe.len > 0 || w->n_ignored > 0;
    if (!w->asks_wait || now_ms < w->wait_look_ms || now_ms < w->last_output_ms + QUIET_MS ||
        has_unread)
        return;
    if (chance(world.scene.rates.unseen)) {
        w->wait_look_ms = now_ms + 4 * QUIET_MS;
        w->base.handlers->input(w->base.context, INPUT_WAITS_PERHAPS);
    } else if (actor_waits(w)) {
        w->base.handlers->input(w->base.context, INPUT_WAITS);
    }
}

void fake_tick(struct node *base)
{
    struct fake *node = (struct fake *)base;
    for (struct fake_worker *w = node->workers; w && !node->is_held; w = w->next_there)
        if (w->is_started && !w->is_gone && !w->is_released)
            wait_look(w);
}
