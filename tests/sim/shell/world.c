/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/shell/world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "sim/shell/fake_agent.h"

enum {
    EVENTS_MAX = 400000, /* of a session: more means that it runs in circles */
    EVENTS_MAX_HOST = 100000,
    SESSION_MAX_MS = 30 * 60 * 1000
};

struct world world;

struct future {
    uint64_t at_ns, number;
    future_fn *fn;
    void *context;
    uint64_t argument;
    struct place *place;
};

/* A binary heap by time, then by number. */
static struct {
    struct future *at;
    size_t len, cap;
    uint64_t numbers;
} futures;

static bool is_before(const struct future *a, const struct future *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static void swap(size_t a, size_t b)
{
    struct future kept = futures.at[a];
    futures.at[a] = futures.at[b];
    futures.at[b] = kept;
}

static void future_add(struct future future)
{
    if (futures.len == futures.cap) {
        futures.cap = futures.cap ? 2 * futures.cap : 64;
        futures.at = xrealloc(futures.at, futures.cap * sizeof(*futures.at));
    }
    size_t at = futures.len++;
    futures.at[at] = future;
    for (size_t above; at > 0 && is_before(&futures.at[at], &futures.at[above = (at - 1) / 2]);
         at = above)
        swap(at, above);
}

static struct future future_take(void)
{
    struct future first = futures.at[0];
    futures.at[0] = futures.at[--futures.len];
    for (size_t at = 0, least = 0;; at = least) {
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < futures.len && is_before(&futures.at[child], &futures.at[least]))
                least = child;
        if (least == at)
            return first;
        swap(at, least);
    }
}

void world_begin(uint64_t seed)
{
    uint64_t rest = mix64(seed * 16 + world.session);
    world.seed = seed;
    world.rng = (struct rng){rest};
    world.now_ns = 1000000000000u + seed % 1000 * 1000000;
    world.begin_ns = world.now_ns;
    world.place = NULL;
    futures_forget();
}

uint64_t world_ms(void)
{
    return (world.now_ns - world.begin_ns) / 1000000;
}

bool chance(unsigned thousandths)
{
    return thousandths > 0 && rng_below(&world.rng, 1000) < thousandths;
}

uint64_t below(uint64_t bound)
{
    return bound > 0 ? rng_below(&world.rng, bound) : 0;
}

uint64_t between(uint64_t least, uint64_t most)
{
    return least + below(most - least + 1);
}

void after_us(uint64_t us, future_fn *fn, void *context, uint64_t argument)
{
    future_add((struct future){.at_ns = world.now_ns + us * 1000,
                               .number = futures.numbers++,
                               .fn = fn,
                               .context = context,
                               .argument = argument,
                               .place = world.place});
}

void at_place_us(struct place *place, uint64_t us, future_fn *fn, void *context, uint64_t argument)
{
    struct place *here = world.place;
    world.place = place;
    after_us(us, fn, context, argument);
    world.place = here;
}

void after_ms(uint64_t ms, future_fn *fn, void *context, uint64_t argument)
{
    after_us(ms * 1000 + below(1000), fn, context, argument);
}

uint64_t future_next_ns(void)
{
    return futures.len > 0 ? futures.at[0].at_ns : UINT64_MAX;
}

void futures_run(void)
{
    while (futures.len > 0 && futures.at[0].at_ns <= world.now_ns) {
        struct future next = future_take();
        if (++world.truth->n_events > EVENTS_MAX + world.scene.hosts.n * EVENTS_MAX_HOST)
            broken("it runs in circles: %lu events in %lu ms", world.truth->n_events, world_ms());
        world.place = next.place;
        if (next.place && !is_wake(next.fn))
            place_touch(next.place);
        next.fn(next.context, next.argument);
        world.place = NULL;
        if (next.place)
            place_turn(next.place);
    }
    if (world_ms() > SESSION_MAX_MS)
        broken("it does not end: %lu s", world_ms() / 1000);
}

static void never(void *context, uint64_t argument)
{
    (void)context, (void)argument;
}

void futures_forget_of(future_fn *fn)
{
    for (size_t i = 0; i < futures.len; i++)
        if (futures.at[i].fn == fn)
            futures.at[i].fn = never;
}

void futures_forget(void)
{
    futures.len = 0;
}

void broken(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!world.truth->is_broken)
        vsnprintf(world.truth->broken, sizeof(world.truth->broken), fmt, args);
    va_end(args);
    world.truth->is_broken = true;
    place_leave_stack();
    longjmp(world.give_up, 1);
}

void trace(const char *fmt, ...)
{
    va_list args;
    if (!world.is_traced)
        return;
    va_start(args, fmt);
    fprintf(world.said, "%9.3f ", (double)(world.now_ns - world.begin_ns) / 1e6);
    vfprintf(world.said, fmt, args);
    fputc('\n', world.said);
    va_end(args);
}
