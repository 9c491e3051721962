/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of any bytes in JSON, such as the names of files: as a string, or as {"bytes": "<hex>"} if they are not UTF-8, so
 * that they come back as they were.
 */
#pragma once

#include "base/buf.h"

/* Adds the text as a JSON value; NULL: null. */
void buf_add_json_bytes(struct buf *out, const char *text);
/* Reads such a value. Returns false if the value is neither form. */
bool json_to_bytes(struct str value, struct buf *out);
