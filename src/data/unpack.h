/* SPDX-License-Identifier: Apache-2.0
 *
 * One interface over zlib and libzstd: bytes in, bytes out, members one after the other.
 */
#pragma once

#include "data/format.h"

struct unpack;
struct unpack *unpack_new(enum packing packing);
void unpack_free(struct unpack *unpack);
/*
 * Unpacks from the front of *in, which then begins behind the bytes that were used, and puts at
 * most cap bytes at `at`; *n_out may be 0.
 */
MUST_CHECK int unpack_some(struct unpack *unpack, struct str *in, char *at, size_t cap,
                           size_t *n_out, struct err *err);
/* False while a member is open: the packed file is cut off if it ends here. */
bool unpack_is_at_end(const struct unpack *unpack);
