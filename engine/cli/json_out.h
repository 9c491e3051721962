/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON document written from its beginning to its end, on one line or indented by two as Python's
 * json.dump(indent=2) does. What is written may be taken out of the buffer at any time.
 */
#pragma once

#include "base/buf.h"

struct json_out {
    struct buf *to;
    size_t level;
    bool is_indented;
    bool has_members; /* the innermost open object or array has a member */
};

/* `bracket`: '{' or '[' to open, and the '}' or ']' that belongs to it to close. */
void json_out_open(struct json_out *json, char bracket);
void json_out_close(struct json_out *json, char bracket);
/* To be called before an element of an array. */
void json_out_element(struct json_out *json);
/* To be called before the value of a member. */
void json_out_key(struct json_out *json, const char *key);

void json_out_u64(struct json_out *json, const char *key, uint64_t value);
void json_out_double(struct json_out *json, const char *key, double value);
void json_out_text(struct json_out *json, const char *key, struct str value);
void json_out_bool(struct json_out *json, const char *key, bool value);
