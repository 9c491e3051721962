/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/arena.h"

enum {
    PIECE_BYTES = 256 * 1024,
    ALIGNMENT = 16
};

struct arena_piece {
    struct arena_piece *before;
    size_t used, cap;
    _Alignas(ALIGNMENT) char at[];
};

void *arena_alloc(struct arena *arena, size_t bytes)
{
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!arena->last || arena->last->cap - arena->last->used < rounded) {
        size_t cap = MAX(rounded, (size_t)PIECE_BYTES);
        struct arena_piece *piece = xcalloc(1, sizeof(*piece) + cap);
        piece->before = arena->last;
        piece->cap = cap;
        arena->last = piece;
    }
    void *out = arena->last->at + arena->last->used;
    arena->last->used += rounded;
    return out;
}

char *arena_text(struct arena *arena, struct str text)
{
    char *copy = arena_alloc(arena, text.len + 1);
    if (text.len > 0)
        memcpy(copy, text.at, text.len);
    return copy;
}

void arena_release(struct arena *arena)
{
    while (arena->last) {
        struct arena_piece *before = arena->last->before;
        free(arena->last);
        arena->last = before;
    }
}
