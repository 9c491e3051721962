/* SPDX-License-Identifier: Apache-2.0
 *
 * What is nearly JSON: an object whose members can be told apart though a value in it is none (NaN,
 * text that is no UTF-8, nesting without measure), and words for what is wrong with it.
 */
#pragma once

#include "base/json.h"

/*
 * As json_next, but values are only bounded: by the commas, colons and brackets outside of texts. A
 * value may be empty. walk->malformed: not even that could be found, or something follows the object.
 */
bool json_rough_next(struct json_members *walk, struct str *key, struct str *value);

/*
 * Why a text is no JSON value, to be put behind "it"; *where is the piece that gave it away, or empty.
 * NULL: it may be one, as far as its pieces go.
 */
const char *json_flaw(struct str text, struct str *where);
