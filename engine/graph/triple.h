/* SPDX-License-Identifier: Apache-2.0
 *
 * A fact of a knowledge graph, by the indices that its dictionaries give.
 */
#pragma once

#include <stdint.h>

struct triple {
    uint32_t head, relation, tail;
};

enum {
    TRIPLE_IDS = sizeof(struct triple) / sizeof(uint32_t) /* from one head to the next */
};
