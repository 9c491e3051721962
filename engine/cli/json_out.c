/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/json_out.h"

#include "base/json.h"

static void line_begin(struct json_out *json)
{
    if (json->is_indented)
        buf_addf(json->to, "\n%*s", (int)(2 * json->level), "");
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
    buf_addf(json->to, json->is_indented ? "\"%s\": " : "\"%s\":", key);
}

void json_out_u64(struct json_out *json, const char *key, uint64_t value)
{
    json_out_key(json, key);
    buf_addf(json->to, "%lu", (unsigned long)value);
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
