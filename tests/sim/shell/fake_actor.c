/* SPDX-License-Identifier: Apache-2.0
 *
 * What an invented worker does with what it is given. An answer says which item it is for, so that the output can
 * be checked to the letter.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sim/shell/fake_node.h"

enum {
    FAILING_TIMES = 8 /* what fails each time does so after a limit of its own */
};

static void item_through(void *context, uint64_t argument);

static bool is_filter(void)
{
    return world.scene.kind == KIND_LINES || world.scene.kind == KIND_BLOCKS;
}

/* ---- answers ---- */

static void held_print(struct fake_worker *w)
{
    if (w->held.len == 0)
        return;
    fake_print(w, STREAM_OUT, buf_str(&w->held));
    buf_reset(&w->held);
    w->n_held = 0;
}

/* Before what it holds back, or behind it. */
static void keyed_answer(struct fake_worker *w, uint32_t item)
{
    struct buf line = BUF_INIT;
    buf_addf(&line, "{\"item\":%u,\"r\":%u}\n", item, item);
    if (chance(500)) {
        buf_add(&line, w->held.at, w->held.len);
        buf_reset(&w->held);
    }
    buf_add(&w->held, line.at, line.len);
    buf_release(&line);
}

static void line_answer(struct fake_worker *w, uint32_t item)
{
    if (chance(world.scene.rates.babbles))
        buf_add_text(&w->held, "a banner of a library\n");
    if (world.scene.is_keyed)
        keyed_answer(w, item);
    else
        buf_addf(&w->held, world.scene.is_json ? "{\"r\":%u}\n" : "R%u\n", item);
    w->n_held++;
    if (world.scene.kind == KIND_LINES || w->n_held >= world.scene.block)
        held_print(w);
}

/* {"kind":number}, or with more behind the number. */
static void message(struct fake_worker *w, const char *kind, uint32_t number, const char *more)
{
    char text[128];
    int len = snprintf(text, sizeof(text), "{\"%s\":%u%s}\n", kind, number, more);
    fake_print(w, STREAM_CHANNEL, (struct str){text, (size_t)len});
}

static void message_answer(struct fake_worker *w, uint32_t item)
{
    enum item_fate fate = world.scene.fates[item];
    bool is_first = world.truth->worked[item] == 1;
    bool fails = fate == FATE_FAILS || (fate == FATE_FAILS_ONCE && is_first) ||
                 (fate == FATE_BAD_MESSAGE && is_first);
    world.truth->faults[item] += fails;
    char result[48];
    snprintf(result, sizeof(result), ",\"result\":{\"r\":%u}", item);
    if (fate == FATE_BAD_MESSAGE && fails)
        message(w, "done", item, ",\"result\":{\"r\":NaN}");
    else if (fails)
        message(w, "fail", item, ",\"error\":\"invented\"");
    else
        message(w, "done", item, result);
    message(w, "ready", 1, "");
}

static void shard_write(struct fake_worker *w)
{
    FILE *file = fopen(w->path, "w");
    if (!file)
        broken("the shard's file %s cannot be written", w->path);
    for (uint64_t item = w->first; item < w->first + w->count; item++)
        fprintf(file, "R%lu\n", item);
    fclose(file);
}

/* ---- work ---- */

static void item_hang(struct fake_worker *w)
{
    w->state = ACTOR_HANGS;
}

/* True: it does not live to answer. */
static bool meets_its_fate(struct fake_worker *w, uint32_t item)
{
    enum item_fate fate = world.scene.fates[item];
    bool is_first = world.truth->worked[item] == 1;
    if (fate == FATE_HANGS) {
        item_hang(w);
        return true;
    }
    if (fate == FATE_KILLS || (fate == FATE_KILLS_ONCE && is_first) ||
        chance(world.scene.rates.dies) || world.scene.always_fails) {
        bool is_signal = chance(500);
        world.truth->n_deaths++;
        fake_die(w, is_signal ? 0 : 3, is_signal ? SIGSEGV : 0);
        return true;
    }
    return false;
}

/*
 * A filter that also prints what is no answer is believed when it has been quiet for twice its longest gap, or
 * rests (docs/decisions/0005): where the kernel does not show that it works, its items must take alike long.
 */
static void item_begin(struct fake_worker *w, uint32_t item)
{
    uint64_t us = world.scene.item_ms * 1000;
    if (world.scene.fates[item] == FATE_FAILS)
        us *= FAILING_TIMES;
    uint64_t spread_us = world.scene.rates.babbles > 0 ? us / 10 : us;
    w->state = ACTOR_WORKS;
    w->item = item;
    after_us(us - spread_us / 2 + below(spread_us + 1), item_through, w, 0);
}

static void end_well(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (!w->is_released)
        fake_die(w, 0, 0);
}

static void finish(struct fake_worker *w)
{
    held_print(w);
    w->state = ACTOR_ENDS;
    after_ms(below(world.scene.teardown_ms + 1), end_well, w, 0);
}

static void item_through(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (w->is_released || w->state != ACTOR_WORKS)
        return;
    uint32_t item = w->item;
    world.truth->worked[item]++;
    if (meets_its_fate(w, item))
        return;
    w->has_answered[item] = true;
    w->n_answered++;
    w->state = ACTOR_WAITS;
    (is_filter() ? line_answer : message_answer)(w, item);
    if (is_filter() && chance(world.scene.rates.early_close))
        fake_input_close(w);
    actor_go(w);
}

static void shard_through(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (w->is_released || w->state != ACTOR_WORKS)
        return;
    for (uint64_t item = w->first; item < w->first + w->count; item++) {
        world.truth->worked[item]++;
        if (meets_its_fate(w, (uint32_t)item))
            return;
        w->has_answered[item] = true;
    }
    shard_write(w);
    finish(w);
}

/* ---- input ---- */

/* The next whole line of what it has read. */
static bool line_take(struct fake_worker *w, struct buf *line)
{
    const char *end = w->own.len > 0 ? memchr(w->own.at, '\n', w->own.len) : NULL;
    if (!end)
        return false;
    size_t len = (size_t)(end + 1 - w->own.at);
    buf_reset(line);
    buf_add(line, w->own.at, len);
    buf_consume(&w->own, len);
    return true;
}

static void line_work(struct fake_worker *w, struct str line)
{
    uint32_t item;
    if (item_in(line, &item)) /* else it is {"batch":…} */
        item_begin(w, item);
}

static bool is_stop(struct str line)
{
    return memmem(line.at, line.len, "\"stop\"", 6) != NULL;
}

bool actor_waits(const struct fake_worker *w)
{
    return w->state == ACTOR_WAITS && !w->input_is_lost && w->pipe.len == 0 &&
           !(w->own.len > 0 && memchr(w->own.at, '\n', w->own.len));
}

void actor_go(struct fake_worker *w)
{
    struct buf line = BUF_INIT;
    while (w->state == ACTOR_WAITS && !w->input_is_lost) {
        if (line_take(w, &line)) {
            if (is_stop(buf_str(&line)))
                finish(w);
            else
                line_work(w, buf_str(&line));
        } else if (w->pipe.len > 0) {
            fake_read(w);
        } else {
            if (!w->is_open[fake_input()])
                finish(w);
            break;
        }
    }
    buf_release(&line);
}

/* ---- birth ---- */

static void loaded(void *context, uint64_t argument)
{
    struct fake_worker *w = context;
    (void)argument;
    if (w->is_released || w->state != ACTOR_LOADS)
        return;
    w->state = ACTOR_WAITS;
    if (world.scene.always_fails && chance(700)) {
        fake_die(w, 1, 0);
        return;
    }
    if (world.scene.kind == KIND_CHANNEL)
        message(w, "ready", world.scene.credits, "");
    if (world.scene.kind == KIND_SHARD) {
        w->state = ACTOR_WORKS;
        after_ms(w->count * world.scene.item_ms, shard_through, w, 0);
        return;
    }
    actor_go(w);
}

void actor_born(struct fake_worker *w, const struct spawn_request *request)
{
    if (world.scene.kind == KIND_SHARD) {
        w->first = strtoull(request->argv[1], NULL, 10);
        w->count = strtoull(request->argv[2], NULL, 10);
        snprintf(w->path, sizeof(w->path), "%s", request->argv[3]);
        for (uint64_t item = w->first; item < w->first + w->count; item++) {
            if (item >= world.scene.n_items)
                broken("item %lu of %u was given", item, world.scene.n_items);
            if (world.truth->is_done[item])
                broken("item %lu was given again, though its shard was done", item);
            w->has[item] = true;
        }
    }
    after_ms(between(5, 5 + world.scene.load_ms), loaded, w, 0);
}
