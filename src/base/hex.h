/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes as hex digits. In JSON, a text that is not UTF-8 (a path may be any bytes) is written as
 * {"bytes": "<hex>"}: in the manifest, in the identity of the input, in the lines about shards'
 * files.
 */
#pragma once

#include "base/buf.h"

/* 0 to 15; -1 for anything but 0-9 and a-f (lower case only). */
int hex_digit(char c);
void buf_add_hex(struct buf *out, struct str bytes);
/* False, and nothing is added, if hex is not made of pairs of hex digits. */
bool buf_add_unhex(struct buf *out, struct str hex);
