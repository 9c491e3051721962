/* SPDX-License-Identifier: Apache-2.0
 *
 * The names that were written into a pickle, in a hash table: each name is written only once, and a
 * file may have a million.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

struct pickle_name {
    struct str module, name; /* borrowed; at == NULL: a free slot */
    uint32_t memo;
};

struct pickle_names {
    struct pickle_name *slots;
    size_t len, cap; /* cap: a power of two */
    uint64_t seed;   /* random, so that nobody can write a file whose names all collide */
};

/* The number stored for the name, which the caller may change; 0 if the name is new. Valid until
 * the next call. */
uint32_t *pickle_names_at(struct pickle_names *names, struct str module, struct str name);
void pickle_names_release(struct pickle_names *names);
