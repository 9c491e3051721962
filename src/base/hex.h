/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as hex digits. In JSON, a text that is no UTF-8 (a path may be any bytes) stands as
 * {"bytes": "<hex>"}: in the manifest, in the identity of the input, in the lines about shards' files.
 */
#pragma once

#include "base/buf.h"

/* 0 to 15, or -1; letters are small. */
int hex_digit(char c);
void buf_add_hex(struct buf *out, struct str bytes);
/* False if it is no pairs of hex digits; nothing is added then. */
bool buf_add_unhex(struct buf *out, struct str hex);
