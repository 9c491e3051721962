/* SPDX-License-Identifier: Apache-2.0
 *
 * --key FIELD: each answer carries the item's own value of a field, so answers are matched by it and
 * not by their order. A table from value to the items in flight with it. Values are compared by meaning
 * (base/json_identity.h): the worker may write them in another form than the input does.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct key_index;

enum key_end {
    KEY_ALL,
    KEY_MISSING, /* the next item has no such field */
    KEY_TAKEN    /* an item in flight has the same value: an answer could be meant for either */
};

/*
 * Adds the items first, first+1 …, whose lines these are, up to the first that cannot be told from an item in flight.
 * *n_added of them were added, and their lines are *n_bytes long. Makes *key_index if it is NULL.
 */
enum key_end key_index_add(struct key_index **key_index, const char *field, uint64_t first,
                           struct str lines, uint64_t *n_added, size_t *n_bytes);
/* Finds the item of an answer, and removes it. False: the field is missing, or its value unknown. */
bool key_index_take(struct key_index *key_index, const char *field, struct str answer,
                    uint64_t *item);
/* The same, given the value of the field. */
bool key_index_take_value(struct key_index *key_index, struct str value, uint64_t *item);
void key_index_free(struct key_index *key_index);
