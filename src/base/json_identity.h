/* SPDX-License-Identifier: Apache-2.0
 *
 * When two JSON values are equal: by what they say, not by how it is written.
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
/* The same for a text that is not written as JSON. */
void buf_add_text_identity(struct buf *out, struct str text);
/* A number that is whole from 0 on, however it is written: 4, 4.0, 40e-1. What is beyond 64 bits is
 * UINT64_MAX. False: the value is no such number. */
bool json_to_whole(struct str value, uint64_t *out);
/* Of a number alone; false if it is none. */
bool buf_add_number_identity(struct buf *out, struct str value);
