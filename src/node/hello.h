/* SPDX-License-Identifier: Apache-2.0
 *
 * The first message of each direction of a link: versions and machine.
 */
#pragma once

#include "node/wire_body.h"

struct hello_facts {
    const char *version, *program; /* of muster, and its hash (bundle.h) */
    uint64_t silence_limit_ms;
};

/* Adds the body of this process's HELLO. */
void hello_write(struct buf *out, const struct hello_facts *own);
/* Reads the other end's. ERR_UNAVAILABLE if it speaks another protocol, with both versions and hashes; ERR_DATA. */
MUST_CHECK int hello_read(struct str bytes, const struct hello_facts *own, struct wire_hello *out,
                          struct err *err);
