/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a file, printed as a tree: a line for each thing, or nested JSON objects. Bounded,
 * whatever the file: lists show their beginning, deep and large trees end with "more".
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

#define TREE_UNSAID UINT64_MAX

enum {
    TREE_DEPTH_MAX = 40,
    TREE_LINES_MAX = 20000,
    TREE_LIST_HEAD = 3, /* of a list with more than TREE_LIST_MAX items */
    TREE_LIST_MAX = 8
};

struct tree {
    struct buf *out;
    bool is_json, has_items[TREE_DEPTH_MAX + 2];
    unsigned depth;
    uint64_t n_lines;
};

struct tree_value {
    struct str type;
    const uint64_t *shape; /* NULL: has none */
    size_t n_dims;
    uint64_t bytes, count; /* TREE_UNSAID */
    struct str scalar;     /* as JSON; empty for none */
    struct str note;
};

#define TREE_VALUE_INIT                            \
    {                                              \
        .bytes = TREE_UNSAID, .count = TREE_UNSAID \
    }

/* One thing without parts. */
void tree_leaf(struct tree *tree, struct str key, const struct tree_value *value);
/* One with parts; false if there is no more room for them, and then there is no tree_close(). */
bool tree_open(struct tree *tree, struct str key, const struct tree_value *value);
void tree_close(struct tree *tree);
/* So many parts are not shown. */
void tree_more(struct tree *tree, uint64_t count);
