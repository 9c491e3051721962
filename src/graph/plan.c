/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan's memory, and its index of names and of what jobs leave.
 */
#include "graph/plan.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/xalloc.h"
#include "graph/arena.h"
#include "graph/plan_outs.h"

struct name_slot {
    uint32_t job; /* position + 1; 0: empty */
    uint32_t hash;
};

struct plan_memory {
    struct arena arena;
    struct name_slot *slots; /* the index of names */
    size_t n_slots;          /* a power of 2 */
};

static struct plan_memory *memory_of(struct plan *plan)
{
    if (!plan->memory)
        plan->memory = xcalloc(1, sizeof(*plan->memory));
    return plan->memory;
}

void *plan_alloc(struct plan *plan, size_t bytes)
{
    return arena_alloc(&memory_of(plan)->arena, bytes);
}

const char *plan_text(struct plan *plan, struct str text)
{
    return arena_text(&memory_of(plan)->arena, text);
}

void plan_release(struct plan *plan)
{
    if (plan->memory) {
        arena_release(&plan->memory->arena);
        free(plan->memory->slots);
        free(plan->memory);
    }
    free(plan->jobs);
    free(plan->stages);
    *plan = (struct plan){0};
}

/* ---- the index of names ---- */

/* The slot that has the name, or the free one where it belongs, which then has its hash. */
static struct name_slot *name_slot(const struct plan *plan, const char *name)
{
    const struct plan_memory *memory = plan->memory;
    uint64_t hash = XXH3_64bits(name, strlen(name));
    size_t i = hash & (memory->n_slots - 1);
    for (;; i = (i + 1) & (memory->n_slots - 1)) {
        struct name_slot *slot = &memory->slots[i];
        if (!slot->job)
            slot->hash = (uint32_t)(hash >> 32);
        if (!slot->job || (slot->hash == (uint32_t)(hash >> 32) &&
                           strcmp(plan->jobs[slot->job - 1].name, name) == 0))
            return slot;
    }
}

uint32_t plan_find(const struct plan *plan, const char *name)
{
    if (!plan->memory || !plan->memory->slots)
        return UINT32_MAX;
    return name_slot(plan, name)->job - 1;
}

static size_t slots_for(size_t n)
{
    size_t n_slots = 8;
    while (n_slots < n * 2)
        n_slots *= 2;
    return n_slots;
}

static int names_index(struct plan *plan, struct err *err)
{
    struct plan_memory *memory = memory_of(plan);
    free(memory->slots);
    memory->n_slots = slots_for(plan->n_jobs);
    memory->slots = xcalloc(memory->n_slots, sizeof(*memory->slots));
    for (uint32_t i = 0; i < plan->n_jobs; i++) {
        struct name_slot *slot = name_slot(plan, plan->jobs[i].name);
        if (slot->job)
            return fail(err, ERR_USAGE, "two jobs have the name '%s'; their values have to differ",
                        plan->jobs[i].name);
        slot->job = i + 1;
    }
    return 0;
}

int plan_index(struct plan *plan, struct err *err)
{
    int rc = names_index(plan, err);
    return rc ? rc : plan_outs_check(plan, err);
}

uint64_t plan_digest(const struct plan *plan)
{
    uint64_t digest = plan->n_jobs;
    for (uint32_t i = 0; i < plan->n_jobs; i++) {
        digest = XXH3_64bits_withSeed(plan->jobs[i].name, strlen(plan->jobs[i].name) + 1, digest);
        for (size_t n = 0; plan->jobs[i].argv[n]; n++)
            digest = XXH3_64bits_withSeed(plan->jobs[i].argv[n], strlen(plan->jobs[i].argv[n]) + 1,
                                          digest);
    }
    return digest;
}
