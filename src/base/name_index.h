/* SPDX-License-Identifier: Apache-2.0
 *
 * Names in the order they were added, found by a hash: columns of a table, keys of an object,
 * labels, the entities of a graph; fewer than 2^32 - 1. A name may be added twice, as a header may have two columns of one name; it is found as
 * the first of them.
 */
#pragma once

#include "base/buf.h"

struct name_index {
    struct buf text;  /* the names, one behind the other */
    size_t *ends;     /* name i ends at ends[i], and begins where i-1 ended */
    uint32_t *hashes; /* of name i */
    uint32_t *slots;  /* a hash table: 0, or a name's number + 1; at least half of them are free */
    size_t len, cap, n_slots;
};

#define NAME_INDEX_INIT  \
    {                    \
        .text = BUF_INIT \
    }
#define NAME_NONE SIZE_MAX

void name_index_release(struct name_index *index);
#define cleanup_name_index __attribute__((cleanup(name_index_release)))
struct str name_index_get(const struct name_index *index, size_t i);
/* The number of a name, or NAME_NONE. */
size_t name_index_find(const struct name_index *index, struct str name);
/* Adds a name even if it is there already. Returns the number that name_index_find() gives for
 * it. */
size_t name_index_add(struct name_index *index, struct str name);
/* The number of a name, which is added if it is not there. */
size_t name_index_number(struct name_index *index, struct str name);
