/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/pickle/pickle_names.h"

#include <xxhash.h>

#include "base/xalloc.h"
#include "tensor/hash_seed.h"

static struct pickle_name *slot_find(const struct pickle_names *names, struct str module,
                                     struct str name)
{
    uint64_t hash = XXH3_64bits_withSeed(module.at, module.len, names->seed);
    size_t i = (size_t)XXH3_64bits_withSeed(name.at, name.len, hash) & (names->cap - 1);
    while (names->slots[i].name.at &&
           !(str_equal(names->slots[i].name, name) && str_equal(names->slots[i].module, module)))
        i = (i + 1) & (names->cap - 1);
    return &names->slots[i];
}

static void names_grow(struct pickle_names *names)
{
    struct pickle_names old = *names;
    names->seed = old.cap == 0 ? hash_seed() : old.seed;
    names->cap = MAX(old.cap * 2, (size_t)32);
    names->slots = xcalloc(names->cap, sizeof(*names->slots));
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].name.at)
            *slot_find(names, old.slots[i].module, old.slots[i].name) = old.slots[i];
    free(old.slots);
}

uint32_t *pickle_names_at(struct pickle_names *names, struct str module, struct str name)
{
    if (names->len * 2 >= names->cap)
        names_grow(names);
    struct pickle_name *slot = slot_find(names, module, name);
    if (!slot->name.at) {
        *slot = (struct pickle_name){module, name, 0};
        names->len++;
    }
    return &slot->memo;
}

void pickle_names_release(struct pickle_names *names)
{
    free(names->slots);
    *names = (struct pickle_names){0};
}
