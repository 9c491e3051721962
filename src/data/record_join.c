/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "data/merge_impl.h"

static bool has_key(struct str object, struct str wanted)
{
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value))
        if (json_keys_equal(key, wanted))
            return true;
    return false;
}

static void members_add(struct str object, struct str but_not_in, bool *is_first, struct buf *out)
{
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value)) {
        if (but_not_in.len > 0 && has_key(but_not_in, key))
            continue;
        buf_add_text(out, *is_first ? "{\"" : ",\"");
        buf_add_str(out, key);
        buf_add_text(out, "\":");
        buf_add_str(out, value);
        *is_first = false;
    }
}

int join_records(struct str input, struct str result, struct buf *out, struct err *err)
{
    bool is_first = true;
    if (!json_is_value(input))
        return fail(err, ERR_DATA, "its input is not a JSON value");
    if (json_is_object(input) && json_is_object(result)) {
        members_add(input, result, &is_first, out);
        members_add(result, (struct str){NULL, 0}, &is_first, out);
        buf_add_text(out, is_first ? "{}" : "}");
        return 0;
    }
    buf_add_text(out, "{\"input\":");
    buf_add_str(out, input);
    buf_add_text(out, ",\"result\":");
    buf_add_str(out, result);
    buf_add_char(out, '}');
    return 0;
}
