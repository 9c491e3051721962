/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that were written into a pickle, by hash: each is written once, and a file may have a million of them.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

struct pickle_name {
    struct str module, name; /* borrowed; at NULL: free */
    uint32_t memo;
};

struct pickle_names {
    struct pickle_name *slots;
    size_t len, cap; /* cap: a power of two */
    uint64_t seed;   /* nobody can write a file whose names all have one hash */
};

/* What is known of the name, 0 if it is new. Borrowed until the next call. */
uint32_t *pickle_names_at(struct pickle_names *names, struct str module, struct str name);
void pickle_names_release(struct pickle_names *names);
