/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/eval_twins.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/xalloc.h"

struct place {
    uint64_t hash; /* hash of the embedding */
    float bias;
    uint32_t entity;
};

static int by_hash(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    if (x->bias != y->bias)
        return x->bias < y->bias ? -1 : 1;
    return x->entity < y->entity ? -1 : x->entity > y->entity;
}

void twins_find(struct twins *twins, const struct conve *model)
{
    size_t n = model->shape.n_entities, dim = conve_dim(&model->shape);
    const float *rows = model->at[PARAM_ENTITY], *bias = model->at[PARAM_ENTITY_BIAS];
    struct place *places = xcalloc(n, sizeof(*places));
    for (size_t i = 0; i < n; i++)
        places[i] = (struct place){XXH3_64bits(rows + i * dim, dim * sizeof(*rows)),
                                   bias ? bias[i] : 0, (uint32_t)i};
    qsort(places, n, sizeof(*places), by_hash);
    *twins = (struct twins){.at = xcalloc(n, sizeof(*twins->at))};
    for (size_t i = 1; i < n; i++) {
        const struct place *place = &places[i], *last = &places[i - 1];
        if (place->hash == last->hash &&
            memcmp(rows + place->entity * dim, rows + last->entity * dim, dim * sizeof(*rows)) == 0)
            twins->at[twins->n++] =
                (struct twin){place->entity, last->entity, !(place->bias != last->bias)};
    }
    free(places);
}

void twins_release(struct twins *twins)
{
    free(twins->at);
    *twins = (struct twins){0};
}

void twins_level(const struct twins *twins, bool are_tails, size_t n, size_t n_entities,
                 float *scores)
{
    for (size_t question = 0; twins->n > 0 && question < n; question++) {
        float *own = scores + question * n_entities;
        for (size_t i = 0; i < twins->n; i++)
            if (twins->at[i].has_same_bias || !are_tails)
                own[twins->at[i].entity] = own[twins->at[i].other];
    }
}
