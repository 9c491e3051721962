/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/dag_play.h"

#include "base/attr.h"
#include "sim/heap.h"

enum {
    US_PER_MS = 1000
};
#define NEVER UINT64_MAX

/* Returns false if memory runs out. */
static bool starts_carry_out(const struct dag_play *play, struct future_heap *ends, uint64_t now_ms,
                             const struct dag_action *actions, size_t n_actions)
{
    for (size_t i = 0; i < n_actions; i++) {
        uint32_t job = actions[i].job;
        if (actions[i].kind != DACT_START)
            continue;
        struct dag_placement placement = dag_placement(play->dag, job);
        if (play->started)
            play->started(play->context, job, &placement, now_ms);
        struct dag_play_end end = play->draw(play->context, job, &placement);
        const struct future future = {.at_us = (now_ms + end.run_ms) * US_PER_MS,
                                      .item = job,
                                      .kind = end.end,
                                      .detail = end.device};
        if (!heap_push(ends, &future))
            return false;
    }
    return true;
}

static bool is_end_next(const struct dag_play *play, const struct future_heap *ends)
{
    uint64_t end_us = heap_next_us(ends), wake_ms = dag_wake_ms(play->dag);
    return end_us != NEVER && end_us / US_PER_MS <= wake_ms;
}

/* The next event while a job runs: the end of a job, or the time at which a waiting job is due. */
static struct dag_event next_event(const struct dag_play *play, struct future_heap *ends)
{
    if (!is_end_next(play, ends))
        return (struct dag_event){.kind = DEV_TICK, .now_ms = dag_wake_ms(play->dag)};
    struct future future = heap_pop(ends);
    return (struct dag_event){.kind = DEV_ENDED,
                              .now_ms = future.at_us / US_PER_MS,
                              .job = (uint32_t)future.item,
                              .end = (enum dag_end)future.kind,
                              .device = future.detail};
}

uint64_t dag_play(const struct dag_play *play)
{
    struct future_heap ends = {0};
    struct dag_event event = {.kind = DEV_TICK, .now_ms = play->from_ms};
    uint64_t last_ms = play->from_ms;
    for (;;) {
        const struct dag_action *actions;
        size_t n_actions = dag_step(play->dag, &event, &actions);
        if (event.kind == DEV_ENDED) {
            last_ms = event.now_ms;
            if (play->ended)
                play->ended(play->context, event.job, event.end, event.now_ms);
        }
        if (!starts_carry_out(play, &ends, event.now_ms, actions, n_actions)) {
            last_ms = NEVER;
            break;
        }
        if (ends.len == 0)
            break;
        event = next_event(play, &ends);
    }
    heap_release(&ends);
    return last_ms;
}
