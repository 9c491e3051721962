/* SPDX-License-Identifier: Apache-2.0
 *
 * The text side of libmuster: a growable buffer, and the little JSON that the channel needs. The
 * library stands on libc alone, so it has its own, smaller than src/base/, and its internal names
 * start with mw_ because the static library shares its users' name space.
 */
#pragma once

#include "muster/worker.h"

/* at may be NULL while cap is 0. Not NUL-terminated. */
struct mw_buf {
    char *at;
    size_t len, cap;
};

void mw_buf_release(struct mw_buf *buf);
/* Make room for `more` bytes beyond len; false when memory ran out, and the buffer is as before. */
bool mw_buf_reserve(struct mw_buf *buf, size_t more);
bool mw_buf_add(struct mw_buf *buf, const void *at, size_t len);
bool mw_buf_add_text(struct mw_buf *buf, const char *text);
bool mw_buf_add_u64(struct mw_buf *buf, uint64_t value);
bool mw_buf_add_json(struct mw_buf *buf, struct muster_text text);

/*
 * Past the JSON value that begins at `at` (white space before it is skipped), NULL if there is no
 * complete, well-formed one. RFC 8259, UTF-8 checked, nesting at most 512.
 */
const char *mw_json_skip(const char *at, const char *end);
bool mw_json_is_value(struct muster_text text);

/*
 * Walk the members of the object at `at`, one level deep: begin with the object's first byte; each
 * call returns where the next one starts, NULL after the last; *ok tells whether that was the
 * object's end. key is the raw text between its quotes.
 */
const char *mw_json_member(const char *at, const char *end, struct muster_text *key,
                           struct muster_text *value, bool *ok);

bool mw_json_u64(struct muster_text value, uint64_t *out);
/* Decode base64 in place; false if it is none. */
bool mw_base64_decode(char *at, size_t *len);
