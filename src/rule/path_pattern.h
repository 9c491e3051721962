/* SPDX-License-Identifier: Apache-2.0
 *
 * A path pattern consists of keys and indices from the root of a value, joined by dots:
 * questions.*.question_id. A key may have the wildcards * ? [...] of file names; it then matches
 * every key or index that fits.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    PATH_KEYS_MAX = 64
};

struct path_pattern {
    struct str at[PATH_KEYS_MAX]; /* the keys; they borrow from the parsed text */
    size_t len;
};

/* ERR_USAGE for an empty key, and for too many keys. */
MUST_CHECK int path_pattern_parse(const char *text, struct path_pattern *out, struct err *err);
bool path_key_is_wildcard(struct str key);
bool path_key_matches(struct str key, struct str name);
