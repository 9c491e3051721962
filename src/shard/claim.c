/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds which of a million shards owns a file: a hash table of shards with open addressing. Its
 * keys are the paths where the programs left their files. The keys are read from the results, so
 * the entry of a shard that has lost its result is ignored.
 */
#include <xxhash.h>

#include "base/xalloc.h"
#include "shard/shard.h"

enum {
    SLOTS_MIN = 64
};

/* The path where the shard's program left the file; NULL if the shard has no result. */
static const char *place_of(const struct shards *shards, uint64_t shard, size_t of_kind)
{
    const struct shard_file *files = shards->results[shard].files;
    return !files ? NULL : files[of_kind].origin ? files[of_kind].origin : files[of_kind].path;
}

static bool is_file_of(const struct shards *shards, uint64_t shard, size_t of_kind,
                       const char *place)
{
    const char *own = place_of(shards, shard, of_kind);
    return own && strcmp(own, place) == 0;
}

static size_t slot_of(const struct shard_claims *claims, const char *place)
{
    return XXH3_64bits(place, strlen(place)) & (claims->n_slots - 1);
}

static size_t slot_after(const struct shard_claims *claims, size_t slot)
{
    return (slot + 1) & (claims->n_slots - 1);
}

static void claim_put(struct shard_claims *claims, size_t slot, uint64_t shard)
{
    claims->slots[slot] = (uint32_t)shard + 1;
    claims->n_used++;
}

/*
 * At most half of the slots may be used, so the table has room for twice as many shards as have a
 * result.
 */
static void claims_build(const struct shards *shards, size_t of_kind, struct shard_claims *claims)
{
    uint64_t n_results = 0;
    for (uint64_t k = 0; k < shards->n_shards; k++)
        n_results += shards->results[k].files != NULL;
    free(claims->slots);
    *claims = (struct shard_claims){.n_slots = SLOTS_MIN};
    while (claims->n_slots < 4 * (n_results + 1))
        claims->n_slots *= 2;
    claims->slots = xcalloc(claims->n_slots, sizeof(*claims->slots));
    for (uint64_t k = 0; k < shards->n_shards; k++) {
        if (!shards->results[k].files)
            continue;
        size_t slot = slot_of(claims, place_of(shards, k, of_kind));
        while (claims->slots[slot] != 0)
            slot = slot_after(claims, slot);
        claim_put(claims, slot, k);
    }
}

uint64_t shard_claim(struct shards *shards, size_t of_kind, const char *place, uint64_t shard)
{
    struct shard_claims *claims = &shards->kinds[of_kind].claims;
    bool is_there = false;
    if (2 * (claims->n_used + 1) > claims->n_slots)
        claims_build(shards, of_kind, claims);
    size_t slot = slot_of(claims, place);
    for (; claims->slots[slot] != 0; slot = slot_after(claims, slot)) {
        uint64_t owner = claims->slots[slot] - 1;
        if (owner != shard && is_file_of(shards, owner, of_kind, place))
            return owner;
        is_there = is_there || owner == shard;
    }
    if (!is_there)
        claim_put(claims, slot, shard);
    return UINT64_MAX;
}
