/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes and items, both for a pickle that is read and for graphs that are made here.
 */
#include "base/xalloc.h"
#include "tensor/pickle/pickle_impl.h"

void pickle_init(struct pickle *pickle)
{
    *pickle = (struct pickle){.text = {"", 0}, .n_chunks = 1, .cap_chunks = 1};
    pickle->chunks = xcalloc(1, sizeof(*pickle->chunks));
    buf_reserve(&pickle->decoded, 0);                              /* never NULL */
    pickle_add(pickle, (struct pickle_node){.kind = PICKLE_NONE}); /* node 0 stands for no node */
}

pickle_id pickle_add(struct pickle *pickle, struct pickle_node node)
{
    GROW(pickle->nodes, pickle->n_nodes, pickle->cap_nodes);
    pickle->nodes[pickle->n_nodes] = node;
    return (pickle_id)pickle->n_nodes++;
}

pickle_id pickle_add_global(struct pickle *pickle, struct str module, struct str name)
{
    if (pickle->n_globals == pickle->cap_globals) {
        pickle->cap_globals = MAX(pickle->cap_globals * 2, (size_t)16);
        pickle->globals = xrealloc(pickle->globals, pickle->cap_globals * sizeof(*pickle->globals));
    }
    pickle->globals[pickle->n_globals] = (struct pickle_global){
        .module = module, .name = name, .known = pickle_callable_find(module, name)};
    return pickle_add(pickle, (struct pickle_node){.kind = PICKLE_GLOBAL,
                                                   .global = (uint32_t)pickle->n_globals++});
}

static void str_move(struct str *str, const struct buf *from, const char *to)
{
    uintptr_t at = (uintptr_t)str->at, begin = (uintptr_t)from->at;
    if (at >= begin && at < begin + from->len)
        str->at = to + (at - begin);
}

/* Views into the decoded texts are moved along with them. */
void decoded_reserve(struct pickle *pickle, size_t more)
{
    struct buf *decoded = &pickle->decoded;
    if (decoded->len + more < decoded->cap)
        return;
    struct buf grown = BUF_INIT;
    buf_reserve(&grown, MAX(2 * decoded->cap, decoded->len + more));
    buf_add_str(&grown, buf_str(decoded));
    for (size_t i = 0; i < pickle->n_globals; i++) {
        str_move(&pickle->globals[i].module, decoded, grown.at);
        str_move(&pickle->globals[i].name, decoded, grown.at);
    }
    for (size_t i = 0; i < pickle->n_storages; i++) {
        struct pickle_storage *storage = &pickle->storages[i];
        str_move(&storage->module, decoded, grown.at);
        str_move(&storage->type, decoded, grown.at);
        str_move(&storage->key, decoded, grown.at);
        str_move(&storage->location, decoded, grown.at);
    }
    buf_release(decoded);
    *decoded = grown;
}

pickle_id pickle_add_bytes(struct pickle *pickle, enum pickle_kind kind, struct str bytes)
{
    size_t at = pickle->text.len + pickle->decoded.len;
    decoded_reserve(pickle, bytes.len);
    buf_add_str(&pickle->decoded, bytes);
    return pickle_add(pickle, (struct pickle_node){
                                  .kind = (uint8_t)kind, .at = at, .count = (uint32_t)bytes.len});
}

static void chunks_reserve(struct pickle *pickle, size_t n_more)
{
    size_t need = pickle->n_chunks + n_more;
    if (need <= pickle->cap_chunks)
        return;
    pickle->cap_chunks = MAX(need, pickle->cap_chunks + pickle->cap_chunks / 2);
    pickle->chunks = xrealloc(pickle->chunks, pickle->cap_chunks * sizeof(*pickle->chunks));
}

void items_set(struct pickle *pickle, struct pickle_node *container, const pickle_id *ids,
               size_t n_ids)
{
    if (n_ids == 0)
        return;
    chunks_reserve(pickle, n_ids);
    container->chunks.first = (uint32_t)pickle->n_chunks;
    memcpy(pickle->chunks + pickle->n_chunks, ids, n_ids * sizeof(*ids));
    pickle->n_chunks += n_ids;
}

void items_add(struct pickle *pickle, struct pickle_node *container, const pickle_id *ids,
               size_t n_ids)
{
    if (n_ids == 0)
        return;
    uint32_t last = container->chunks.last;
    ASSERT(last != 0 || container->chunks.first == 0);
    chunks_reserve(pickle, n_ids + 2);
    bool is_at_end = last != 0 && last + 2 + pickle->chunks[last + 1] == pickle->n_chunks;
    if (!is_at_end) {
        uint32_t begin = (uint32_t)pickle->n_chunks;
        pickle->chunks[begin] = pickle->chunks[begin + 1] = 0;
        pickle->n_chunks += 2;
        if (last != 0)
            pickle->chunks[last] = begin;
        else
            container->chunks.first = begin;
        container->chunks.last = last = begin;
    }
    memcpy(pickle->chunks + pickle->n_chunks, ids, n_ids * sizeof(*ids));
    pickle->chunks[last + 1] += (uint32_t)n_ids;
    pickle->n_chunks += n_ids;
}

void pickle_add_items(struct pickle *pickle, pickle_id container, const pickle_id *ids,
                      size_t n_ids)
{
    struct pickle_node node = pickle->nodes[container];
    items_add(pickle, &node, ids, n_ids);
    node.count += (uint32_t)(node.kind == PICKLE_DICT ? n_ids / 2 : n_ids);
    pickle->nodes[container] = node;
}

struct pickle_later *pickle_add_later(struct pickle *pickle, pickle_id call)
{
    struct pickle_node *node = &pickle->nodes[call];
    if (node->count == 0) {
        pickle->n_later = MAX(pickle->n_later, (size_t)1); /* index 0 stands for none */
        if (pickle->n_later >= pickle->cap_later) {
            pickle->cap_later = MAX(pickle->cap_later * 2, (size_t)16);
            pickle->later = xrealloc(pickle->later, pickle->cap_later * sizeof(*pickle->later));
        }
        node->count = (uint32_t)pickle->n_later;
        pickle->later[pickle->n_later++] = (struct pickle_later){
            .items.kind = PICKLE_LIST, .pairs.kind = PICKLE_DICT, .states.kind = PICKLE_LIST};
    }
    return &pickle->later[node->count];
}

void pickle_add_pair(struct pickle *pickle, struct pickle_node *pairs, pickle_id key,
                     pickle_id value)
{
    items_add(pickle, pairs, (pickle_id[]){key, value}, 2);
    pairs->count++;
}

void pickle_add_state(struct pickle *pickle, struct pickle_node *states, pickle_id state)
{
    items_add(pickle, states, &state, 1);
    states->count++;
}
