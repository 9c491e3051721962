/* SPDX-License-Identifier: Apache-2.0
 *
 * Which answers to a question are known to be true: the tails of (head, relation), the heads of
 * (relation, tail). They are for ranks in the filtered setting, in which a true triple does not
 * count against another (Bordes et al., "Translating Embeddings for Modeling Multi-relational
 * Data", NeurIPS 2013).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "graph/triple.h"

struct known {
    struct triple *by_head; /* ascending by head, relation, tail; each once */
    struct triple *by_tail; /* ascending by tail, relation, head */
    size_t n;
};

void known_build(struct known *known, const struct triple *triples, size_t n);
void known_release(struct known *known);

/* Triples that answer a question, in ascending order of the answer. */
struct known_answers {
    const struct triple *at;
    size_t n;
};
struct known_answers known_tails(const struct known *known, uint32_t head, uint32_t relation);
struct known_answers known_heads(const struct known *known, uint32_t relation, uint32_t tail);
bool known_has(const struct known *known, struct triple triple);
