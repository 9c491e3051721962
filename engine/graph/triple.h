/* SPDX-License-Identifier: Apache-2.0
 *
 * A fact of a knowledge graph; its members are indices of the dictionaries (names.h).
 */
#pragma once

#include <stdint.h>

struct triple {
    uint32_t head, relation, tail;
};

enum {
    TRIPLE_IDS = sizeof(struct triple) / sizeof(uint32_t) /* the distance from one head to the
                                                           * next in an array of triples, in
                                                           * indices */
};
