/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of small whole numbers as people write them: "0,2,5-7". Pure.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/*
 * Parse into out[0..*n_out), in the order written. Refuses (ERR_USAGE) an empty list, an empty
 * piece, a reversed range, a number above `max`, a duplicate, and more than out_cap entries.
 */
MUST_CHECK int idlist_parse(struct str text, uint32_t max, uint32_t *out, size_t out_cap,
                            size_t *n_out, struct err *err);
/* "0-3,7": ascending runs of three or more are folded. */
void idlist_format(struct buf *out, const uint32_t *ids, size_t n_ids);
