/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the content of a file as a tree: a line for each value, or nested JSON objects. The output
 * is bounded for every file: only the beginning of a long list is shown, and deep and large trees
 * end with "more".
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

#define TREE_UNSAID UINT64_MAX

enum {
    TREE_DEPTH_MAX = 40,
    TREE_LINES_MAX = 20000,
    TREE_LIST_HEAD = 3, /* items shown of a list with more than TREE_LIST_MAX items */
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
    const uint64_t *shape; /* NULL: it has no shape */
    size_t n_dims;
    uint64_t bytes, count; /* TREE_UNSAID */
    struct str scalar;     /* as JSON; empty: no scalar */
    struct str note;
};

#define TREE_VALUE_INIT                            \
    {                                              \
        .bytes = TREE_UNSAID, .count = TREE_UNSAID \
    }

/* Prints a value without parts. */
void tree_leaf(struct tree *tree, struct str key, const struct tree_value *value);
/*
 * Prints a value with parts; the caller prints the parts and then calls tree_close(). False if the
 * parts are not to be printed; then tree_close() must not be called.
 */
bool tree_open(struct tree *tree, struct str key, const struct tree_value *value);
void tree_close(struct tree *tree);
/* Prints that `count` more parts are not shown. */
void tree_more(struct tree *tree, uint64_t count);
