/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of triples: UTF-8, `head<TAB>relation<TAB>tail`, no header. Triples keep the order of their lines;
 * one that is there twice stays there twice.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

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

/* By index of head, relation and tail, and each once. */
void triples_sort_unique(struct triples *triples);

struct triples_opts {
    struct name_index *entities, *relations;
    bool makes_names; /* a name that is new is added; else its line is a flaw */
    bool is_lenient;  /* lines with flaws are left out, instead of failing */
};

/*
 * Adds the file's triples. What is wrong is counted in flaws: ERR_DATA unless is_lenient. ERR_DATA too if
 * nothing is left.
 */
MUST_CHECK int triples_read(struct triples *triples, const char *path,
                            const struct triples_opts *opts, struct flaws *flaws, struct err *err);
