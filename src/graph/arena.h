/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is freed all at once.
 */
#pragma once

#include "base/buf.h"
#include "base/xalloc.h"

struct arena_piece;
struct arena {
    struct arena_piece *last; /* NULL: nothing was taken */
};

/* Aligned for any type, filled with zeros. */
NEVER_NULL void *arena_alloc(struct arena *arena, size_t bytes);
/* A copy, NUL-terminated. */
NEVER_NULL char *arena_text(struct arena *arena, struct str text);
void arena_release(struct arena *arena);
