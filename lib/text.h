/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in libmuster: a growable buffer, and as much JSON as the channel needs. The library depends on libc alone, so
 * it does not use src/base/. Internal names start with mw_ because the static library shares its users' name space.
 */
#pragma once

#include "muster/worker.h"

/* at may be NULL while cap is 0. Not NUL-terminated. */
struct mw_buf {
    char *at;
    size_t len, cap;
};

void mw_buf_release(struct mw_buf *buf);
/* Make room for `more` bytes beyond len. False, with the buffer unchanged: memory ran out. */
bool mw_buf_reserve(struct mw_buf *buf, size_t more);
bool mw_buf_add(struct mw_buf *buf, const void *at, size_t len);
bool mw_buf_add_text(struct mw_buf *buf, const char *text);
bool mw_buf_add_u64(struct mw_buf *buf, uint64_t value);
bool mw_buf_add_json(struct mw_buf *buf, struct muster_text text);

/*
 * Returns the end of the JSON value that begins at `at` (white space before it is skipped), NULL if
 * there is no complete, well-formed one. RFC 8259, UTF-8 checked, nesting at most 512.
 */
const char *mw_json_skip(const char *at, const char *end);
bool mw_json_is_value(struct muster_text text);

/*
 * Walk the members of the object at `at`, one level deep. Begin with the object's first byte; each
 * call returns the position for the next call, NULL after the last member or on malformed text. *ok
 * is true only when NULL means the end of a well-formed object. key is the raw text between its
 * quotes.
 */
const char *mw_json_member(const char *at, const char *end, struct muster_text *key,
                           struct muster_text *value, bool *ok);

bool mw_json_u64(struct muster_text value, uint64_t *out);
/* Decode base64 in place; false if the bytes are not base64. */
bool mw_base64_decode(char *at, size_t *len);
