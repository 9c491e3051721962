/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that is nearly JSON: an object whose members can be told apart although one of its values is
 * not JSON (NaN, text that is not UTF-8, nesting without limit); and a message that says what is
 * wrong with it.
 */
#pragma once

#include "base/json.h"

/*
 * As json_next(), but values are not checked: a value reaches up to the comma or bracket that ends
 * it, outside of strings, and may be empty. walk->malformed: the members could not be told apart
 * even so, or something follows the object.
 */
bool json_rough_next(struct json_members *walk, struct str *key, struct str *value);

/*
 * Why a text is not a JSON value, worded to follow "it"; *where is the faulty piece of the text, or
 * empty. NULL: no single piece is at fault; only pieces are checked, not how they stand together.
 */
const char *json_flaw(struct str text, struct str *where);

/* ERR with `code`: a text that is not a JSON value, as far as JSON is read here, and why. */
int json_refuse(struct str text, int code, struct err *err);
/* Is there a single piece that is at fault, although the text is whole? What was cut off ends with no bracket. */
bool json_is_whole_but_flawed(struct str text);
