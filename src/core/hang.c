/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hang.h"

#include "base/attr.h"

enum {
    CPU_PARTS = 20,        /* of a processor: with less, it does no work */
    IO_BYTES_PER_MS = 256, /* likewise */
    BUSY_PERCENT = 5,      /* of a device */
    LOOKS = 20,            /* in after_ms */
    EVERY_MIN_MS = 100,    /* processor time is counted in ticks of 10 ms */
    EVERY_MAX_MS = 10 * 1000,
    STALE_LOOKS = 3 /* the last look must not be older than so many */
};

struct watched {
    uint64_t spoke_ms, looked_ms;
    uint64_t still_ms;                  /* since when it has stood still, by all looks */
    struct hang_look look;              /* the last one */
    bool has_look, has_ended, computes; /* computes: it did between the last two looks */
    enum hang_motion motion;            /* by the last verdict */
    bool is_named;
};

struct hang {
    uint64_t after_ms, spoke_ms; /* spoke_ms: the last output of any rank */
    uint32_t n_ranks;
    struct watched ranks[];
};

struct hang *hang_new(uint32_t n_ranks, uint64_t after_ms, uint64_t now_ms)
{
    struct hang *hang = calloc(1, sizeof(*hang) + n_ranks * sizeof(hang->ranks[0]));
    ASSERT(n_ranks > 0 && after_ms > 0);
    if (!hang)
        return NULL;
    hang->n_ranks = n_ranks;
    hang->after_ms = after_ms;
    hang->spoke_ms = now_ms;
    for (uint32_t i = 0; i < n_ranks; i++)
        hang->ranks[i].spoke_ms = now_ms;
    return hang;
}

void hang_free(struct hang *hang)
{
    free(hang);
}

static struct watched *watched_at(struct hang *hang, uint32_t rank)
{
    ASSERT(rank < hang->n_ranks);
    return &hang->ranks[rank];
}

/* ---- facts ---- */

void hang_spoke(struct hang *hang, uint32_t rank, uint64_t at_ms)
{
    struct watched *w = watched_at(hang, rank);
    w->spoke_ms = MAX(w->spoke_ms, at_ms);
    hang->spoke_ms = MAX(hang->spoke_ms, at_ms);
}

void hang_ended(struct hang *hang, uint32_t rank, uint64_t at_ms)
{
    watched_at(hang, rank)->has_ended = true;
    hang_spoke(hang, rank, at_ms);
}

static bool has_computed(const struct hang_look *before, const struct hang_look *now,
                         uint64_t pause_ms)
{
    uint64_t cpu_ms = now->cpu_ms - MIN(before->cpu_ms, now->cpu_ms);
    uint64_t io_bytes = now->io_bytes - MIN(before->io_bytes, now->io_bytes);
    return now->family != before->family || cpu_ms * CPU_PARTS >= pause_ms ||
           io_bytes >= pause_ms * IO_BYTES_PER_MS || now->busy_percent >= BUSY_PERCENT;
}

static bool is_stale(const struct hang *hang, const struct watched *w, uint64_t now_ms)
{
    return !w->has_look || now_ms - MIN(w->looked_ms, now_ms) > STALE_LOOKS * hang_every_ms(hang);
}

void hang_looked(struct hang *hang, uint32_t rank, const struct hang_look *look, uint64_t now_ms)
{
    struct watched *w = watched_at(hang, rank);
    bool is_second = !is_stale(hang, w, now_ms) && now_ms > w->looked_ms;
    w->computes = is_second && has_computed(&w->look, look, now_ms - w->looked_ms);
    if (!is_second || w->computes)
        w->still_ms = now_ms;
    w->has_look = true;
    w->looked_ms = now_ms;
    w->look = *look;
}

bool hang_wants_looks(const struct hang *hang, uint64_t now_ms)
{
    return now_ms - MIN(hang->spoke_ms, now_ms) >= hang->after_ms / 2;
}

uint64_t hang_every_ms(const struct hang *hang)
{
    uint64_t every_ms = hang->after_ms / LOOKS;
    return MIN(MAX(every_ms, (uint64_t)EVERY_MIN_MS), (uint64_t)EVERY_MAX_MS);
}

/* ---- the verdict ---- */

/* How long a rank must have stood still: from the first looks to the first verdict; both may be a little late. */
static uint64_t still_least_ms(const struct hang *hang)
{
    uint64_t slack_ms = STALE_LOOKS * hang_every_ms(hang);
    return hang->after_ms / 2 - MIN(hang->after_ms / 4, slack_ms);
}

static enum hang_motion motion_see(const struct hang *hang, const struct watched *w,
                                   uint64_t now_ms)
{
    if (w->has_ended)
        return HANG_GONE;
    if (is_stale(hang, w, now_ms))
        return HANG_UNKNOWN;
    if (w->look.is_paused)
        return HANG_PAUSED;
    if (w->looked_ms - w->still_ms >= still_least_ms(hang))
        return HANG_STILL;
    return w->computes ? HANG_COMPUTES : HANG_UNKNOWN;
}

static bool is_at(const struct watched *w, uint64_t place)
{
    return w->motion == HANG_STILL && w->look.place == place;
}

/*
 * Is there a place where more than half of the ranks that stand still are? (Boyer and Moore: pairs of unequal places
 * are struck out; the place that is left is the only candidate.)
 */
static bool majority_find(const struct hang *hang, uint32_t n_still, uint64_t *place)
{
    uint32_t n_left = 0, n_there = 0;
    for (const struct watched *w = hang->ranks; w < hang->ranks + hang->n_ranks; w++) {
        if (w->motion != HANG_STILL)
            continue;
        *place = n_left == 0 ? w->look.place : *place;
        n_left += w->look.place == *place ? 1 : -1u;
    }
    for (uint32_t i = 0; i < hang->n_ranks; i++)
        n_there += is_at(&hang->ranks[i], *place);
    return 2 * n_there > n_still;
}

/*
 * All ranks stand still. Names those that are blocked in the kernel, if others are not, since a rank does not wait
 * for others there; else those that are not where most are.
 */
static void odd_name(struct hang *hang, uint32_t n_still)
{
    uint32_t n_blocked = 0;
    for (uint32_t i = 0; i < hang->n_ranks; i++)
        n_blocked += hang->ranks[i].motion == HANG_STILL && hang->ranks[i].look.is_blocked;
    bool is_by_block = n_blocked > 0 && n_blocked < n_still;
    uint64_t most = 0;
    bool has_most = !is_by_block && majority_find(hang, n_still, &most);
    for (uint32_t i = 0; i < hang->n_ranks; i++) {
        struct watched *w = &hang->ranks[i];
        bool is_odd = is_by_block ? w->look.is_blocked : has_most && !is_at(w, most);
        w->is_named = is_odd && w->motion == HANG_STILL;
    }
}

static const enum hang_motion named_motion[] = {
    [HANG_IS_PAUSED] = HANG_PAUSED,
    [HANG_WAITS_FOR_WORK] = HANG_COMPUTES,
    [HANG_OF_SOME] = HANG_STILL,
};

static enum hang_kind kind_of(const struct hang *hang, const struct hang_verdict *v)
{
    uint32_t n_still = v->n_of[HANG_STILL], n_busy = v->n_of[HANG_COMPUTES];
    if (v->silent_ms < hang->after_ms || v->n_of[HANG_UNKNOWN] > 0)
        return HANG_NONE;
    if (v->n_of[HANG_PAUSED] > 0)
        return HANG_IS_PAUSED;
    if (n_still == 0 || n_busy == 0)
        return n_still > 0 ? HANG_OF_ALL : HANG_NONE;
    return n_still > n_busy ? HANG_WAITS_FOR_WORK : HANG_OF_SOME;
}

void hang_judge(struct hang *hang, uint64_t now_ms, struct hang_verdict *out)
{
    *out = (struct hang_verdict){.silent_ms = now_ms - MIN(hang->spoke_ms, now_ms)};
    for (uint32_t i = 0; i < hang->n_ranks; i++) {
        struct watched *w = &hang->ranks[i];
        w->motion = motion_see(hang, w, now_ms);
        out->n_of[w->motion]++;
    }
    out->kind = kind_of(hang, out);
    for (uint32_t i = 0; i < hang->n_ranks; i++) {
        struct watched *w = &hang->ranks[i];
        w->is_named = out->kind != HANG_NONE && out->kind != HANG_OF_ALL &&
                      w->motion == named_motion[out->kind];
    }
    if (out->kind == HANG_OF_ALL)
        odd_name(hang, out->n_of[HANG_STILL]);
    for (uint32_t i = hang->n_ranks; i-- > 0;)
        if (hang->ranks[i].is_named) {
            out->n_named++;
            out->first = i;
        }
}

bool hang_is_named(const struct hang *hang, uint32_t rank)
{
    ASSERT(rank < hang->n_ranks);
    return hang->ranks[rank].is_named;
}

enum hang_motion hang_motion_of(const struct hang *hang, uint32_t rank)
{
    ASSERT(rank < hang->n_ranks);
    return hang->ranks[rank].motion;
}

uint64_t hang_silent_ms(const struct hang *hang, uint32_t rank, uint64_t now_ms)
{
    ASSERT(rank < hang->n_ranks);
    return now_ms - MIN(hang->ranks[rank].spoke_ms, now_ms);
}
