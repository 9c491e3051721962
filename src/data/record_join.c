/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "data/merge_impl.h"

/* Keys are compared as they are written; only where one has an escape are both decoded. */
static bool key_equal(struct str a, struct str b)
{
    if (str_equal(a, b))
        return true;
    bool has_escape =
        (a.len > 0 && memchr(a.at, '\\', a.len)) || (b.len > 0 && memchr(b.at, '\\', b.len));
    if (!has_escape)
        return false;
    cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;
    /* The quotes around a key are its neighbours in the text. */
    return json_to_text((struct str){a.at - 1, a.len + 2}, &left) &&
           json_to_text((struct str){b.at - 1, b.len + 2}, &right) &&
           str_equal(buf_str(&left), buf_str(&right));
}

static bool has_key(struct str object, struct str wanted)
{
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value))
        if (key_equal(key, wanted))
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
