/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML text as a tree. The texts of scalars are kept as they are written: what is a number, is decided by who reads
 * them. Aliases are shared nodes, and `<<` is filled in. Everything is bounded, whatever the text says: its depth, and
 * its nodes and bytes with aliases counted as often as they stand.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "graph/arena.h"

enum {
    YAML_DEPTH_MAX = 32,
    YAML_WEIGHT_MAX = 16000000 /* nodes, and 16 bytes of text each */
};

enum yaml_kind {
    YAML_SCALAR,
    YAML_LIST,
    YAML_MAPPING
};

struct yaml_item;
struct yaml_node {
    enum yaml_kind kind;
    bool is_plain;         /* a scalar without quotes */
    bool is_open;          /* its end is not read yet */
    uint32_t line, column; /* from 1 */
    uint32_t depth;        /* of the tree below, with itself */
    uint32_t weight;
    const char *source; /* of the text, for messages */
    struct str text;    /* of a scalar; NUL-terminated */
    struct yaml_item *items;
    uint32_t len;
};

struct yaml_item {
    const struct yaml_node *key; /* a scalar; NULL in a list */
    const struct yaml_node *value;
};

/*
 * The tree of a text, in the arena. `source` is its name in messages, which are "source:line:column: …"; it is
 * borrowed as long as the tree lives. ERR_USAGE if it is malformed, is not UTF-8, has several documents, tags, keys that
 * are no texts or stand twice, or is too large.
 */
MUST_CHECK int yaml_parse(struct arena *arena, const char *source, struct str text,
                          const struct yaml_node **out, struct err *err);
/* The value of a key; NULL: there is none. */
const struct yaml_node *yaml_get(const struct yaml_node *mapping, struct str key);
/* True for a scalar without quotes in which nothing stands. */
bool yaml_is_empty(const struct yaml_node *node);
/* "a text", "a list", "a mapping", "nothing". */
const char *yaml_kind_name(const struct yaml_node *node);
/* ERR_USAGE: "source:line:column: …". */
int yaml_fail(struct err *err, const struct yaml_node *at, const char *fmt, ...) PRINTF(3, 4);
