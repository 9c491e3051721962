/* SPDX-License-Identifier: Apache-2.0
 *
 * The first message of both directions of a link: who is there.
 */
#pragma once

#include "node/wire_body.h"

/* Adds the body of this process's HELLO. */
void hello_write(struct buf *out, const char *version, uint64_t silence_limit_ms);
/* Reads the other end's. ERR_UNAVAILABLE if it speaks another protocol, with both versions; ERR_DATA. */
MUST_CHECK int hello_read(struct str bytes, const char *version, struct wire_hello *out,
                          struct err *err);
