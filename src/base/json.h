/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON without a tree: find where values begin and end, take an object apart one level deep, write
 * strings. Payloads stay the bytes they are. Documents with structure go through jansson instead.
 * Grammar: RFC 8259, strict; depth at most JSON_DEPTH_MAX; UTF-8 validity is checked in strings.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    JSON_DEPTH_MAX = 512
};

enum json_kind {
    JSON_INVALID,
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_BOOL,
    JSON_NULL
};

/*
 * Length of the value (with leading white space skipped into *begin) at the start of text, or 0
 * if there is no complete, well-formed value. What follows the value is not looked at.
 */
size_t json_value(struct str text, size_t *begin);
/* True if text is exactly one well-formed value with white space around it. */
bool json_is_value(struct str text);
bool json_is_object(struct str text);
enum json_kind json_kind_of(struct str value);

/*
 * Walk the members of an object, one level deep:
 *     struct json_members walk = json_members(object);
 *     while (json_next(&walk, &key, &value)) …
 * key is the raw text between its quotes (escapes kept), value the bytes of the member's value.
 * After the loop walk.malformed tells whether it ended early, or something follows the object.
 */
struct json_members {
    struct str rest;
    bool begun, malformed;
};
struct json_members json_members(struct str object);
bool json_next(struct json_members *walk, struct str *key, struct str *value);
/*
 * Is a key, with its escapes decoded, equal to `name`, or to another key? Keys must be views from
 * json_next(): the bytes just outside the view, its quotes, are read too.
 */
bool json_key_equal(struct str key, struct str name);
bool json_keys_equal(struct str a, struct str b);
/* Adds a key to out, with its escapes decoded. */
bool json_key_to_text(struct str key, struct buf *out);
/* The value of one member; false if absent or malformed. First occurrence wins. */
bool json_get(struct str object, const char *key, struct str *value);

/* Cut the next element off *array; false at the array's end, or if it is no array. Start with
 * *array as the whole array's text and `*is_begun` false. */
bool json_element(struct str *array, bool *is_begun, struct str *element);

/* Views of scalar values. False if the value is of another kind or out of range. */
bool json_to_u64(struct str value, uint64_t *out);
bool json_to_double(struct str value, double *out);
bool json_to_bool(struct str value, bool *out);
/* Decoded string content (escapes resolved, surrogates joined; lone ones become U+FFFD). */
bool json_to_text(struct str value, struct buf *out);
/* The text of a member as a new string; NULL if there is none, or if it is longer than max_bytes. */
char *json_text_new(struct str object, const char *key, size_t max_bytes);
/* As json_to_text(), but a lone surrogate becomes the three bytes that UTF-8 would have for it, so
 * that different texts stay different when they are compared. */
bool json_to_wide_text(struct str value, struct buf *out);

/* `"…"` with the escapes JSON needs. Invalid UTF-8 becomes U+FFFD: check utf8_is_valid() first. */
void buf_add_json(struct buf *buf, struct str text);
/* The value with insignificant white space (newlines above all) dropped, strings untouched. */
void buf_add_json_compact(struct buf *buf, struct str value);
/* A well-formed value over several lines, two blanks a level; the first line is not indented. */
void buf_add_json_indented(struct buf *buf, struct str value, size_t level);
/* The shortest text that reads back as the same number, always with a point or an exponent: 0.1,
 * 2.0, 1e+300. */
void buf_add_json_double(struct buf *buf, double value);
void buf_add_base64(struct buf *buf, struct str bytes);
bool utf8_is_valid(struct str text);
