/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json_out.h"

#include "base/json.h"

/* printf would be too slow: millions of members are written. */
static void line_begin(struct json_out *json)
{
    if (!json->is_indented)
        return;
    size_t n_blanks = 2 * json->level;
    buf_reserve(json->to, n_blanks + 1);
    json->to->at[json->to->len] = '\n';
    memset(json->to->at + json->to->len + 1, ' ', n_blanks);
    json->to->len += n_blanks + 1;
    json->to->at[json->to->len] = '\0';
}

static void u64_add(struct buf *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buf_add(out, digits + at, sizeof(digits) - at);
}

void json_out_open(struct json_out *json, char bracket)
{
    buf_add_char(json->to, bracket);
    json->level++;
    json->has_members = false;
}

void json_out_close(struct json_out *json, char bracket)
{
    json->level--;
    if (json->has_members)
        line_begin(json);
    buf_add_char(json->to, bracket);
    json->has_members = true;
}

void json_out_element(struct json_out *json)
{
    if (json->has_members)
        buf_add_char(json->to, ',');
    line_begin(json);
    json->has_members = true;
}

void json_out_key(struct json_out *json, const char *key)
{
    json_out_element(json);
    buf_add_char(json->to, '"');
    buf_add_text(json->to, key);
    buf_add_text(json->to, json->is_indented ? "\": " : "\":");
}

void json_out_u64(struct json_out *json, const char *key, uint64_t value)
{
    json_out_key(json, key);
    u64_add(json->to, value);
}

void json_out_double(struct json_out *json, const char *key, double value)
{
    json_out_key(json, key);
    buf_add_json_double(json->to, value);
}

void json_out_text(struct json_out *json, const char *key, struct str value)
{
    json_out_key(json, key);
    buf_add_json(json->to, value);
}

void json_out_bool(struct json_out *json, const char *key, bool value)
{
    json_out_key(json, key);
    buf_add_text(json->to, value ? "true" : "false");
}
