/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether two JSON values are equal: their meaning is compared, not their spelling.
 */
#pragma once

#include "base/buf.h"

/*
 * Adds bytes that are the same for equal values, and for no others. Texts are compared by their
 * characters ("é", "\u00e9"; a lone surrogate equals itself alone), numbers exactly, however large
 * (1, 1.0, 1e0; 0 and -0), objects whatever the order of their members. A value that is not
 * well-formed adds its bytes as they are. A number is added as its shortest plain decimal unless
 * that is long, so it can be shown to people.
 */
void buf_add_json_identity(struct buf *out, struct str value);
/* As buf_add_json_identity(), for a string given as plain bytes instead of JSON. */
void buf_add_text_identity(struct buf *out, struct str text);
/* A whole number >= 0, however it is written: 4, 4.0, 40e-1. A number beyond 64 bits gives
 * UINT64_MAX. False if the value is not such a number. */
bool json_to_whole(struct str value, uint64_t *out);
/* As buf_add_json_identity(), for a number; false if the value is not one. */
bool buf_add_number_identity(struct buf *out, struct str value);
/* Greater than, equal to or less than 0, as a is to b: numbers that are finite as floats. They are
 * compared as they are written, since a float holds no more than 53 bits of them. */
int json_number_order(struct str a, struct str b);
