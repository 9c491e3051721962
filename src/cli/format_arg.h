/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that name a format, for OPT_PARSE.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* An enum record_format. */
MUST_CHECK int record_format_store(struct str text, void *field, struct err *err);
bool record_format_text(const void *field, struct buf *out);
/* An enum out_format. */
MUST_CHECK int out_format_store(struct str text, void *field, struct err *err);
bool out_format_text(const void *field, struct buf *out);
