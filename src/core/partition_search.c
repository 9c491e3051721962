/* SPDX-License-Identifier: Apache-2.0
 *
 * The contiguous partition with the least highest use, of a sequence of units over stages in a given order.
 *
 * It is found by parametric search: a partition with no use above a limit exists if and only if it works to fill each
 * stage as far as the limit allows before the next one. The limit is narrowed down to a difference of one byte on the
 * stage with the largest scale. In between, a stage has at most one possible use, and those few are gone through one
 * by one, so the result is exact. Uses are fractions, never rounded.
 */
#include "core/partition_units.h"

bool use_is_less(struct use a, struct use b)
{
    return a.part * b.whole < b.part * a.whole;
}

/* The most bytes of a stage with a use of at most `limit`, or, if is_below, less. */
static uint64_t stage_takes(const struct unit_stage *stage, struct use limit, bool is_below)
{
    u128 part = limit.part * stage->scale, bytes = part / limit.whole;
    if (is_below && part % limit.whole == 0)
        bytes--;
    return bytes <= stage->fixed ? 0 : (uint64_t)MIN(bytes - stage->fixed, (u128)stage->room);
}

/* Fills stage after stage. False: not all fits. */
static bool stages_fill(const struct cutting *c, struct use limit, bool is_below, uint32_t *ends)
{
    uint32_t cut = 0;
    for (uint32_t s = 0; s < c->n_stages; s++) {
        uint32_t reach = unit_line_reach(c->line, cut, stage_takes(&c->stages[s], limit, is_below));
        ends[s] = cut = MIN(reach, c->end);
    }
    return cut == c->end;
}

static struct use stage_use(const struct unit_stage *stage, uint64_t bytes)
{
    return bytes > 0 ? (struct use){(u128)stage->fixed + bytes, stage->scale} : (struct use){0, 1};
}

static struct use highest_use(const struct cutting *c, const uint32_t *ends)
{
    struct use highest = {0, 1};
    for (uint32_t s = 0, start = 0; s < c->n_stages; start = ends[s++]) {
        uint64_t bytes = c->line->before[ends[s]] - c->line->before[start];
        struct use use = stage_use(&c->stages[s], bytes);
        if (use_is_less(highest, use))
            highest = use;
    }
    return highest;
}

static const struct unit_stage *largest_stage(const struct cutting *c)
{
    const struct unit_stage *largest = c->stages;
    for (const struct unit_stage *stage = c->stages; stage < c->stages + c->n_stages; stage++)
        if (stage->room > 0 && (largest->room == 0 || stage->scale > largest->scale))
            largest = stage;
    return largest;
}

/* A limit for which there is a partition, which it leaves in `ends`. */
static struct use first_limit(const struct cutting *c, uint32_t *ends)
{
    struct use limit = stage_use(largest_stage(c), c->line->before[c->end]);
    if (!stages_fill(c, limit, false, ends)) {
        bool fits = stages_fill(c, (struct use){UINT64_MAX, 1}, false, ends);
        ASSERT(fits);
    }
    return highest_use(c, ends);
}

/* The least limit for which there is a partition. `ends` has one for `limit`, and is scratch. */
static struct use limit_lower(const struct cutting *c, struct use limit, uint32_t *ends)
{
    uint64_t scale = largest_stage(c)->scale;
    /* Parts of that scale: no partition, and one. */
    u128 out = 0, good = (limit.part * scale + limit.whole - 1) / limit.whole;
    while (good - out > 1) {
        u128 middle = out + (good - out) / 2;
        if (stages_fill(c, (struct use){middle, scale}, false, ends))
            good = middle;
        else
            out = middle;
    }
    bool fits = stages_fill(c, (struct use){good, scale}, false, ends);
    while (fits) {
        limit = highest_use(c, ends);
        fits = stages_fill(c, limit, true, ends);
    }
    return limit;
}

/* The first cut from which so many bytes suffice for all up to `end`. */
static uint32_t first_start(const struct unit_line *line, uint32_t end, uint64_t bytes)
{
    uint32_t first = 0, last = end;
    while (first < last) {
        uint32_t middle = first + (last - first) / 2;
        if (line->before[end] - line->before[middle] <= bytes)
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

/* The cut that is nearest to so many bytes behind `start`. */
static uint32_t nearest_cut(const struct unit_line *line, uint32_t start, uint64_t bytes)
{
    uint32_t cut = unit_line_reach(line, start, bytes);
    if (cut == line->n)
        return cut;
    uint64_t at = line->before[start] + bytes;
    return line->before[cut + 1] - at <= at - line->before[cut] ? cut + 1 : cut;
}

/* Stages that are not cut yet. */
struct stage_sum {
    u128 fixed, scales;
};

static struct stage_sum stages_add(const struct cutting *c)
{
    struct stage_sum sum = {0, 0};
    for (uint32_t s = 0; s < c->n_stages; s++) {
        sum.fixed += c->stages[s].room > 0 ? c->stages[s].fixed : 0;
        sum.scales += c->stages[s].room > 0 ? c->stages[s].scale : 0;
    }
    return sum;
}

/* Where the piece of a stage ends if it and those behind it had the same use of the rest. */
static uint32_t level_cut(const struct cutting *c, const struct unit_stage *stage, uint32_t start,
                          struct stage_sum *sum)
{
    if (stage->room == 0)
        return start;
    uint64_t rest = c->line->before[c->end] - c->line->before[start];
    u128 level = (sum->fixed + rest) * stage->scale / sum->scales;
    sum->fixed -= stage->fixed;
    sum->scales -= stage->scale;
    uint64_t bytes =
        level > stage->fixed ? (uint64_t)MIN(level - stage->fixed, (u128)rest) : (uint64_t)0;
    return nearest_cut(c->line, start, bytes);
}

/*
 * Of the partitions whose uses are at most `limit`, one with uses that are as equal as they can
 * be, stage after stage.
 */
static void stages_level(const struct cutting *c, struct use limit, uint32_t *ends)
{
    uint32_t cut = c->end; /* the first one from which the stages behind can take the rest */
    for (uint32_t s = c->n_stages; s-- > 0;) {
        ends[s] = cut;
        cut = first_start(c->line, cut, stage_takes(&c->stages[s], limit, false));
    }
    struct stage_sum sum = stages_add(c);
    for (uint32_t s = 0, start = 0; s < c->n_stages; start = ends[s++]) {
        uint64_t bytes = stage_takes(&c->stages[s], limit, false);
        uint32_t last = MIN(unit_line_reach(c->line, start, bytes), c->end);
        uint32_t level = level_cut(c, &c->stages[s], start, &sum);
        ends[s] = MAX(MIN(level, last), MAX(ends[s], start));
    }
}

struct use stages_least_use(const struct cutting *c, uint32_t *ends)
{
    struct use limit = first_limit(c, ends);
    if (limit.part > 0) {
        limit = limit_lower(c, limit, ends);
        stages_level(c, limit, ends);
    }
    return limit;
}
