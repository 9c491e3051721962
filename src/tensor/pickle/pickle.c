/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/pickle/pickle.h"

#include "base/cleanup.h"
#include "tensor/bytes.h"

void pickle_release(struct pickle *pickle)
{
    buf_release(&pickle->decoded);
    free(pickle->nodes);
    free(pickle->chunks);
    free(pickle->globals);
    free(pickle->storages);
    free(pickle->later);
    free(pickle->splices.at);
    free(pickle->splices.imports);
    free(pickle->splices.used);
    *pickle = (struct pickle){0};
}

/* Offsets from text.len on are in `decoded`. */
struct str pickle_bytes(const struct pickle *pickle, const struct pickle_node *node)
{
    const char *at = node->at < pickle->text.len
                         ? pickle->text.at + node->at
                         : pickle->decoded.at + (node->at - pickle->text.len);
    return (struct str){at, node->count};
}

struct pickle_walk pickle_items(const struct pickle_node *node)
{
    if (node->chunks.last == 0)
        return (struct pickle_walk){.at = node->chunks.first, .n_left = node->count};
    return (struct pickle_walk){.next = node->chunks.first};
}

pickle_id pickle_next(const struct pickle *pickle, struct pickle_walk *walk)
{
    if (walk->n_left == 0) {
        if (walk->next == 0)
            return 0;
        const uint32_t *chunk = &pickle->chunks[walk->next];
        *walk = (struct pickle_walk){.at = walk->next + 2, .n_left = chunk[1], .next = chunk[0]};
    }
    walk->n_left--;
    return pickle->chunks[walk->at++];
}

pickle_id pickle_get(const struct pickle *pickle, const struct pickle_node *pairs, struct str key)
{
    struct pickle_walk walk = pickle_items(pairs);
    pickle_id found = 0, id;
    while ((id = pickle_next(pickle, &walk)) != 0) {
        pickle_id value = pickle_next(pickle, &walk);
        const struct pickle_node *node = pickle_node(pickle, id);
        if (node->kind == PICKLE_TEXT && str_equal(pickle_bytes(pickle, node), key))
            found = value;
    }
    return found;
}

pickle_id pickle_item(const struct pickle *pickle, const struct pickle_node *tuple, uint32_t index)
{
    struct pickle_walk walk = pickle_items(tuple);
    pickle_id id = 0;
    for (uint32_t i = 0; i <= index; i++)
        id = pickle_next(pickle, &walk);
    return id;
}

bool pickle_to_u64(const struct pickle *pickle, pickle_id id, uint64_t *out)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    if (id == 0 || node->kind != PICKLE_INT || node->integer < 0)
        return false;
    *out = (uint64_t)node->integer;
    return true;
}

const struct pickle_later *pickle_later(const struct pickle *pickle, const struct pickle_node *call)
{
    static const struct pickle_later nothing;
    return call->count > 0 ? &pickle->later[call->count] : &nothing;
}
