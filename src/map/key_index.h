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

/*
 * Adds the items first, first+1 …, whose lines these are, up to the first that has no such field.
 * Returns how many were added, and in *bytes_out the length of their lines. Makes *key_index if it is NULL.
 */
uint64_t key_index_add(struct key_index **key_index, const char *field, uint64_t first,
                       struct str lines, size_t *bytes_out);
/* Finds the item of an answer, and removes it. False: the field is missing, or its value unknown. */
bool key_index_take(struct key_index *key_index, const char *field, struct str answer,
                    uint64_t *item);
/* The same, given the value of the field. */
bool key_index_take_value(struct key_index *key_index, struct str value, uint64_t *item);
void key_index_free(struct key_index *key_index);
