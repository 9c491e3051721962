/* SPDX-License-Identifier: Apache-2.0
 *
 * --key FIELD: each answer carries the item's own value of a field, so answers are matched by it and
 * not by their order. A table from value to the items in flight with it. Values are equal by what they
 * say (base/json_identity.h): the worker may write them another way than the input does.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct keyed;

/*
 * Remember the items first, first+1 … whose lines these are, up to the first that has no such field.
 * Returns how many, and in *bytes_out how long their lines are. Makes *keyed when it is NULL.
 */
uint64_t keyed_add(struct keyed **keyed, const char *field, uint64_t first, struct str lines,
                   size_t *bytes_out);
/* The item that an answer belongs to; it is forgotten. False: the field is missing or unknown. */
bool keyed_take(struct keyed *keyed, const char *field, struct str answer, uint64_t *item);
/* The same for the value of the field. */
bool keyed_take_value(struct keyed *keyed, struct str value, uint64_t *item);
void keyed_free(struct keyed *keyed);
