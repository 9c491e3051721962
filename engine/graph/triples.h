/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of triples: UTF-8, `head<TAB>relation<TAB>tail`, no header. Triples keep the order of their
 * lines; a triple on two lines is kept twice.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "graph/flaws.h"
#include "graph/names.h"
#include "graph/triple.h"

struct triples {
    struct triple *at;
    size_t n, cap;
};

void triples_release(struct triples *triples);
#define cleanup_triples __attribute__((cleanup(triples_release)))
void triples_add(struct triples *triples, struct triple triple);

/* Sorts by the indices of head, relation and tail, and keeps each triple once. */
void triples_sort_unique(struct triples *triples);
/* A hash of the triples in their order; not safe against adversaries. */
uint64_t triples_hash(const struct triples *triples);

struct triples_opts {
    struct name_index *entities, *relations;
    bool makes_names; /* new names are added; if false, their lines have a flaw */
    bool is_lenient;  /* lines with flaws are left out; if false, they are an error */
};

/*
 * Adds the triples of a file. Lines with flaws are counted in `flaws`. ERR_DATA if lines are left
 * out and is_lenient is false, or if there is no triple.
 */
MUST_CHECK int triples_read(struct triples *triples, const char *path,
                            const struct triples_opts *opts, struct flaws *flaws, struct err *err);
